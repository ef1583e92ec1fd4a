"""Lines of a JSONL file as events: whole CloudEvents, or a shorthand that is completed deterministically."""

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from schemas import limits
from schemas.events import dump_event, parse_event

NAMESPACE = uuid.UUID("6f0c3a52-6a51-5e5e-9f0e-2b9d7f0f7a11")  # of ids that the command line makes
BATCH_EVENTS = 200  # small enough that progress moves and a refusal is soon known


@dataclass(frozen=True)
class Refused:
    """A line that cannot be published: its number (from 1), the field, and what is wrong."""

    line: int
    field: str
    message: str


def read_lines(
    lines: Iterable[str], *, tenant: str, source: str, scope: str
) -> Iterator[tuple[int, dict[str, Any]] | Refused]:
    """Yield each line as (number, event JSON) or as refused. Blank lines and lines that begin with '#' are skipped.

    Bytes that are not UTF-8 come as lone surrogates (``surrogateescape``), so that they refuse their own line alone.
    """
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            value = orjson.loads(text)  # strict: no NaN, no lone surrogates, no bottomless nesting
        except ValueError as error:
            yield Refused(number, "", f"not JSON: {error}")
            continue
        if not isinstance(value, dict):
            yield Refused(number, "", "not a JSON object")
            continue
        try:
            yield number, dump_event(parse_event(complete(value, tenant=tenant, source=source, scope=scope)))
        except ValidationError as error:
            for fault in error.errors():
                field = "/".join(str(part) for part in fault["loc"][1:])
                yield Refused(number, field, str(fault["msg"]).removeprefix("Value error, "))


def complete(value: dict[str, Any], *, tenant: str, source: str, scope: str) -> dict[str, Any]:
    """Complete what a line leaves out. A line with ``type`` and ``data`` is a CloudEvent and only lacks a tenant;
    any other is a unit, ``{"text": ...}`` at the least, whose id is made from tenant, source and text.
    """
    if "data" in value:
        return {"tenant": tenant, "specversion": "1.0", **value}
    text = str(value.get("text", ""))
    made = str(uuid.uuid5(NAMESPACE, f"{tenant}\x1e{source}\x1e{text}"))
    unit = {"id": made, "type": "context", **value}
    unit["scope"] = _scope(unit.get("scope", scope))
    event_id = str(uuid.uuid5(NAMESPACE, json.dumps(unit, sort_keys=True)))
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "tenant": tenant,
        "type": "unit.asserted",
        "data": unit,
    }


def batches(events: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Group events so that each group keeps the door's limits in count and bytes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        length = len(json.dumps(event, ensure_ascii=False).encode()) + 1
        if batch and (len(batch) == BATCH_EVENTS or size + length > limits.BATCH_BYTES - 2):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += length
    if batch:
        yield batch


def _scope(value: Any) -> Any:
    if isinstance(value, str):
        level, _, entity_id = value.partition("/")
        return {"level": level, "entity_id": entity_id}
    return value
