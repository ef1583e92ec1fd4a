"""A short schedule of the chaos run (tests/chaos): some hundred events, some kills, nothing lost and nothing done twice.

The long one is ``make chaos``. The seed is fixed; how the machine interleaves it is not.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from shared.fingerprints import PARTS
from tests.chaos.checks import State, judge, judge_graph, judge_letters
from tests.chaos.plan import TENANTS, Plan, draw
from tests.chaos.run import Options, run
from tests.chaos.schedule import KILLS, Kind, draw_schedule

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.timeout(400)]

SEED = 7


@pytest.mark.embedded_only("on Kafka test_chaos_cluster.py kills every part")
async def test_members_are_killed_in_the_middle_of_the_work_and_nothing_is_lost_or_doubled(tmp_path: Path):
    options = Options(
        broker="embedded",
        events=400,
        kills=7,
        partitions=4,
        seed=SEED,
        minutes=6,
        freezes=0,  # they take longer than a session; test_zombie.py has one of its own
        patience_s=5.0,
        beside=True,
    )
    result = await run(options, tmp_path)
    assert result.well, result.table()
    assert sum(result.done[kind] for kind in KILLS) == options.kills
    assert result.lag
    assert not any(result.lag.values())


def test_a_seed_gives_the_same_events_and_the_same_disturbances():
    first, second, other = draw(SEED, 300), draw(SEED, 300), draw(SEED + 1, 300)
    assert first == second
    assert first != other
    assert draw_schedule(SEED, 20, kafka=True) == draw_schedule(SEED, 20, kafka=True)
    assert first.records > 300
    kinds = {event.type.value for event in first.events()}
    assert kinds == {
        "unit.asserted",
        "unit.retracted",
        "document.completed",
        "entity.declared",
        "relation.declared",
        "relation.retracted",
    }
    assert len(first.poison) >= 3
    assert any(said.again for batch in first.batches for said in batch)


def test_a_schedule_has_as_many_kills_as_are_asked_for_and_each_special_disturbance():
    acts = [act.kind for burst in draw_schedule(SEED, 100, kafka=True) for act in burst.acts]
    assert sum(kind in KILLS for kind in acts) == 100
    assert {Kind.BROKER, Kind.CACHE, Kind.FLUSH, Kind.FREEZE, Kind.JOIN} <= set(acts)
    assert {Kind.STORE, Kind.REPLICA}.isdisjoint(acts)
    with_store = [act.kind for burst in draw_schedule(SEED, 30, kafka=True, weaviate=True) for act in burst.acts]
    assert with_store.count(Kind.STORE) == with_store.count(Kind.REPLICA) == 3
    assert Kind.LEADER in {act.kind for burst in draw_schedule(SEED, 100, kafka=False) for act in burst.acts}


PLAN = draw(SEED, 200)


def right(plan: Plan) -> State:
    """The state that a plan is about, with made-up digests."""
    prints: Mapping = {tenant: {part: {"thing": "x"} for part in PARTS} for tenant in TENANTS}
    return State(
        fingerprints=prints,
        digests={tenant: dict.fromkeys(PARTS, "x") for tenant in TENANTS},
        texts=plan.live,
        corroborations={tenant: dict.fromkeys(plan.live[tenant], 1) for tenant in TENANTS},
        contributions={tenant: {} for tenant in TENANTS},
        events={tenant: {(one.source, one.id) for one in plan.events() if one.tenant == tenant} for tenant in TENANTS},
        unit_counts={tenant: len(plan.live[tenant]) for tenant in TENANTS},
        said_counts={tenant: len(plan.live[tenant]) for tenant in TENANTS},
        unfound={tenant: [] for tenant in TENANTS},
    )


def test_the_judge_finds_what_is_lost_doubled_or_different():
    """A check that cannot fail would prove nothing."""
    state, tenant = right(PLAN), TENANTS[0]
    assert judge(PLAN, state, state).wrong == []
    unit_id = next(iter(PLAN.live[tenant]))

    def with_changed(**changed: object) -> list[str]:
        mine = {name: {**getattr(state, name), tenant: value} for name, value in changed.items()}
        return [name for name, found in vars(judge(PLAN, replace(state, **mine), state)).items() if found]

    assert with_changed(events=set()) == ["lost"]
    assert with_changed(texts={**PLAN.live[tenant], unit_id: "another"}) == ["lost"]
    assert with_changed(said_counts=len(PLAN.live[tenant]) + 1) == ["others"]
    assert with_changed(unfound=["unit x is not found by its words"]) == ["lost"]
    assert with_changed(unit_counts=len(PLAN.live[tenant]) + 1) == ["doubled"]
    assert with_changed(texts={**PLAN.live[tenant], next(iter(PLAN.gone[tenant])): "back"}) == ["doubled"]
    assert with_changed(corroborations={unit_id: 2}) == ["doubled"]
    changed = {**state.digests[tenant], "history": "y"}
    assert with_changed(digests=changed) == ["differing"]
    assert judge_letters(PLAN, PLAN.poison) == []
    assert len(judge_letters(PLAN, PLAN.poison[1:])) == 1
    assert len(judge_letters(PLAN, [*PLAN.poison, b"more"])) == 1
    assert judge_graph(state, {name: {} for name in TENANTS}) == []
