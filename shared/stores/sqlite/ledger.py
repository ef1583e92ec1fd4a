"""The ledger of events, what the store did with each, and the state of background jobs."""

import sqlite3
from collections.abc import Sequence

import orjson

from schemas.commands import Job
from schemas.messages import ReceiptOutcome
from schemas.positions import Position
from shared import jobs_kept
from shared.store import Applied, Effect, KnownEvent
from shared.stores.sqlite.rows import as_json_array
from shared.validity import from_micros, micros

# A redelivery's outcome says nothing about the event: the first stands, unless it was a failure that has been mended.
_NOTE = (
    "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (event_id, source) DO UPDATE SET "
    "position = excluded.position, recorded = excluded.recorded, outcome = excluded.outcome, units = excluded.units "
    "WHERE outcome = 'dead' OR (position = excluded.position AND excluded.outcome NOT IN ('unchanged', 'dead'))"
)

_SAVE_JOB = (
    "INSERT INTO job VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body "
    "WHERE json_extract(job.body, '$.state') NOT IN ('done', 'failed', 'cancelled')"
)
_LET_GO = (
    "DELETE FROM job WHERE id IN (SELECT id FROM job WHERE json_extract(body, '$.state') IN ('done', 'failed', 'cancelled') "
    "ORDER BY requested DESC, id DESC LIMIT -1 OFFSET ?)"
)


def note(connection: sqlite3.Connection, effects: Sequence[Effect], applied: Sequence[Applied]) -> None:
    """Enter what came of effects; the caller holds the transaction."""
    connection.executemany(
        _NOTE,
        [
            (
                effect.message.event_id,
                effect.message.event_source,
                effect.message.position.token(),
                micros(effect.message.recorded_at),
                one.receipt.outcome.value,
                as_json_array((*one.receipt.units, *one.receipt.retracted)),
            )
            for effect, one in zip(effects, applied, strict=True)
            if effect.message.event_id is not None and effect.message.event_source is not None
        ],
    )


def events(connection: sqlite3.Connection, event_id: str, source: str | None) -> list[KnownEvent]:
    """Return what is known of the events of an id, by source."""
    rows = connection.execute(
        "SELECT source, position, recorded, outcome, units FROM event WHERE event_id = ?1 AND (?2 IS NULL OR source = ?2) "
        "ORDER BY source",
        (event_id, source),
    )
    return [
        KnownEvent(
            source=name,
            event_id=event_id,
            position=Position.from_token(position),
            recorded_at=from_micros(recorded),
            outcome=ReceiptOutcome(outcome),
            units=tuple(orjson.loads(units)),
        )
        for name, position, recorded, outcome, units in rows
    ]


def save_job(connection: sqlite3.Connection, job: Job) -> None:
    """Keep a job's state in place of its older one, unless that is a last one.

    Where it is over, those beyond `shared.jobs_kept.KEPT` go.
    """
    connection.execute(
        _SAVE_JOB,
        (job.id, micros(job.requested_at), job.model_dump_json(exclude_none=True)),
    )
    if job.finished:
        connection.execute(_LET_GO, (jobs_kept.KEPT,))


def jobs(connection: sqlite3.Connection, limit: int, job_id: str | None) -> list[Job]:
    """Return jobs, newest first, or the one of an id."""
    rows = connection.execute(
        "SELECT body FROM job WHERE ?1 IS NULL OR id = ?1 ORDER BY requested DESC, id DESC LIMIT ?2", (job_id, limit)
    )
    return [Job.model_validate_json(body) for (body,) in rows]
