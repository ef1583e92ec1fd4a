"""Whatever the order in which the same events come, and however often, the store ends in the same state."""

import asyncio
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.clock import ManualClock
from shared.store import Applied, Effect
from shared.text import query_terms
from tests.contract.knowledge_events import (
    CORE,
    NOW,
    TENANT,
    Store,
    asserted,
    completed,
    effect_of,
    entity,
    entity_gone,
    open_store,
    parts,
    relation,
    relation_gone,
    retracted,
    unit,
    vector_of,
    where,
)

OPS = "department/ops"
WORDS = ("retry limit is 5", "retry limit is 6", "The Payments Client retries", "freeze on Friday", "retry  LIMIT is 5")


def _documents() -> list[dict]:
    """Two documents of several revisions, one of which ends retracted; a text that two parts share."""
    first, second, third = ["alpha one", "alpha two", "alpha three"], ["alpha one", "alpha 2"], ["alpha zwei"]
    return [
        *parts("D", 1, first), completed("D", 1, first),
        *[{**part, "source": "other"} for part in parts("D", 2, second)], completed("D", 2, second),
        *parts("D", 3, third), completed("D", 3, third),
        *parts("E", 1, ["beta", "alpha one"]), completed("E", 1, ["beta", "alpha one"]),
        *parts("E", 2, ["gamma"]), completed("E", 2, []),
        *parts("F", 1, ["same part, sent by two"]), *parts("F", 1, ["same part, sent by two"], title="F"),
        completed("F", 1, ["same part, sent by two"]),
        *parts("G", 1, ["first wording", "tail"]), *parts("G", 1, ["second wording", "tail"]),
        completed("G", 1, ["first wording", "tail"]), completed("G", 1, ["second wording", "tail"]),
        *parts("H", 1, ["never completed"]),
    ]  # fmt: skip


def _units() -> list[dict]:
    """Units with revisions, rivals at one revision, retractions, supersession, shared texts, turns, moves of scope."""
    turns = [
        asserted(
            unit(f"t{turn}", f"turn {WORDS[turn % 4]}", session_id="S", turn=turn, occurred_at=f"2026-05-0{turn + 1}")
        )
        for turn in range(4)
    ]
    return [
        asserted(unit("a", WORDS[0], revision=1)), asserted(unit("a", WORDS[1], revision=2)),
        asserted(unit("a", WORDS[2], revision=2)), asserted(unit("a", WORDS[0], revision=2), source="other"),
        asserted(unit("b", WORDS[0], revision=1)), retracted("b", 1), asserted(unit("b", WORDS[1], revision=1)),
        asserted(unit("c", WORDS[3], revision=4, supersedes="f")), retracted("c", 3), retracted("c", 2),
        asserted(unit("d", WORDS[4])), asserted(unit("d", WORDS[1], supersedes="a")), retracted("e"),
        asserted(unit("f", WORDS[3], supersedes="c", valid_from="2026-05-20")),
        asserted(unit("g", WORDS[0], scope=OPS, revision=1)), asserted(unit("g", WORDS[0], revision=2)),
        asserted(unit("h", WORDS[3], title="Freeze", metadata={"weight": 0.5}), source="other"),
        *turns, retracted("t2"), asserted(unit("t1x", "rival turn", session_id="S", turn=1)),
        asserted(unit("D#0", "a part's id taken by a unit", revision=2)),
    ]  # fmt: skip


def _declarations() -> list[dict]:
    return [
        entity("core", "team", "Core", revision=1), entity("core", "team", "Core Team", aliases=["K"], revision=2),
        entity("ops", "department"), entity_gone("ops"), entity("billing", "system"),
        relation("alice", "member_of", "core", revision=1), relation("alice", "member_of", "core", role="lead", revision=2),
        relation("core", "part_of", "ops"), relation_gone("core", "part_of", "ops"),
        relation("core", "owns", "billing", weight=0.5),
    ]  # fmt: skip


EFFECTS = [
    effect_of(event, number) for number, event in enumerate([*_documents(), *_units(), *_declarations()], start=1)
]


async def _state(store: Store) -> dict:
    """Return all that can be seen of a store, ids and clocks of arrival apart."""
    filters = {
        "now": where(CORE, OPS),
        "one scope": where(CORE),
        "all": where(CORE, OPS, include_superseded=True),
        "past": where(CORE, OPS, at=NOW.replace(month=5, day=3), past=True),
    }
    seen: dict = {"digest": await store.writer.digest(TENANT)}
    async with store.reader.snapshot(TENANT) as snapshot:
        for name, filter_ in filters.items():
            for question in ("retry limit", "alpha", "freeze friday may"):
                hits = await snapshot.keyword(query_terms(question), filter_, 5)
                seen["keyword", name, question] = [(hit.passage_id, round(hit.score, 6), hit.unit_ids) for hit in hits]
            hits = await snapshot.vector(vector_of(WORDS[0]), filter_, 7)
            seen["vector", name] = [(hit.passage_id, round(hit.score, 9), hit.unit_ids) for hit in hits]
            seen["latest", name] = await snapshot.latest(filter_, 6)
            seen["oldest", name] = await snapshot.latest(filter_, 6, oldest_first=True)
            seen["about", name] = await snapshot.about(["paymentsclient", "f"], filter_, 4)
        counts = await snapshot.counts()
        ids = [effect.event.data.id for effect in EFFECTS if hasattr(effect.event.data, "text")]
        seen["units"] = await snapshot.units(ids)
        seen["history"] = {unit_id: await snapshot.history(unit_id) for unit_id in sorted(set(ids))}
        seen["counts"] = counts
        seen["entities"] = (await snapshot.entities())[1]
        seen["relations"] = await snapshot.relations()
        seen["keys"] = await snapshot.entity_keys(frozenset({CORE, OPS}), 50)
        seen["memberships"] = [await snapshot.memberships(who) for who in ("alice", "bob", None)]
        seen["watermarks"] = await snapshot.watermarks()
    seen["contributions"] = await store.writer.contributions(TENANT)
    return seen


async def _play(kind: str, batches: list[list[Effect]]) -> tuple[dict, list[Applied]]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(kind, Path(folder), ManualClock(NOW))
        try:
            applied = [item for batch in batches for item in await store.writer.apply(TENANT, batch)]
            return await _state(store), applied
        finally:
            await store.close()


@cache
def _expected() -> dict:
    """Return what the in-memory store says after all events in the order in which they were made."""
    return asyncio.run(_play("memory", [EFFECTS]))[0]


ORDERS = st.tuples(
    st.permutations(range(len(EFFECTS))),
    st.lists(st.integers(0, len(EFFECTS) - 1), max_size=20),
    st.lists(st.integers(1, len(EFFECTS)), max_size=6),
)


def _batches(order: tuple[list[int], list[int], list[int]]) -> list[list[Effect]]:
    """Put redeliveries in between and cut the whole into transactions."""
    numbers, repeated, cuts = order
    for place, number in enumerate(repeated):
        numbers = [*numbers[: place * 3], number, *numbers[place * 3 :]]
    edges = [0, *sorted(set(cuts)), len(numbers)]
    return [[EFFECTS[number] for number in numbers[start:end]] for start, end in pairwise(edges) if end > start]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@given(order=ORDERS)
@settings(max_examples=20, deadline=None)
def test_any_order_and_any_redelivery_end_in_the_same_state(kind, order):
    state, _ = asyncio.run(_play(kind, _batches(order)))
    for part, value in _expected().items():
        assert state[part] == value, part


@given(order=ORDERS)
@settings(max_examples=20, deadline=None)
def test_both_stores_tell_of_each_event_the_same(order):
    batches = _batches(order)
    (_, from_memory), (_, from_sqlite) = asyncio.run(_play("memory", batches)), asyncio.run(_play("sqlite", batches))
    assert from_sqlite == from_memory
