"""Records: what is true of a tenant, as objects with ids that follow from what they say.

Statements, completions and declarations are never changed in meaning: the same one always has the same id, and which of
them stands follows from the set. What is derived from them (a watermark, a ledger entry, a document's departed parts) has an
id by what it is about.
"""

import base64
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from schemas.commands import Job
from schemas.entities import EntityDeclaration, EntityRetraction, RelationDeclaration, RelationRetraction
from schemas.events import DocumentCompletion
from schemas.messages import ReceiptOutcome, Resolution
from schemas.positions import Position
from schemas.units import Unit
from shared.effects import Rank, Statement
from shared.embedder import Vectors
from shared.store import FoundContradiction, KnownEvent
from shared.stores.memory_state import Declaration, Declared
from shared.stores.weaviate.schema import SLOTS
from shared.stores.weaviate.table import Stored
from shared.validity import from_micros, micros

NAMESPACE = uuid.UUID("6f2f7a52-6a0e-4d0c-9a55-0c5c9b1f6a11")
STATEMENT, COMPLETION, DOCUMENT = "statement", "completion", "document"
ENTITY, RELATION, VERSION = "entity", "relation", "version"
EVENT, WATERMARK, JOB, CONTRADICTION, MODEL, SCOPE = "event", "watermark", "job", "contradiction", "model", "scope"

STANDING, PAST, NAME_ONLY, MENDING = 0, 1, 2, 3
"""Values of ``past``. Of what only the name is kept, a redelivery could otherwise pass for news. MENDING: for a moment."""

STAMPS = 2**24
"""Numbers that a vector holds exactly."""

NAMES = ("kind", "keys", "text", "models", "past", "number", "body")
"""Properties of a record, its vectors apart: they are large and seldom needed."""
WHOLE = (*NAMES, "stamp")
"""What is read of a record that is written again."""


@dataclass(frozen=True)
class Record:
    """One record. ``text``: the content key of a statement; ``models``: those whose vectors it holds in ``vectors``.

    ``stamp``: its vector, by which nothing is searched. With another one than before an object is indexed anew, with the same
    one it stays findable through a change (table.py).
    """

    id: uuid.UUID
    kind: str
    keys: tuple[str, ...]
    body: str
    number: int = 0
    text: str = ""
    past: int = STANDING
    models: tuple[str, ...] = ()
    vectors: str = ""
    stamp: int | None = None

    def stored(self) -> Stored:
        """Return it as an object to write."""
        return Stored(
            self.id,
            {
                "kind": self.kind,
                "keys": list(self.keys),
                "text": self.text,
                "models": list(self.models),
                "past": self.past,
                "number": self.number,
                "slot": slot_of(self.id),
                "body": self.body,
                "vectors": self.vectors,
                "stamp": self.stamp,
            },
            None if self.stamp is None else (float(self.stamp),),
        )

    def stamped(self) -> "Record":
        """Return it with a stamp that it has not had before, to be indexed in full."""
        return replace(self, stamp=uuid.uuid4().int % STAMPS)

    def with_vectors(self, vectors: Mapping[str, Vectors]) -> "Record":
        """Return it with the vectors of each model, or with none."""
        packed = {
            model: [len(matrix), base64.b64encode(matrix.astype("<f4").tobytes()).decode()]
            for model, matrix in vectors.items()
        }
        return replace(self, models=tuple(sorted(packed)), vectors=_dump(packed) if packed else "")


def record_of(found: Stored) -> Record:
    """Read an object with the properties `NAMES` or `WHOLE`."""
    said = found.properties
    return Record(
        id=found.id,
        kind=said["kind"],
        keys=tuple(said["keys"] or ()),
        body=said["body"] or "",
        number=int(said["number"] or 0),
        text=said["text"] or "",
        past=int(said["past"] or 0),
        models=tuple(said["models"] or ()),
        stamp=None if said.get("stamp") is None else int(said["stamp"]),
    )


def vectors_of(packed: str | None) -> dict[str, Vectors]:
    """Read the property ``vectors``: one matrix a model."""
    found = orjson.loads(packed) if packed else {}
    return {
        model: np.frombuffer(base64.b64decode(blob), dtype="<f4").reshape(rows, -1)
        for model, (rows, blob) in found.items()
    }


def object_id(*names: str | int) -> uuid.UUID:
    """Return the id that follows from names: the same ones always give the same, others another (122 bits)."""
    return uuid.uuid5(NAMESPACE, orjson.dumps(names).decode())


def slot_of(identity: uuid.UUID) -> int:
    """Return an object's number for reading page by page; two share one with a chance of one in 2^52."""
    return identity.int % SLOTS


def unit_key(unit_id: str) -> str:
    """Return the key by which statements about a unit are found."""
    return f"unit:{unit_id}"


def document_key(document_id: str) -> str:
    """Return the key by which a document's parts and completions are found."""
    return f"document:{document_id}"


def declared_key(kind: str, identity: str) -> str:
    """Return the key by which statements about an entity or a relation are found."""
    return f"{kind}:{identity}"


def statement_id(tenant: str, said: Statement) -> uuid.UUID:
    """Return the id of a statement's record."""
    return object_id(STATEMENT, tenant, said.unit_id, said.document_id or "", *_rank_json(said.rank))


def statement_record(tenant: str, said: Statement, past: int) -> Record:
    """Write a statement, without vectors; where ``past`` says so, its name alone."""
    keys = (unit_key(said.unit_id), *([document_key(said.document_id)] if said.document_id else ()))
    if past == NAME_ONLY:
        said = replace(said, unit=None, content_key=None, mentions=(), claims=())
        keys = keys[:1]
    return Record(
        statement_id(tenant, said),
        STATEMENT,
        keys,
        statement_body(said),
        text=said.content_key or "",
        past=past,
    )


def statement_body(said: Statement) -> str:
    """Write all that a statement says as JSON."""
    resolution = Resolution(mentions=said.mentions, claims=said.claims)
    has_found = bool(said.mentions or said.claims)
    return _dump(
        {
            "unit_id": said.unit_id,
            "rank": _rank_json(said.rank),
            "explicit": said.explicit,
            "recorded": micros(said.recorded_at),
            "position": said.position.token(),
            "content_key": said.content_key,
            "unit": said.unit.model_dump_json(exclude_none=True) if said.unit else None,
            "resolution": resolution.model_dump_json(exclude_defaults=True) if has_found else None,
        }
    )


@lru_cache(maxsize=4_096)
def statement_from(body: str) -> Statement:
    """Read a statement. Reading costs more than finding it, and good answers repeat."""
    said = orjson.loads(body)
    resolution = Resolution.model_validate_json(said["resolution"]) if said["resolution"] else Resolution()
    return Statement(
        unit_id=said["unit_id"],
        rank=_rank(said["rank"]),
        explicit=said["explicit"],
        unit=Unit.model_validate_json(said["unit"]) if said["unit"] else None,
        recorded_at=from_micros(said["recorded"]),
        position=Position.from_token(said["position"]),
        content_key=said["content_key"],
        mentions=resolution.mentions,
        claims=resolution.claims,
    )


def completion_record(tenant: str, rank: Rank, data: DocumentCompletion) -> Record:
    """Write a document's completion."""
    body = _dump({"rank": _rank_json(rank), "data": data.model_dump_json(exclude_none=True)})
    identity = object_id(COMPLETION, tenant, data.id, *_rank_json(rank))
    return Record(identity, COMPLETION, (document_key(data.id),), body)


def completion_from(body: str) -> tuple[Rank, DocumentCompletion]:
    """Read a completion."""
    said = orjson.loads(body)
    return _rank(said["rank"]), DocumentCompletion.model_validate_json(said["data"])


def document_record(tenant: str, document_id: str, rank: Rank, parts: int, departed: Iterable[str]) -> Record:
    """Write at which completion a document stands, and which units went when it turned there."""
    body = _dump({"id": document_id, "rank": _rank_json(rank), "departed": list(departed)})
    identity = object_id(DOCUMENT, tenant, document_id, *_rank_json(rank))
    return Record(identity, DOCUMENT, (document_key(document_id),), body, number=parts)


def departed_from(body: str) -> tuple[str, Rank, tuple[str, ...]]:
    """Read a document's id, where it stands, and its departed units."""
    said = orjson.loads(body)
    return said["id"], _rank(said["rank"]), tuple(said["departed"])


_DECLARATIONS: dict[str, type[Declaration]] = {
    model.__name__: model for model in (EntityDeclaration, EntityRetraction, RelationDeclaration, RelationRetraction)
}


def declared_record(tenant: str, kind: str, identity: str, declared: Declared) -> Record:
    """Write what is said of an entity or a relation. ``number`` 1: its retraction."""
    data, rank = declared.data, declared.rank
    ends = (
        [f"source:{data.source_id}", f"target:{data.target_id}"]
        if isinstance(data, RelationDeclaration | RelationRetraction)
        else []
    )
    body = {
        "identity": identity,
        "rank": _rank_json(rank),
        "model": type(data).__name__,
        "data": data.model_dump_json(exclude_none=True),
    }
    return Record(
        object_id(kind, tenant, identity, *_rank_json(rank)),
        kind,
        (declared_key(kind, identity), *ends),
        _dump(body),
        number=int(rank.retraction),
    )


def declared_from(body: str) -> tuple[str, Declared]:
    """Read an identity and what is said of it."""
    said = orjson.loads(body)
    return said["identity"], Declared(
        _rank(said["rank"]), _DECLARATIONS[said["model"]].model_validate_json(said["data"])
    )


def event_id(tenant: str, name: str, source: str) -> uuid.UUID:
    """Return the id of an event's ledger entry."""
    return object_id(EVENT, tenant, name, source)


def event_key(name: str) -> str:
    """Return the key by which the ledger entries of an event's id are found, one a source."""
    return f"event:{name}"


def event_record(tenant: str, known: KnownEvent) -> Record:
    """Write what the store did with an event."""
    body = {
        "source": known.source,
        "event_id": known.event_id,
        "position": known.position.token(),
        "recorded": micros(known.recorded_at),
        "outcome": known.outcome.value,
        "units": known.units,
    }
    return Record(event_id(tenant, known.event_id, known.source), EVENT, (event_key(known.event_id),), _dump(body))


def event_from(body: str) -> KnownEvent:
    """Read a ledger entry."""
    said = orjson.loads(body)
    return KnownEvent(
        source=said["source"],
        event_id=said["event_id"],
        position=Position.from_token(said["position"]),
        recorded_at=from_micros(said["recorded"]),
        outcome=ReceiptOutcome(said["outcome"]),
        units=tuple(said["units"]),
    )


def watermark_record(tenant: str, stage: str, topic: str, partition: int, number: int) -> Record:
    """Write how far a stage is. Each number has a record of its own: a late writer cannot move one back."""
    body = _dump({"stage": stage, "topic": topic, "partition": partition})
    identity = object_id(WATERMARK, tenant, stage, topic, partition, number)
    return Record(identity, WATERMARK, (f"stage:{stage}",), body, number=number)


def watermark_from(record: Record) -> tuple[tuple[str, str, int], int]:
    """Read a watermark: stage, topic and partition, and the number."""
    said = orjson.loads(record.body)
    return (said["stage"], said["topic"], said["partition"]), record.number


JOB_OVER = "job-over"
"""A key of every job that is over."""


def job_record(tenant: str, job: Job) -> Record:
    """Write a background job's state, in place of its older one; of one that is over there is a record of its own."""
    body = job.model_dump_json(exclude_none=True)
    identity = job_id(tenant, job.id, finished=job.finished)
    keys = (f"job:{job.id}", JOB_OVER) if job.finished else (f"job:{job.id}",)
    return Record(identity, JOB, keys, body, number=micros(job.requested_at))


def job_id(tenant: str, name: str, *, finished: bool) -> uuid.UUID:
    """Return the id of the record of a job that is over, or of one that goes on: the latter cannot replace the former."""
    return object_id(JOB, tenant, name, int(finished))


def pair_key(unit_id: str) -> str:
    """Return the key by which a unit's contradictions are found."""
    return f"in:{unit_id}"


def contradiction_record(tenant: str, pair: FoundContradiction, recorded: int) -> Record:
    """Write a pair, in place of what was said of it before."""
    body = {
        "units": pair.units,
        "revisions": pair.revisions,
        "difference": pair.difference,
        "detail": pair.detail,
        "attribute": pair.attribute,
        "similarity": pair.similarity,
    }
    keys = tuple(pair_key(unit_id) for unit_id in pair.units)
    return Record(object_id(CONTRADICTION, tenant, pair.id), CONTRADICTION, keys, _dump({**body, "recorded": recorded}))


def contradiction_from(body: str) -> tuple[FoundContradiction, int]:
    """Read a pair and when it was first found, in microseconds."""
    said = orjson.loads(body)
    first, second = said["units"]
    one, two = said["revisions"]
    pair = FoundContradiction(
        (first, second), (one, two), said["difference"], said["detail"], said["attribute"], said["similarity"]
    )
    return pair, said["recorded"]


def models_id(tenant: str) -> uuid.UUID:
    """Return the id of the record of a tenant's models."""
    return object_id(MODEL, tenant)


def scope_record(tenant: str, scope: str) -> Record:
    """Write that a scope has, or once had, units: the names to count by."""
    return Record(object_id(SCOPE, tenant, scope), SCOPE, (f"scope:{scope}",), "", text=scope)


def version_record(tenant: str, kind: str) -> Record:
    """Write a number that was never there before: whoever kept what is declared of a kind looks anew."""
    return Record(version_id(tenant, kind), VERSION, (f"version:{kind}",), "", number=uuid.uuid4().int % SLOTS)


def version_id(tenant: str, kind: str) -> uuid.UUID:
    """Return the id of that number's record."""
    return object_id(VERSION, tenant, kind)


def _rank_json(rank: Rank) -> tuple[int, int, str, str, str]:
    return (rank.revision, int(rank.retraction), rank.digest, rank.source, rank.event_id)


def _rank(said: Any) -> Rank:
    revision, retraction, digest, source, name = said
    return Rank(revision, bool(retraction), digest, source, name)


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()
