"""The git command line: fixed argument lists, no shell, no network, no program of the repository's choosing, deadlines.

A repository is a stranger's: its configuration may name programs (a pager, a signature checker, a file monitor, hooks).
They are switched off for each call, and so is every transport, so that a partial clone does not begin to download.
"""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shared.errors import DeadlineExceeded, Fault, InputError, InvalidInput

CALL_S: Final = 60.0  # one short call; the longest is the count of a history of a million commits
SILENT_S: Final = (
    120.0  # a stream that says nothing for so long is stuck: a rename search in one huge commit takes seconds
)
CHUNK: Final = 65_536
FIELD_BYTES: Final = 1_048_576  # one field of a stream; what is longer is cut there, not collected
ERROR_CHARS: Final = 300
_SAFE: Final = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "log.showSignature=false",
    "-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.quotePath=false", "-c", "gc.auto=0", "-c", "log.mailmap=true",
    "-c", "protocol.allow=never",
)  # fmt: skip


class GitFailed(InputError):
    """The repository cannot be read by git."""


class Git:
    """One repository, read by the git command line. Calls raise GitFailed, DeadlineExceeded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def root(self) -> str:
        """Where the repository is."""
        return str(self._folder)

    def lines_of(self, name: str) -> list[str]:
        """Return the lines of one of git's own files, e.g. ``shallow``; none where there is no such file."""
        path = Path(self._folder, self.text("rev-parse", "--git-path", name))
        return path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []

    def text(self, *arguments: str) -> str:
        """Return what a short call says, without the white space around it."""
        return self._call(arguments).decode("utf-8", "replace").strip()

    def content(self, blob: str) -> bytes:
        """Return the bytes of a file, whole: ask for its size before."""
        return self._call(("cat-file", "blob", blob))

    def succeeds(self, *arguments: str) -> bool:
        """Say whether a short call ends well."""
        try:
            self._call(arguments)
        except GitFailed:
            return False
        return True

    def stream(self, *arguments: str) -> Iterator[bytes]:
        """Yield the NUL-terminated fields that a long call writes, in bounded memory. Ends the call when left."""
        with tempfile.TemporaryFile() as errors:
            with subprocess.Popen(self._command(arguments), stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
                                  env=_environment()) as process:  # fmt: skip
                try:
                    assert process.stdout is not None
                    yield from _fields(process.stdout.fileno())
                    code = process.wait(CALL_S)
                finally:
                    if process.poll() is None:
                        process.kill()
            if code:
                errors.seek(0)
                raise GitFailed(_said(errors.read(CHUNK)))

    def _call(self, arguments: tuple[str, ...]) -> bytes:
        try:
            done = subprocess.run(
                self._command(arguments), capture_output=True, stdin=subprocess.DEVNULL, env=_environment(), timeout=CALL_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise DeadlineExceeded(f"git {arguments[0]} did not end within {CALL_S:.0f} s") from error
        except FileNotFoundError as error:
            raise GitFailed("there is no git on this machine: install it, or use cortex feed docs") from error
        if done.returncode:
            raise GitFailed(_said(done.stderr))
        return done.stdout

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return ["git", "--no-pager", *_SAFE, "-C", str(self._folder), *arguments]


def open_repository(path: Path) -> Git:
    """Return the repository that holds a path: its working tree's root, or the bare repository. Raises InvalidInput."""
    folder = path if path.is_dir() else path.parent
    try:
        git = Git(folder)
        bare = git.text("rev-parse", "--is-bare-repository") == "true"
        root = git.text("rev-parse", "--absolute-git-dir" if bare else "--show-toplevel")
    except GitFailed as error:
        reason = "is not in a git repository" if "not a git repository" in str(error) else f"cannot be read: {error}"
        raise InvalidInput(f"{path} {reason}", (Fault("path", str(error)),)) from error
    return Git(Path(root))


def _environment() -> dict[str, str]:
    """Return our environment without git's own: a feed that runs in a hook must not read the hook's repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _fields(descriptor: int) -> Iterator[bytes]:
    """Yield NUL-terminated fields, each cut at FIELD_BYTES. Raises DeadlineExceeded after SILENT_S without a byte."""
    rest = bytearray()
    last = time.monotonic()
    while True:
        if not select.select([descriptor], [], [], SILENT_S)[0]:
            raise DeadlineExceeded(f"git said nothing for {time.monotonic() - last:.0f} s")
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        last = time.monotonic()
        head, *tail = chunk.split(b"\0")
        rest += head[: max(0, FIELD_BYTES - len(rest))]
        for field in tail:
            yield bytes(rest)
            rest = bytearray(field)
    if rest:
        yield bytes(rest)


def _said(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ")[:ERROR_CHARS] if lines else "git failed and did not say why"
