"""What a child process tells the supervisor: one JSON object a line on its standard output."""

import contextlib
import sys
from dataclasses import dataclass
from typing import Final

import orjson

from shared import errors
from shared.errors import AccessError, CortexError, DataFolderError, InputError, NotReady, UnknownModel

EXIT_HOPELESS: Final = 78  # EX_CONFIG of sysexits.h: starting again as things are would end the same way
EXIT_FAILED: Final = 1
HOPELESS: Final = (AccessError, DataFolderError, InputError, UnknownModel)


@dataclass(frozen=True)
class Notice:
    """``stage``: what has been reached. Or ``error``: the name of a typed error, with its ``message``."""

    stage: str | None = None
    error: str | None = None
    message: str = ""

    def as_error(self) -> CortexError:
        """Return the error it tells of, as the type that it had over there; NotReady for one that is not ours."""
        kind = getattr(errors, self.error or "", None)
        if isinstance(kind, type) and issubclass(kind, CortexError):
            return kind(self.message)
        return NotReady(self.message)


def tell(notice: Notice) -> None:
    """Write a notice to standard output; nobody listening is no reason to fail."""
    with contextlib.suppress(OSError):
        sys.stdout.write(orjson.dumps(notice).decode() + "\n")
        sys.stdout.flush()


def tell_failure(error: CortexError) -> int:
    """Tell of a typed error that ends this process; return its exit code."""
    tell(Notice(error=type(error).__name__, message=str(error)))
    return EXIT_HOPELESS if isinstance(error, HOPELESS) else EXIT_FAILED


def read_notice(line: bytes) -> Notice | None:
    """Read a line; None for one that is not a notice (a library may print)."""
    try:
        fields = orjson.loads(line)
        return Notice(stage=fields.get("stage"), error=fields.get("error"), message=str(fields.get("message", "")))
    except (ValueError, AttributeError):
        return None
