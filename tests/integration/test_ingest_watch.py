"""An ingest process at work, seen from outside: its figures, its slow events by name, its readiness, its traces."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compose.local.ingest_health import serving_health
from ingest.health import IngestHealth
from ingest.metrics import STAGES, IngestMetrics
from ingest.pipeline import Pipeline
from ingest.polling import SESSION_MS
from query.access import Access, Right, TokenEntry, hash_token
from shared.errors import EmbedderUnavailable, PortInUse, StoreUnavailable
from shared.partitioner import partition_of
from shared.tracing import OpenTelemetry
from tests.integration.conftest import BrokerProcess
from tests.integration.ingesting import Rig, as_bytes, asserted, running, until

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

TRUSTING = Access("demo", None)


def tokens() -> Access:
    """Two tokens: ``asker`` may ask, ``chief`` is an admin."""
    rights = {"asker": frozenset({Right.ASK}), "chief": frozenset(Right)}
    entries = [
        TokenEntry(sha256=hash_token(name), tenant="demo", principal="*", rights=given)
        for name, given in rights.items()
    ]
    return Access("demo", {entry.sha256: entry for entry in entries})


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"} if name else {}


@dataclass
class Watched:
    """A pipeline at work, its figures and its spans."""

    rig: Rig
    exporter: InMemorySpanExporter

    def value(self, name: str, **labels: str) -> float:
        return self.rig.pipeline.metrics.registry.get_sample_value(name, labels) or 0.0

    def spans(self, trace: str) -> list[ReadableSpan]:
        return [one for one in self.exporter.get_finished_spans() if f"{one.context.trace_id:032x}" == trace]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at_work(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """One pipeline for most of these tests; each has a tenant of its own."""
    rig = Rig(broker.bootstrap, "watch.", tmp_path_factory.mktemp("watch"), slow_event_s=0.3, embed_threads=4)
    await rig.prepare()
    exporter = InMemorySpanExporter()
    rig.pipeline = rig.make(traces=OpenTelemetry(SimpleSpanProcessor(exporter), "cortex-ingest"))
    async with running(rig):
        yield Watched(rig, exporter)


@pytest.fixture
def told() -> Iterator[list[dict]]:
    """What is logged."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@asynccontextmanager
async def asked(health: IngestHealth, access: Access = TRUSTING) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the health of a process, and a client for it."""
    async with (
        serving_health(health, access, "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


async def test_each_stage_tells_how_many_it_handled_how_long_and_what_waits(at_work: Watched):
    rig, value = at_work.rig, at_work.value
    before = {stage: value("cortex_ingest_records_total", stage=stage) for stage in STAGES}
    searchable = value("cortex_ingest_searchable_seconds_count")
    await rig.say(*(asserted(f"u{n}", f"Fact {n}.") for n in range(20)), tenant="counted")
    await rig.settle()
    for stage in STAGES:
        assert value("cortex_ingest_records_total", stage=stage) >= before[stage] + 20
        assert value("cortex_ingest_window_seconds_count", stage=stage) >= 1
    assert value("cortex_ingest_searchable_seconds_count") == searchable + 20
    await until(lambda: value("cortex_ingest_commits_total", stage="store", outcome="done") >= 1)
    await until(lambda: all(value("cortex_ingest_lag", stage=stage) == 0 for stage in STAGES))


async def test_what_changes_nothing_is_not_measured_as_becoming_searchable(at_work: Watched):
    rig, value = at_work.rig, at_work.value
    places = await rig.say(asserted("u1", "One."), tenant="again")
    await rig.settle()
    searchable = value("cortex_ingest_searchable_seconds_count")
    handled = value("cortex_ingest_records_total", stage="contradictions")
    await rig.redeliver(places)
    await until(lambda: value("cortex_ingest_records_total", stage="contradictions") > handled)
    assert value("cortex_ingest_searchable_seconds_count") == searchable


async def test_a_slow_event_is_named_while_it_is_slow_and_the_other_partitions_go_on(
    at_work: Watched, told: list[dict]
):
    """C36: whoever looks at the figures sees which stage and partition stand, and the log says at which event."""
    rig, value = at_work.rig, at_work.value
    searchable = value("cortex_ingest_searchable_seconds_count")
    seen = value("cortex_ingest_slow_events_seen_total", stage="embed")
    stubborn = asserted("slow", "A stubborn text.", event={"id": "the-slow-one"})
    with rig.embedder.holding("stubborn"):
        (place,) = await rig.say(stubborn, tenant="slow")
        slow = {"stage": "embed", "partition": str(place.position.partition)}
        await until(lambda: value("cortex_ingest_slow_events", **slow) == 1)
        await rig.say(*(asserted(f"u{n}", f"Fact {n}.") for n in range(20)), tenant="slow")
        await until(lambda: value("cortex_ingest_searchable_seconds_count") >= searchable + 10)
        (line,) = slow_at_embedding(told, "the-slow-one")
        assert (line["partition"], line["offset"]) == (place.position.partition, place.position.number)
        assert line["seconds"] >= 0.3
        await until(lambda: value("cortex_ingest_oldest_seconds", stage="embed") > 0.3)
    await rig.settle()
    await until(lambda: value("cortex_ingest_slow_events", **slow) == 0)
    assert value("cortex_ingest_slow_events_seen_total", stage="embed") > seen
    assert await rig.units("slow", tenant="slow")


def slow_at_embedding(told: list[dict], event_id: str) -> list[dict]:
    """The lines that name an event as slow at embedding; a busy machine may make others slow too."""
    slow = [line for line in told if line["event"] == "lane.slow"]
    return [line for line in slow if (line["stage"], line["event_id"]) == ("embed", event_id)]


async def test_an_event_slower_than_the_session_costs_no_rebalance_and_is_handled_once(broker, prefix, tmp_path, told):
    """C36: two members; one is at an event for longer than a group waits for a silent member. Nobody is put out of it."""
    rig = Rig(broker.bootstrap, prefix, tmp_path, slow_event_s=1.0, embed_threads=4)
    async with running(rig):
        second = rig.make(epoch=rig.pipeline.epoch, pump=False)
        try:
            await second.start()
            warming = iter(range(10_000))

            async def both_work() -> bool:
                await rig.say(*(asserted(f"w{next(warming)}", "A fact to begin with.") for _ in range(8)))
                return taken(rig.pipeline) > 0 and taken(second) > 0

            await until(both_work)
            before = len(moves(told))
            with rig.embedder.holding("stubborn"):
                await rig.say(asserted("slow", "A stubborn text.", event={"id": "the-slow-one"}))
                await rig.say(*(asserted(f"u{n}", f"Fact {n}.") for n in range(20)))
                await until(lambda: max(stands_s(rig.pipeline), stands_s(second)) > SESSION_MS / 1000 + 2)
                assert len(moves(told)) == before, "no rebalance"
            await until(lambda: all_stored(rig, "slow", *(f"u{n}" for n in range(20))))
            assert len(slow_at_embedding(told, "the-slow-one")) == 1
            assert rig.embedder.computed["A stubborn text."] == 1
        finally:
            await second.stop()


def stands_s(pipeline: Pipeline) -> float:
    """For how long the embed stage of a member has stood at a record."""
    registry = pipeline.metrics.registry
    return registry.get_sample_value("cortex_ingest_oldest_seconds", {"stage": "embed"}) or 0.0


def taken(pipeline: Pipeline) -> float:
    """How many records the embed stage of a member has finished."""
    registry = pipeline.metrics.registry
    return registry.get_sample_value("cortex_ingest_records_total", {"stage": "embed"}) or 0.0


def moves(told: list[dict]) -> list[dict]:
    """Every time that a member of the embed stage was given partitions, or lost some."""
    return [line for line in told if line["event"] in {"lanes.assigned", "lanes.revoked"} and line["stage"] == "embed"]


async def all_stored(rig: Rig, *unit_ids: str) -> bool:
    return len(await rig.units(*unit_ids)) == len(unit_ids)


async def test_retries_and_dead_letters_are_counted_by_cause(at_work: Watched):
    rig, value = at_work.rig, at_work.value
    rig.embedder.fault = lambda text: EmbedderUnavailable("no") if "cursed" in text else None
    await rig.say(asserted("u1", "A cursed text."), tenant="cursed")
    await rig.settle()
    cause = {"stage": "embed", "cause": "embedder-unavailable"}
    assert value("cortex_ingest_retries_total", **cause) == 2
    assert value("cortex_ingest_dead_letters_total", **cause) == 1


async def test_the_lag_is_told_by_tenant(at_work: Watched):
    """While one tenant's events wait, the figures say whose they are."""
    rig, value = at_work.rig, at_work.value
    await rig.say(asserted("u1", "Quiet."), tenant="quiet")
    await rig.say(asserted("u1", "Loud."), tenant="loud")
    await rig.settle()
    with rig.embedder.holding("obstinate"):
        await rig.say(*(asserted(f"s{n}", f"An obstinate text {n}.") for n in range(7)), tenant="loud")
        await until(lambda: value("cortex_ingest_tenant_lag", tenant="loud") > 0)
        assert value("cortex_ingest_tenant_lag", tenant="quiet") == 0
    await rig.settle()
    await until(lambda: value("cortex_ingest_tenant_lag", tenant="loud") == 0)


async def test_the_producer_s_trace_has_a_span_of_every_stage(at_work: Watched):
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    followed = asserted("u1", "A traced fact.", event={"traceparent": f"00-{trace}-{span}-01"})
    others = len(at_work.exporter.get_finished_spans())
    await at_work.rig.say(followed, asserted("u2", "Another fact."), tenant="traced")
    await at_work.rig.settle()
    await until(lambda: len(at_work.spans(trace)) >= len(STAGES))
    spans = at_work.spans(trace)
    assert sorted(one.name for one in spans) == sorted(STAGES)
    assert {f"{one.parent.span_id:016x}" for one in spans} == {span}
    assert {one.attributes["cortex.tenant"] for one in spans} == {"traced"}
    assert len(at_work.exporter.get_finished_spans()) == others + len(STAGES), "none for the event without a trace"


async def test_a_kafka_header_s_traceparent_counts_where_the_event_has_none(at_work: Watched):
    trace, key = "c" * 32, b"acme/over-kafka"
    body = as_bytes(asserted("over-kafka", "A fact over Kafka."))
    header = ("traceparent", f"00-{trace}-{'d' * 16}-01".encode())
    await at_work.rig.produce((key, body, [header]), partition=partition_of(key, at_work.rig.log.partitions))
    await until(lambda: {one.name for one in at_work.spans(trace)} >= set(STAGES))


async def test_readiness_turns_while_the_broker_is_away_and_comes_back_by_itself(own_broker: BrokerProcess, tmp_path):
    async with running(Rig(own_broker.bootstrap, "r.", tmp_path)) as rig:
        health = IngestHealth(rig.pipeline.metrics)
        async with asked(health) as client:
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()["reasons"]) == (503, {"pipeline": "starting"})
            health.begun(rig.pipeline)
            assert (await client.get("/readyz")).status_code == 200
            await asyncio.to_thread(own_broker.kill)
            answer = await client.get("/readyz")
            assert answer.status_code == 503
            assert "broker" in answer.json()["reasons"]
            assert (await client.get("/healthz")).status_code == 200, "it lives: a restart would mend nothing"
            await asyncio.to_thread(own_broker.start)

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until(is_ready)


async def test_readiness_turns_while_the_store_is_away_and_names_it(at_work: Watched, monkeypatch: pytest.MonkeyPatch):
    assert await at_work.rig.pipeline.troubles() == {}

    async def away() -> None:
        raise StoreUnavailable("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(at_work.rig.reader, "ping", away)
        assert await at_work.rig.pipeline.troubles() == {"store": "the store does not answer"}
    assert await at_work.rig.pipeline.troubles() == {}


async def test_figures_are_served_to_whoever_is_trusted_and_with_tokens_to_an_admin():
    health = IngestHealth(IngestMetrics())
    health.metrics.lag({"embed": 7})
    async with asked(health) as client:
        assert 'cortex_ingest_lag{stage="embed"} 7.0' in (await client.get("/metrics")).text
        strange = await client.get("/metrics", headers={"Host": "rebound.example"})
        assert strange.status_code == 421
    async with asked(health, tokens()) as client:
        answers = {name: await client.get("/metrics", headers=bearer(name)) for name in ("", "asker", "chief")}
        assert {name: answer.status_code for name, answer in answers.items()} == {"": 401, "asker": 403, "chief": 200}
        assert (await client.get("/healthz")).status_code == 200


async def test_a_port_that_is_taken_is_named_with_its_setting():
    health = IngestHealth(IngestMetrics())
    async with serving_health(health, TRUSTING, "127.0.0.1", 0) as port:
        with pytest.raises(PortInUse, match="CORTEX_INGEST_PORT"):
            async with serving_health(health, TRUSTING, "127.0.0.1", port):
                pass
