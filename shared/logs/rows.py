"""An event made ready to be kept: its place's ingredients and its bytes."""

from dataclasses import dataclass
from typing import Any

import orjson

from schemas.events import Event, dump_event
from shared.errors import Fault, InvalidInput
from shared.partitioner import partition_of


@dataclass(frozen=True)
class NewEvent:
    """What a log needs to know of an event: ``body`` is its structured CloudEvent JSON."""

    topic: str
    partition: int
    tenant: str
    source: str
    event_id: str
    key: str
    body: bytes


def make_row(event: Event, topic: str, partitions: int) -> NewEvent:
    """Write the event out and find its partition.

    Raises InvalidInput, naming the field, for a string that UTF-8 cannot hold (JSON's escapes can write such ones).
    """
    dumped = dump_event(event)
    try:
        body = orjson.dumps(dumped)
        key = event.key.encode()
    except (orjson.JSONEncodeError, UnicodeEncodeError) as error:
        field = _unwritable(dumped, "") or "/"
        fault = Fault(field, "contains a lone surrogate, which is not a character")
        raise InvalidInput(faults=(fault,)) from error
    return NewEvent(topic, partition_of(key, partitions), event.tenant, event.source, event.id, event.key, body)


def _unwritable(value: Any, pointer: str) -> str | None:
    """Return the JSON Pointer of the first string that UTF-8 cannot hold."""
    if isinstance(value, str):
        return pointer if any("\ud800" <= char <= "\udfff" for char in value) else None
    if isinstance(value, dict):
        if any(_unwritable(name, pointer) is not None for name in value):
            return pointer or "/"
        return _first([(f"{pointer}/{name}", item) for name, item in value.items()])
    return (
        _first([(f"{pointer}/{index}", item) for index, item in enumerate(value)]) if isinstance(value, list) else None
    )


def _first(items: list[tuple[str, Any]]) -> str | None:
    return next((place for pointer, item in items if (place := _unwritable(item, pointer)) is not None), None)
