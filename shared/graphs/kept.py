"""A file of contributions that a process starts from instead of reading the whole topic."""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MAGIC: Final = b"cortex-graph 1\n"  # the number counts up with the form; an older or newer file is not read
_DIGEST_BYTES: Final = 32


def write_bodies(path: Path, bodies: Iterable[bytes], mark: str) -> None:
    """Write contributions (as JSON) with a mark of the caller's (how far it had read), all or nothing. Raises OSError.

    Form: magic line, mark line, one JSON object a line, and at the end the SHA-256 of all that.
    """
    if "\n" in mark:
        msg = "a mark is one line"
        raise ValueError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest = hashlib.sha256()
            for line in _lines(bodies, mark):
                digest.update(line)
                file.write(line)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())  # a rename may reach the disk before the contents do
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_bodies(path: Path) -> tuple[list[bytes], str] | None:
    """Return contributions (as JSON) and mark; None where there is no file, or one that is torn, damaged or of another form.

    None is the caller's sign to build from the topic: what this file holds can always be had again.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not body.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    mark, *bodies = body[len(MAGIC) :].splitlines()
    return bodies, mark.decode()


def _lines(bodies: Iterable[bytes], mark: str) -> Iterable[bytes]:
    yield MAGIC
    yield f"{mark}\n".encode()
    for body in bodies:
        yield body + b"\n"
