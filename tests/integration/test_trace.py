"""Traces: an event's way, its dead letter, what it left, who may read that; and nothing that the asker may not see."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.access import hash_token
from schemas.entities import RelationDeclaration
from schemas.events import parse_event
from schemas.status import DeadLetter
from schemas.units import Scope
from shared.memberships import readers, walk
from shared.settings import Settings
from tests.integration.http_service import NOW, in_process
from tests.integration.test_http_units import TENANT, World

pytestmark = [pytest.mark.integration, pytest.mark.anyio]
HEADERS = {"cortex-tenant": TENANT}


def unit(unit_id, scope="team/core", **given):
    level, _, entity_id = scope.partition("/")
    return {
        "id": unit_id, "text": f"{unit_id} is stated.", "type": "context",
        "scope": {"level": level, "entity_id": entity_id}, **given,
    }  # fmt: skip


@pytest.fixture
async def world(tmp_path):
    """Ana and Ben are in Core, which is part of Engineering; Eve is in HR. The events are e-1, e-2, …"""
    world = World(tmp_path)
    for name, kind in (
        ("ana", "person"), ("ben", "person"), ("eve", "person"),
        ("core", "team"), ("hr", "team"), ("engineering", "department"),
    ):  # fmt: skip
        await world.say("entity.declared", {"id": name, "type": kind, "name": name.title()})
    for source, relation, target in (
        ("ana", "member_of", "core"), ("ben", "member_of", "core"), ("eve", "member_of", "hr"),
        ("core", "part_of", "engineering"),
    ):  # fmt: skip
        data = {"source_id": source, "relation": relation, "target_id": target}
        await world.say("relation.declared", data)
    yield world
    await world.close()


@pytest.fixture
async def client(world):
    async with in_process(Settings(), world.parts) as client:
        client.headers.update(HEADERS)
        yield client


async def trace(client, world, number=None):
    response = await client.get(f"/v1/trace/e-{number or world.number}")
    assert response.status_code == 200, response.text
    return response.json()


def outcomes(traced):
    return {step["step"]: step["outcome"] for step in traced["steps"]}


async def test_a_stored_unit_stands_and_its_readers_are_named(client, world):
    await world.say("unit.asserted", unit("fact"))
    traced = await trace(client, world)
    assert traced["state"] == "stored"
    assert traced["unit"] == {
        "unit_id": "fact", "state": "current", "revision": world.number, "by_this_event": True, "scope": "team/core",
        "superseded_by": None, "document_id": None,
    }  # fmt: skip
    assert (traced["readers"], traced["readers_count"]) == (["ana", "ben"], 2)
    assert outcomes(traced)["contradictions"] == "waiting"  # this stage keeps a watermark of its own


async def test_each_thing_that_can_become_of_a_unit_is_told(client, world):
    await world.say("unit.asserted", unit("fact", revision=1))
    first = world.number
    await world.say("unit.asserted", unit("fact", revision=2))
    assert (await trace(client, world, first))["unit"]["state"] == "replaced"
    second = await trace(client, world)
    assert (second["unit"]["state"], second["unit"]["revision"]) == ("current", 2)
    await world.say("unit.retracted", {"id": "fact", "revision": 2})
    assert (await trace(client, world))["unit"]["state"] == "retracted"
    assert (await trace(client, world))["unit"]["by_this_event"] is True
    assert (await trace(client, world, first))["unit"]["state"] == "retracted"
    await world.say("unit.asserted", unit("part", document_id="doc", part=0, revision=1))
    assert (await trace(client, world))["unit"]["state"] == "waiting-for-document"
    await world.say("unit.asserted", unit("ended", valid_until="2026-01-01"))
    assert (await trace(client, world))["unit"]["state"] == "ended"


async def test_an_event_on_its_way_waits_at_each_stage(client, world):
    event = parse_event({"id": "e-late", "source": "/t", "tenant": TENANT, "type": "unit.asserted", "data": unit("u")})
    await world.log.append([event])
    response = await client.get("/v1/trace/e-late")
    traced = response.json()
    assert traced["state"] == "pending"
    assert outcomes(traced)["log"] == "done"
    assert {outcomes(traced)[stage] for stage in ("embed", "resolve", "store")} == {"waiting"}
    assert traced["unit"]["state"] == "unknown"
    assert "1 events wait" in traced["steps"][1]["detail"]


async def test_a_dead_letter_ends_the_way_at_its_stage(client, world):
    place = await world.fail("unit.asserted", unit("fact"))
    await world.log.bury(
        DeadLetter(
            id="letter", stage="resolve", cause="unexpected-error", detail="it broke", attempts=5, topic=place.topic,
            partition=place.partition, offset=place.number, tenant=TENANT, event_id=f"e-{world.number}",
            event_source="/t", failed_at=NOW + timedelta(seconds=1), body=b"{}",
        )
    )  # fmt: skip
    traced = await trace(client, world)
    assert traced["state"] == "failed"
    assert traced["letter"]["cause"] == "unexpected-error"
    assert outcomes(traced)["embed"] == "done"
    assert outcomes(traced)["resolve"] == "failed"
    assert "store" not in outcomes(traced)


async def test_declarations_are_traced_to_what_stands_now(client, world):
    assert "the entity ana is declared now" in json.dumps(await trace(client, world, 1))
    assert "the relation ana member_of core is declared now" in json.dumps(await trace(client, world, 7))
    data = {"source_id": "ana", "relation": "member_of", "target_id": "core"}
    await world.say("relation.retracted", data)
    assert "ana member_of core is not declared now" in json.dumps(await trace(client, world, 7))


@pytest.fixture
async def guarded(world, tmp_path):
    """A service with tokens: for Ana's and Eve's programs, an administrator without the right to publish, a reader."""
    entries = {
        "t-ana": ("ana", ["publish"]), "t-eve": ("eve", ["publish", "ask"]), "t-admin": ("eve", ["admin"]),
        "t-reader": ("ana", ["ask"]),
    }  # fmt: skip
    path = tmp_path / "tokens"
    path.write_text(
        "".join(
            json.dumps({"sha256": hash_token(token), "tenant": TENANT, "principal": principal, "rights": rights}) + "\n"
            for token, (principal, rights) in entries.items()
        )
    )
    async with in_process(Settings(tokens_file=path), world.parts) as client:
        yield client


@pytest.mark.parametrize(("token", "sees"), [("t-ana", True), ("t-eve", False), ("t-admin", True)])
async def test_what_lies_in_a_scope_is_shown_to_its_readers_and_to_administrators(guarded, world, token, sees):
    await world.say("unit.asserted", unit("secret-name"))
    response = await guarded.get(f"/v1/trace/e-{world.number}", headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 200, response.text
    traced = response.json()
    assert traced["state"] == "stored"
    assert ("secret-name" in response.text) is sees
    assert (traced["unit"] is not None) is sees
    assert traced["readers"] == (["ana", "ben"] if sees else [])
    assert outcomes(traced)["knowledge"] == ("done" if sees else "withheld")


async def test_a_unit_that_moved_to_another_scope_or_gave_way_to_one_there_is_not_shown(guarded, world):
    """What replaces a unit may lie where the asker cannot look."""
    await world.say("unit.asserted", unit("moved", revision=1))
    moved = world.number
    await world.say("unit.asserted", unit("moved", "team/hr", revision=2))
    await world.say("unit.asserted", unit("fact"))
    fact = world.number
    await world.say("unit.asserted", unit("board-decision", "department/engineering-board", supersedes="fact"))
    headers = {"authorization": "Bearer t-ana"}
    traced = (await guarded.get(f"/v1/trace/e-{moved}", headers=headers)).json()
    assert (traced["unit"], traced["readers"], outcomes(traced)["knowledge"]) == (None, [], "withheld")
    traced = (await guarded.get(f"/v1/trace/e-{fact}", headers=headers)).json()
    assert (traced["unit"]["state"], traced["unit"]["superseded_by"]) == ("superseded", None)
    seen = (await guarded.get(f"/v1/trace/e-{fact}", headers={"authorization": "Bearer t-admin"})).json()
    assert seen["unit"]["superseded_by"] == "board-decision"


async def test_a_trace_needs_the_right_to_publish_or_admin(guarded, world):
    response = await guarded.get("/v1/trace/e-1", headers={"authorization": "Bearer t-reader"})
    assert response.status_code == 403
    assert (await guarded.get("/v1/trace/e-1")).status_code == 401


NAMES = ("a", "b", "c", "d", "e", "f")
RELATIONS = st.lists(
    st.builds(
        RelationDeclaration,
        source_id=st.sampled_from(NAMES),
        relation=st.sampled_from(["member_of", "belongs_to", "part_of", "works_on"]),
        target_id=st.sampled_from(NAMES),
        valid_until=st.sampled_from([None, "2026-01-01"]),
    ),
    max_size=12,
)


@given(RELATIONS, st.sampled_from(NAMES))
def test_the_readers_of_a_scope_are_those_whose_walk_reaches_it(relations, name):
    """From above and from below the same, with cycles, chains and relations that have ended."""
    scope = Scope.parse(f"team/{name}")

    def reaches(principal):
        ways = walk(
            principal,
            lambda entity: [one for one in relations if one.source_id == entity],
            lambda _: [scope.level],
            NOW,
        )
        return scope.key in {membership.scope for membership in ways}

    from_below = {principal for principal in NAMES if principal != name and reaches(principal)}
    assert readers(scope, relations, NOW) == from_below
