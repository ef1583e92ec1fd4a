"""Every typed error. They know neither HTTP nor Kafka: query/problems.py and ingest/delivery.py translate them.

CortexError
├── InputError                 the caller's to mend
│   ├── InvalidInput           a field is wrong: which, and which limit
│   ├── UnsupportedVersion     a schema version this release does not know
│   ├── TooLarge               over a bound in bytes or counts
│   ├── InvalidToken           a position token that is not ours
│   └── UnknownThing           no such unit, event or entity (or it may not be seen)
├── AccessError
│   ├── Unauthenticated        no valid bearer token
│   ├── BadSignature           a webhook that is not signed by us, or not now
│   └── Forbidden              the token lacks a right
├── Transient                  the same again may succeed: retry, then 503
│   ├── StoreUnavailable
│   ├── LogUnavailable
│   ├── EmbedderUnavailable
│   ├── CacheUnavailable
│   ├── ModelChanged           the tenant's embedding model changed on the way
│   ├── NotReady               still starting or catching up
│   └── Overloaded             a bound of ours is reached; when to come again
│       └── RateLimited        a caller's own share is used up; when it has one again
├── DeadlineExceeded
├── AllSourcesLost             no arm of the search answered in any scope
├── UnknownModel               vectors of an embedding model that no setting names
├── ToolMissing                a program that something of ours needs is not installed
└── DataFolderError            the local data folder cannot be used
    ├── FolderInUse            another Cortex runs on it
    ├── FolderReadOnly
    ├── FolderNewer            written by a later release
    ├── DiskFull
    └── PortInUse
"""

from dataclasses import dataclass
from typing import ClassVar


class CortexError(Exception):
    """Something Cortex can name. The docstring of the class is the default message."""

    retriable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class InputError(CortexError):
    """The input cannot be used."""


@dataclass(frozen=True)
class Fault:
    """One wrong field: a JSON Pointer or parameter name, what is wrong, and the limit it met."""

    field: str
    message: str
    limit: str | None = None

    def __str__(self) -> str:
        """Name field, fault and limit; an empty field is the whole input, which needs no name."""
        where = f"{self.field}: " if self.field else ""
        limit = f" (limit: {self.limit})" if self.limit else ""
        return f"{where}{self.message}{limit}"


class InvalidInput(InputError):
    """The input has wrong fields."""

    def __init__(self, message: str | None = None, faults: tuple[Fault, ...] = ()) -> None:
        self.faults = faults
        super().__init__(message or "; ".join(map(str, faults)) or None)


class UnsupportedVersion(InputError):
    """The schema version is not known to this release."""


class TooLarge(InputError):
    """The input is larger than the limit."""

    def __init__(self, message: str | None = None, *, limit: int | None = None) -> None:
        self.limit = limit
        super().__init__(message)


class InvalidToken(InputError):
    """The token is not one of this service."""


class UnknownThing(InputError):
    """There is no such thing, or it may not be seen by you."""


class AccessError(CortexError):
    """Access is refused."""


class Unauthenticated(AccessError):
    """A valid bearer token is needed."""


class BadSignature(AccessError):
    """The webhook's signature does not hold, or its timestamp is too far from the present."""


class Forbidden(AccessError):
    """The token does not carry the right for this."""


class Transient(CortexError):
    """A part is unavailable for the moment; the same again may succeed."""

    retriable = True


class StoreUnavailable(Transient):
    """The knowledge store does not answer."""


class LogUnavailable(Transient):
    """The event log does not take events."""


class EmbedderUnavailable(Transient):
    """The embedder does not answer."""


class CacheUnavailable(Transient):
    """The cache does not answer."""


class ModelChanged(Transient):
    """The tenant's embedding model was changed while this was under way."""


class NotReady(Transient):
    """The service is starting or catching up."""


class Overloaded(Transient):
    """Too much at once; try again shortly."""

    def __init__(self, message: str | None = None, *, retry_after_s: int | None = None) -> None:
        """``retry_after_s``: whole seconds until there should be room; None: it is not known."""
        self.retry_after_s = retry_after_s
        super().__init__(message)


class RateLimited(Overloaded):
    """The tenant's share of what is taken a second is used up."""


class DeadlineExceeded(CortexError):
    """It took longer than the deadline allows."""


class AllSourcesLost(CortexError):
    """No part of the search answered: this is a failure, not an empty result."""


class UnknownModel(CortexError):
    """The index is of an embedding model that is not configured here."""


class ToolMissing(CortexError):
    """A program that is needed is not installed."""


class DataFolderError(CortexError):
    """The data folder cannot be used."""


class FolderInUse(DataFolderError):
    """Another Cortex is running on this data folder."""


class FolderReadOnly(DataFolderError):
    """The data folder cannot be written."""


class FolderNewer(DataFolderError):
    """The data folder was written by a later release of Cortex."""


class DiskFull(DataFolderError):
    """The disk of the data folder is full."""


class PortInUse(DataFolderError):
    """A port that Cortex needs is taken by another program."""
