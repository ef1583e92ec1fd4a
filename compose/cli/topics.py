"""``cortex topics``: plan, apply and check."""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from compose.cli import exits
from compose.cli.read_settings import read_settings
from shared.errors import InvalidInput
from shared.kafka_admin import Action, Change, plan
from shared.kafka_admin import apply as apply_table
from shared.topics import WantedTopic, wanted_topics

DIFFERS: Final = exits.DIFFERENT


def run_plan(bootstrap: str | None, partitions: int | None, replication: int | None, *, as_json: bool) -> int:
    """Print what would be done."""
    changes = _compare(bootstrap, partitions, replication)
    _print(changes, as_json=as_json)
    return DIFFERS if changes else exits.OK


def run_apply(bootstrap: str | None, partitions: int | None, replication: int | None, *, as_json: bool) -> int:
    """Do it, and print what was done. Raises InvalidInput, which names all that is refused, before anything is done."""
    where, table = _wanted(bootstrap, partitions, replication)
    changes = asyncio.run(apply_table(where, table))
    _print(changes, as_json=as_json)
    return exits.OK


def run_check(bootstrap: str | None, partitions: int | None, replication: int | None, *, as_json: bool) -> int:
    """Print what differs, one line a topic, for a log."""
    changes = _compare(bootstrap, partitions, replication)
    if as_json:
        _print(changes, as_json=True)
    else:
        differing = dict.fromkeys(change.topic for change in changes)
        print(f"{len(differing)} topics differ: {', '.join(differing)}" if differing else "all topics are in line")
    return DIFFERS if changes else exits.OK


def _compare(bootstrap: str | None, partitions: int | None, replication: int | None) -> list[Change]:
    where, table = _wanted(bootstrap, partitions, replication)
    return asyncio.run(plan(where, table))


def _wanted(
    bootstrap: str | None, partitions: int | None, replication: int | None
) -> tuple[str, tuple[WantedTopic, ...]]:
    """Return the broker and the table, from the settings where nothing else is said. Raises InvalidInput."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that is away is told by our own line
    given: dict[str, Any] = {"kafka_bootstrap": bootstrap, "partitions": partitions, "replication": replication}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    if settings.kafka_bootstrap is None:
        raise InvalidInput(
            "Which broker? Give --bootstrap HOST:PORT or set CORTEX_KAFKA_BOOTSTRAP. "
            "The local runtime makes its topics by itself."
        )
    return settings.kafka_bootstrap, wanted_topics(settings.partitions, settings.replication, settings.topic_prefix)


def _print(changes: Sequence[Change], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"in_line": not changes, "changes": [asdict(change) for change in changes]}))
        return
    for change in changes:
        print(_line(change))
    if not changes:
        print("all topics are in line")


def _line(change: Change) -> str:
    if change.action is Action.CREATE:
        return f"create     {change.topic}: {change.wanted}"
    if change.action is Action.REFUSED:
        return f"refused    {change.topic}: {change.reason}"
    return f"configure  {change.topic}: {change.setting} = {change.wanted} (is {change.found})"
