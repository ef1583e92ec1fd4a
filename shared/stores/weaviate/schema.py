"""The two kinds of collections in Weaviate: what they hold and how each property is indexed. Plain data.

``<prefix>Record`` holds everything that is true of a tenant: statements, completions, declarations, contradictions, the
ledger, watermarks, jobs. ``<prefix>Unit_<model>`` holds what is searched: a live unit's chunks, each with its vector of that
model. Each tenant of ours is a tenant there, so a query of one never reads another's files.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import Enum, auto

PREFIX = "Cortex"

UNKNOWN_PAST, UNKNOWN_FUTURE = -(2**60), 2**60
"""Stand for a time that is not known, so that a filter needs no test for null. Beyond every date and exact as a float:
Weaviate's integers travel as doubles. Dates themselves are exact from 1684 to 2255, and within 32 µs elsewhere.
"""

SLOTS = 2**52
"""Objects are numbered by their id within this, to be read page by page."""


class Index(Enum):
    """How a property is indexed. An index costs time at each write, so each property has those that are asked for."""

    NONE = auto()  # text that is stored only
    WHOLE = auto()  # text as it is, one term
    MANY = auto()  # several texts, each one term
    TERMS = auto()  # text of terms between white space, by BM25
    AMOUNT = auto()  # an integer that is stored only
    VALUE = auto()  # an integer by value
    RANGE = auto()  # an integer by range
    ORDER = auto()  # an integer by value and by range; sorting uses the values
    FLAG = auto()  # true or false


@dataclass(frozen=True)
class Collection:
    """A collection by name; ``vectors``: its objects may have one each."""

    name: str
    properties: dict[str, Index]
    vectors: bool = False


RECORD = {
    "kind": Index.WHOLE,
    "keys": Index.MANY,
    "text": Index.WHOLE,
    "models": Index.MANY,
    "past": Index.VALUE,
    "number": Index.ORDER,
    "slot": Index.RANGE,
    "body": Index.NONE,
    "vectors": Index.NONE,
    "stamp": Index.AMOUNT,
}

UNIT = {
    "unit_id": Index.WHOLE,
    "version": Index.NONE,
    "document_id": Index.WHOLE,
    "scope": Index.WHOLE,
    "type": Index.WHOLE,
    "sensitivity": Index.WHOLE,
    "source": Index.WHOLE,
    "supersedes": Index.WHOLE,
    "superseded_by": Index.NONE,
    "place": Index.WHOLE,
    "subjects": Index.MANY,
    "keys": Index.MANY,
    "pid": Index.VALUE,
    "chunk": Index.ORDER,
    "chunks": Index.RANGE,
    "revision": Index.AMOUNT,
    "begins": Index.RANGE,
    "ends": Index.RANGE,
    "superseded_from": Index.RANGE,
    "occurred_start": Index.RANGE,
    "occurred_end": Index.RANGE,
    "recorded": Index.RANGE,
    "moment": Index.ORDER,
    "slot": Index.RANGE,
    "leads": Index.FLAG,
    "words": Index.TERMS,
    "words_digest": Index.NONE,
    "body": Index.NONE,
}


def record_collection(prefix: str) -> Collection:
    """Return the collection of what is true."""
    return Collection(f"{prefix}Record", RECORD)


def unit_collection(prefix: str, model: str) -> Collection:
    """Return the collection of what is searched with a model's vectors. Two models never share one."""
    slug = re.sub(r"[^A-Za-z0-9]+", "_", model)[:40].strip("_")
    return Collection(f"{prefix}Unit_{slug}_{hashlib.sha256(model.encode()).hexdigest()[:8]}", UNIT, vectors=True)
