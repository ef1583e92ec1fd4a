"""Fingerprints of what a store knows: every store writes the same ones, so that two of them can be compared thing by thing.

A fingerprint holds no float, no clock and no position: floats are the one thing two machines may write differently, and
the others differ from one log to the next. Where a revision was taken from a position only the order remains.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from schemas.messages import Mention
from schemas.units import Claim
from shared.effects import Rank, canonical, resolution_row, without_floats

PARTS: Final = ("units", "history", "tombstones", "documents", "mentions", "entities", "relations", "contradictions")
"""What a tenant's state is made of. Identities: a unit's id (units, history, tombstones, mentions), the pair's id, the
entity's id, the relation's identity, and for documents the names that `standing`, `completion` and `waiting` give.
"""

Identified = tuple[str, Any]
"""An identity and its value as JSON."""


def fingerprint(value: Any) -> str:
    """Return SHA-256 (hex) over the canonical JSON of a value, floats left out."""
    return hashlib.sha256(canonical(without_floats(value))).hexdigest()


def fingerprints_of(values: Iterable[Identified]) -> dict[str, str]:
    """Return the fingerprint of each value, by identity."""
    return {identity: fingerprint(value) for identity, value in values}


def part_digest(fingerprints: Mapping[str, str]) -> str:
    """Return SHA-256 (hex) over the fingerprints of a part, by identity."""
    digest = hashlib.sha256()
    for identity in sorted(fingerprints):
        digest.update(canonical([identity, fingerprints[identity]]) + b"\n")
    return digest.hexdigest()


def live_unit(unit_id: str, source: str, event_id: str, unit: Any) -> Identified:
    """A live unit as stated, with its interval, and by which event. ``unit``: its JSON without what is not said."""
    return unit_id, [source, event_id, unit]


def past(unit_id: str, statements: Sequence[tuple[Rank, bool, Any]]) -> Identified:
    """A unit's older statements that are kept, best first: (rank, whether its revision was given, the unit's JSON).

    Without a body, a retraction: nothing is kept of what came before it.
    """
    return unit_id, [
        [rank.source, rank.event_id, rank.revision if explicit else None, body] for rank, explicit, body in statements
    ]


def tombstone(unit_id: str, revision: int, *, explicit: bool) -> Identified:
    """A unit that stands retracted, and up to which revision, where its producer numbers."""
    return unit_id, revision if explicit else None


def standing(document_id: str, revision: int, parts: int, digest: str) -> Identified:
    """The revision of a document that answers."""
    return f"current {document_id}", [revision, parts, digest]


def completion(document_id: str, revision: int, digest: str) -> Identified:
    """A completion of a document that still counts."""
    return f"completion {document_id} {revision} {digest}", True


def waiting(document_id: str, revision: int, part: int, digest: str) -> Identified:
    """A part that is not of the revision that answers."""
    return f"waiting {document_id} {revision} {part} {digest}", True


def resolved(unit_id: str, mentions: Sequence[Mention], claims: Sequence[Claim]) -> Identified:
    """What the resolve stage found in a live unit; units of which nothing was found are left out."""
    return unit_id, resolution_row(mentions, claims)


def declaration(identity: str, data: Any) -> Identified:
    """A declared entity or relation as JSON; None: it stands retracted."""
    return identity, data


def contradiction(pair_id: str, difference: str, detail: str, attribute: str) -> Identified:
    """A pair of which both revisions are live."""
    return pair_id, [difference, detail, attribute]
