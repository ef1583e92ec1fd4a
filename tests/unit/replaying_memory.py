"""A log in memory that is replayed into a store, with the hashed embedder: a rebuild without a disk or a broker."""

from collections.abc import Sequence

from ingest.buried import Buried
from ingest.rebuild import Rebuild
from schemas.events import Event, parse_event
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.log import EVENTS
from shared.logs.memory import MemoryLog
from shared.stores.memory import MemoryStore

TENANT = "acme"


async def log_of(events: Sequence[dict], topic: str = EVENTS) -> MemoryLog:
    """Return a log that holds the events in this order."""
    log = MemoryLog(2, SystemClock())
    await log.append(parsed(events), topic=topic)
    return log


def parsed(events: Sequence[dict]) -> list[Event]:
    return [parse_event(event) for event in events]


async def rebuilt(log: MemoryLog, store: MemoryStore | None = None, **given: object) -> tuple[MemoryStore, Rebuild]:
    """Replay a log into a store in memory."""
    made = store or MemoryStore()
    rebuild = Rebuild(log, made, made, HashedEmbedder(), **given)
    await rebuild.run(TENANT, Buried())
    return made, rebuild


def event(number: int, kind: str, **data: object) -> dict:
    """Return an event with an id of its own."""
    return {
        "specversion": "1.0", "id": f"e{number}", "source": "tests", "tenant": TENANT, "type": kind, "data": data
    }  # fmt: skip


def unit(number: int, unit_id: str, text: str, **given: object) -> dict:
    scope = {"level": "team", "entity_id": "core"}
    return event(number, "unit.asserted", **{"id": unit_id, "text": text, "type": "context", "scope": scope, **given})
