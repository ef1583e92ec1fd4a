"""By-id routes, entities and contradictions on a real store: what may be seen, by whom, and what is withdrawn."""

import hashlib
import json

import orjson
import pytest

from query.access import hash_token
from query.parts import Parts
from schemas.events import parse_event
from schemas.messages import Embedding, Marker, MarkerKind, Resolution, StageMessage
from schemas.positions import Position
from shared.clock import ManualClock
from shared.embedders.hashed import HashedEmbedder
from shared.graphs.memory import MemoryGraph
from shared.identity import content_key
from shared.logs.memory import MemoryLog
from shared.mentions import find_mentions
from shared.settings import Settings
from shared.store import Effect, FoundContradiction
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.integration.http_service import NOW, SteeredAnswers, in_process

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

TENANT = "acme"


class World:
    """A store that is written as ingest writes it, and the service that reads it."""

    def __init__(self, folder):
        self.clock = ManualClock(NOW)
        self.writer = SqliteWriter(folder / "knowledge", self.clock)
        self.reader = SqliteReader(folder / "knowledge", threads=1, vector_memory_mb=16, clock=self.clock)
        self.log = MemoryLog(4, self.clock)
        self.graph = MemoryGraph()
        self.embedder = HashedEmbedder()
        self.number = 0

    @property
    def parts(self):
        return Parts(
            clock=self.clock, reader=self.reader, graph=self.graph, log=self.log, answers=SteeredAnswers()
        )  # fmt: skip

    async def close(self):
        await self.reader.close()
        await self.writer.close()

    async def say(self, kind, data, tenant=TENANT):
        """Publish one event and take it through the stages."""
        self.number += 1
        event = parse_event({"id": f"e-{self.number}", "source": "/t", "tenant": tenant, "type": kind, "data": data})
        await self.take(event)

    async def fail(self, kind, data, tenant=TENANT):
        """Publish one event that dies on its way; return its position."""
        self.number += 1
        event = parse_event({"id": f"e-{self.number}", "source": "/t", "tenant": tenant, "type": kind, "data": data})
        (place,) = await self.log.append([event])
        message = StageMessage(
            position=place.position, recorded_at=place.recorded_at, key=event.key, tenant=event.tenant,
            event_id=event.id, event_source=event.source, marker=Marker(kind=MarkerKind.DEAD, stage="resolve"),
        )  # fmt: skip
        await self.writer.apply(tenant, [Effect(message, None)])
        return place.position

    async def take(self, event):
        (place,) = await self.log.append([event])
        await self.store(event, place)

    async def store(self, event, place):
        message = StageMessage(
            position=place.position, recorded_at=place.recorded_at, key=event.key, tenant=event.tenant,
            event_id=event.id, event_source=event.source,
        )  # fmt: skip
        vectors = None
        if event.type == "unit.asserted":
            unit = event.data
            vectors = await self.embedder.embed_text(unit.text)
            embedding = Embedding(
                model=self.embedder.model,
                content_key=content_key(event.tenant, unit.scope.key, unit.text),
                rows=vectors.shape[0],
                dims=vectors.shape[1],
            )
            resolution = Resolution(mentions=find_mentions(unit.text, unit.title))
            message = message.model_copy(update={"embedding": embedding, "resolution": resolution})
        applied = await self.writer.apply(event.tenant, [Effect(message, event, vectors)])
        self.graph.apply(contribution for one in applied for contribution in one.contributions)
        self.graph.refresh()

    async def unit(self, unit_id, text, scope="team/platform", tenant=TENANT, **fields):
        level, _, entity_id = scope.partition("/")
        data = {"id": unit_id, "text": text, "type": "decision", "scope": {"level": level, "entity_id": entity_id}}
        await self.say("unit.asserted", data | fields, tenant)

    async def contradiction(self, first, second):
        pair = FoundContradiction(
            units=tuple(sorted((first, second))), revisions=(1, 1), difference="number", detail="30 or 60",
            attribute="timeout", similarity=0.9,
        )  # fmt: skip
        position = Position(log=self.log.log_id, topic="cortex.events", partition=0, number=self.number)
        await self.writer.record_contradictions(TENANT, position, NOW, [first, second], [pair])


@pytest.fixture
async def world(tmp_path):
    """Ana is on the platform team, Ben on the web team; both know the organisation; globex is another tenant."""
    world = World(tmp_path)
    for person, team in (("ana", "platform"), ("ben", "web")):
        await world.say("relation.declared", {"source_id": person, "relation": "member_of", "target_id": team})
    await world.say(
        "entity.declared", {"id": "payments", "type": "system", "name": "Payments", "aliases": ["PayService"]}
    )
    await world.say(
        "entity.declared", {"id": "payroll", "type": "system", "name": "Payroll", "aliases": ["PayService"]}
    )
    await world.unit("dep/timeout", "The Payments timeout is 30 seconds.", revision=1)
    await world.unit("web/timeout", "The Payments timeout is 60 seconds.", "team/web", revision=1)
    await world.unit("own", "The Zanzibar switch is off.", "personal/ana")
    await world.unit("dep/timeout", "The Globex timeout is 5 seconds.", tenant="globex")
    await world.contradiction("dep/timeout", "web/timeout")
    yield world
    await world.close()


@pytest.fixture
async def trusted(world):
    async with in_process(Settings(tenant=TENANT), world.parts) as client:
        yield client


@pytest.fixture
async def guarded(world, tmp_path):
    rights = ["ask", "publish"]
    lines = [
        {"sha256": hash_token("ana"), "tenant": TENANT, "principal": "ana", "rights": rights},
        {"sha256": hash_token("ben"), "tenant": TENANT, "principal": "ben", "rights": rights},
        {"sha256": hash_token("globex"), "tenant": "globex", "principal": "*", "rights": rights},
    ]
    path = tmp_path / "tokens"
    path.write_text("\n".join(map(json.dumps, lines)))
    async with in_process(Settings(tokens_file=path), world.parts) as client:
        yield client


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def test_a_unit_comes_with_what_is_known_about_it(trusted):
    """Ids with slashes stand in the address as they are, or percent-encoded."""
    for address in ("/v1/units/dep/timeout", "/v1/units/dep%2Ftimeout"):
        known = (await trusted.get(address)).json()
        assert known["unit"]["text"] == "The Payments timeout is 30 seconds."
        assert known["state"]["source"] == "/t"
        assert known["state"]["contradiction_refs"] == ["web/timeout"]


async def test_older_revisions_are_given_on_request(world, trusted):
    """Those in scopes that the caller cannot read are left out."""
    await world.unit("own", "The Zanzibar switch is on.", "team/platform")
    assert (await trusted.get("/v1/units/own")).json()["history"] == []
    seen = (await trusted.get("/v1/units/own", params={"history": "true"})).json()["history"]
    assert [revision["unit"]["text"] for revision in seen] == ["The Zanzibar switch is off."]
    await world.say("relation.declared", {"source_id": "ben", "relation": "member_of", "target_id": "platform"})
    asked_by_ben = {"history": "true", "principal": "ben"}
    assert (await trusted.get("/v1/units/own", params=asked_by_ben)).json()["history"] == []


@pytest.mark.parametrize(
    ("token", "unit_id", "seen"),
    [
        ("ana", "dep/timeout", True),
        ("ana", "own", True),
        ("ana", "web/timeout", False),
        ("ben", "dep/timeout", False),
        ("ben", "own", False),
        ("ben", "web/timeout", True),
        ("globex", "web/timeout", False),
        ("globex", "own", False),
    ],
)
async def test_a_unit_outside_the_readable_scopes_does_not_exist(guarded, world, token, unit_id, seen):
    """C54: reading and withdrawing say 404, word for word as for an id that nobody ever used; nothing changes."""
    before = len(await world.log.read(0, 100))
    response = await guarded.get(f"/v1/units/{unit_id}", headers=bearer(token))
    assert response.status_code == (200 if seen else 404)
    if not seen:
        absent = await guarded.get("/v1/units/absent", headers=bearer(token))
        assert {**response.json(), "instance": ""} == {**absent.json(), "instance": ""}
        assert (await guarded.delete(f"/v1/units/{unit_id}", headers=bearer(token))).status_code == 404
        assert len(await world.log.read(0, 100)) == before


async def test_references_into_other_scopes_are_left_out(guarded):
    """That a unit of the web team contradicts mine says that there is one."""
    known = (await guarded.get("/v1/units/dep/timeout", headers=bearer("ana"))).json()
    assert known["state"]["contradiction_refs"] == []


async def test_equal_ids_of_two_tenants_are_two_units(guarded):
    """The tenant is the token's."""
    known = (await guarded.get("/v1/units/dep/timeout", headers=bearer("globex"))).json()
    assert known["unit"]["text"] == "The Globex timeout is 5 seconds."


async def test_a_withdrawal_is_an_event_at_the_units_present_revision(world, trusted):
    """202 with the token of its place; asking twice gives the same; once it is stored the unit is unknown."""
    first = await trusted.delete("/v1/units/own")
    again = await trusted.delete("/v1/units/own")
    assert first.status_code == again.status_code == 202
    assert first.json()["token"] == again.json()["token"]
    assert again.json()["accepted"][0]["duplicate"] is True
    record = (await world.log.read(0, 100))[-1]
    event = parse_event(json.loads(record.body))
    assert (event.type, event.data.id) == ("unit.retracted", "own")
    assert Position.from_token(first.json()["token"]) == record.position
    (place,) = await world.log.append([event])
    await world.store(event, place)
    assert (await trusted.get("/v1/units/own")).status_code == 404
    assert (await trusted.delete("/v1/units/own")).status_code == 404


async def test_a_part_of_a_document_is_withdrawn_with_its_document(world, trusted):
    """The problem says how."""
    await world.unit("doc#0", "Only part.", document_id="doc", part=0, revision=1)
    digest = hashlib.sha256(b"Only part.").hexdigest()
    await world.say("document.completed", {"id": "doc", "revision": 1, "parts": 1, "hash": digest})
    response = await trusted.delete("/v1/units/doc%230")
    assert response.status_code == 400
    assert "document.completed" in response.json()["detail"]


async def test_entities_are_listed_by_page_declared_ones_first(trusted):
    """Then names that readable units mention."""
    whole = (await trusted.get("/v1/entities")).json()
    assert [one["id"] for one in whole["entities"][:2]] == ["payments", "payroll"]
    assert "~zanzibar" in [one["id"] for one in whole["entities"]]
    pages, after = [], None
    while True:
        page = (await trusted.get("/v1/entities", params={"limit": 1} | ({"after": after} if after else {}))).json()
        pages += page["entities"]
        after = page["next"]
        if after is None:
            break
    assert pages == whole["entities"]


async def test_a_name_that_two_entities_claim_lists_both(trusted):
    """Nobody is preferred."""
    found = (await trusted.get("/v1/entities", params={"q": "pay-service"})).json()
    assert found["match"]["candidates"] == ["payments", "payroll"]
    assert [one["id"] for one in found["entities"]] == ["payments", "payroll"]
    one = (await trusted.get("/v1/entities", params={"q": "PAYMENTS"})).json()
    assert (one["match"]["entity_id"], one["match"]["method"]) == ("payments", "exact")


async def test_an_entity_comes_with_the_units_that_may_be_read(guarded):
    """Ana sees her team's unit, Ben his; neither sees the other's."""
    for token, unit_id in (("ana", "dep/timeout"), ("ben", "web/timeout")):
        detail = (await guarded.get("/v1/entities/payments", headers=bearer(token))).json()
        assert detail["entity"]["name"] == "Payments"
        assert [unit["unit_id"] for unit in detail["units"]] == [unit_id]


async def test_a_name_that_only_unreadable_units_mention_does_not_exist(guarded):
    """Neither in the list, nor by id, nor as what a name means."""
    names = (await guarded.get("/v1/entities", headers=bearer("ben"))).json()["entities"]
    assert "~zanzibar" not in [one["id"] for one in names]
    assert (await guarded.get("/v1/entities/~zanzibar", headers=bearer("ben"))).status_code == 404
    assert (await guarded.get("/v1/entities/~zanzibar", headers=bearer("ana"))).status_code == 200
    found = (await guarded.get("/v1/entities", params={"q": "zanzibar"}, headers=bearer("ben"))).json()
    assert found == {"match": None, "entities": [], "next": None}


async def test_contradictions_are_shown_to_those_who_read_both_sides(trusted, guarded):
    """Each pair once, with both texts and what differs."""
    (conflict,) = (await trusted.get("/v1/contradictions")).json()["contradictions"]
    assert [side["unit_id"] for side in conflict["sides"]] == ["dep/timeout", "web/timeout"]
    assert (conflict["difference"], conflict["detail"]) == ("number", "30 or 60")
    for token in ("ana", "ben", "globex"):
        assert (await guarded.get("/v1/contradictions", headers=bearer(token))).json()["contradictions"] == []


async def test_the_status_counts_what_the_caller_may_read(world, trusted, guarded):
    """The trusted caller gets totals; a person gets his own scopes alone."""
    whole = (await trusted.get("/v1/status")).json()
    assert whole["counts"]["units"] == 3
    assert whole["counts"]["by_scope"] == {"personal/ana": 1, "team/platform": 1, "team/web": 1}
    assert sum(mark["lag"] for mark in whole["watermarks"]) == 0
    ben = (await guarded.get("/v1/status", headers=bearer("ben"))).json()
    assert (ben["counts"]["units"], ben["counts"]["by_scope"]) == (1, {"team/web": 1})
    assert ben["counts"]["entities"] is None
    event = {"id": "late", "source": "/t", "tenant": TENANT, "type": "unit.retracted", "data": {"id": "x"}}
    await trusted.post("/v1/events", content=orjson.dumps(event), headers={"content-type": "application/json"})
    assert sum(mark["lag"] for mark in (await trusted.get("/v1/status")).json()["watermarks"]) == 1
