"""The doctor: each fault of an installation is found, named, and comes with what to do about it."""

import json
import socket
from datetime import UTC, datetime, timedelta

import pytest

from compose.local.doctor import Doctor
from compose.local.folder import DataFolder
from schemas.events import parse_event
from shared.clock import SystemClock
from shared.logs.journal import Journal
from shared.settings import Settings
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.contract.knowledge_events import TENANT, Store, asserted, unit
from tests.endpoint_server import EndpointServer, running

pytestmark = [pytest.mark.anyio, pytest.mark.integration]


@pytest.fixture
async def folder(tmp_path):
    """A data folder with three kept events, all stored; nobody serves it."""
    path = tmp_path / "data"
    DataFolder.claim(path).close()
    log = Journal.open(path / "journal.db", 4, SystemClock())
    for number in range(3):
        envelope = {"id": f"e{number}", "source": "t", "tenant": TENANT, "type": "unit.asserted"}
        await log.append([parse_event({**envelope, "data": unit(f"u{number}", f"Fact {number}.")})])
    await log.close()
    store = Store(
        SqliteWriter(path / "knowledge", SystemClock()),
        SqliteReader(path / "knowledge", threads=1, vector_memory_mb=16),
    )
    await store.apply(*(asserted(unit(f"u{number}", f"Fact {number}.")) for number in range(3)))
    await store.close()
    return path


def free_settings(folder, **given):
    """Settings with ports that nobody has, and an embedder that loads at once."""
    sockets = [socket.socket() for _ in range(4)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    http, kafka, cache, ingest = (one.getsockname()[1] for one in sockets)
    for one in sockets:
        one.close()
    ports = {"http_port": http, "kafka_port": kafka, "cache_port": cache, "ingest_port": ingest}
    return Settings(**{"data_dir": folder, "embedder": "hashed", **ports, **given})


async def examine(settings, answers=None, now=None):
    """Return the findings by check."""
    ask = (answers or {}).get
    doctor = Doctor(settings, ask, lambda: now or datetime.now(UTC))
    return {finding.check: finding async for finding in doctor.findings()}


async def test_a_sound_folder_that_nobody_serves_is_well(folder):
    found = await examine(free_settings(folder))
    assert {finding.state for finding in found.values()} <= {"ok", "skip", "warn"}
    assert (found["journal"].state, found[f"store {TENANT}"].state, found["ports"].state) == ("ok", "ok", "ok")
    assert "3 events" in found["journal"].detail
    assert "stored up to 3 of 3" in found[f"store {TENANT}"].detail
    assert (found["service"].state, found["broker"].state) == ("skip", "skip")


@pytest.mark.parametrize(("kafka", "state"), [("127.0.0.1:1", "ok"), (None, "warn")])
async def test_a_folder_without_version_is_odd_only_where_cortex_up_made_it(tmp_path, kafka, state):
    (tmp_path / "data").mkdir()
    found = await examine(free_settings(tmp_path / "data", kafka_bootstrap=kafka))
    assert found["data folder"].state == state


async def test_a_folder_that_is_not_there_yet_is_no_fault_and_is_not_made(tmp_path):
    found = await examine(free_settings(tmp_path / "none"))
    assert "fail" not in {finding.state for finding in found.values()}
    assert not (tmp_path / "none").exists()


def zero(path):
    content = bytearray(path.read_bytes())
    for page in range(4_096, len(content), 4_096):
        content[page : page + 64] = bytes(64)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "check", "advice"),
    [
        (lambda folder: zero(folder / "journal.db"), "journal", "cortex restore"),
        (
            lambda folder: (folder / "journal.db").write_bytes(b"not a file of SQLite" * 300),
            "journal",
            "cortex restore",
        ),
        (lambda folder: zero(folder / "knowledge" / f"{TENANT}.db"), f"store {TENANT}", "rebuilt from the journal"),
        (lambda folder: (folder / "journal.db").unlink(), f"store {TENANT}", "restore both from one backup"),
        (lambda folder: (folder / "VERSION").write_text('{"schema": 99}'), "data folder", "the release that wrote it"),
        (lambda folder: (folder / "VERSION").write_text("{"), "folder", "cortex restore"),
    ],
    ids=["journal torn", "journal no database", "store torn", "journal lost", "later release", "VERSION torn"],
)
async def test_a_harmed_folder_is_named_with_what_to_do_and_the_rest_is_still_checked(folder, harm, check, advice):
    harm(folder)
    found = await examine(free_settings(folder))
    assert found[check].state == "fail", found
    assert advice in found[check].advice
    assert found["python"].state == "ok"
    assert found["ports"].state == "ok"


async def test_a_taken_port_a_wrong_tokens_file_and_a_broken_clock_are_found(folder, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(json.dumps({"sha256": "short", "tenant": "a", "principal": "*", "rights": ["ask"]}))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = free_settings(folder, http_port=taken.getsockname()[1], tokens_file=tokens)
        found = await examine(settings, now=datetime(1970, 1, 2, tzinfo=UTC))
    assert {found[check].state for check in ("ports", "tokens", "clock")} == {"fail"}
    assert str(settings.http_port) in found["ports"].detail
    assert "tokens line 1 sha256" in found["tokens"].detail
    past = await examine(free_settings(folder), now=datetime.now(UTC) - timedelta(minutes=10))
    assert past["clock"].state == "warn"
    assert "gone back" in past["clock"].advice


async def test_a_service_that_hangs_is_not_ready_or_belongs_elsewhere_is_told_apart(folder):
    settings = free_settings(folder)
    served = DataFolder.claim(folder)
    try:
        assert "nothing answers" in (await examine(settings))["service"].detail
        answers = {"/healthz": (200, {}), "/readyz": (503, {"reasons": {"graph": "still reading"}})}
        found = await examine(settings, answers)
        assert (found["service"].state, found["service"].detail) == ("fail", "not ready: graph: still reading")
        assert found["ports"].state == "skip"
        assert found["broker"].state == "fail"
        assert found["cache"].state == "warn"
    finally:
        served.close()
    answers = {"/healthz": (200, {}), "/readyz": (200, {})}
    doctor = Doctor(settings, answers.get, lambda: datetime.now(UTC))
    told = [finding async for finding in doctor.findings() if finding.check == "service"]
    assert [finding.state for finding in told] == ["warn", "ok"]
    assert "another folder" in told[0].detail


async def test_the_model_is_tried_with_two_sentences_that_mean_the_same_and_two_that_do_not(tmp_path):
    found = await examine(free_settings(tmp_path / "none", embedder="minilm"))
    assert found["embedder"].state == "ok", found["embedder"]


async def test_an_embedding_endpoint_is_asked_for_a_vector_of_the_configured_length(tmp_path):
    with running(EndpointServer({"words": 48})) as server:
        given = {"embedder": "endpoint", "embedder_url": server.url, "embedder_model": "words"}
        right = await examine(free_settings(tmp_path / "none", **given, embedder_dims=48))
        wrong = await examine(free_settings(tmp_path / "none", **given, embedder_dims=96))
    gone = await examine(free_settings(tmp_path / "none", **given, embedder_dims=48))
    assert [found["embedder"].state for found in (right, wrong, gone)] == ["ok", "fail", "fail"]
    assert "96 dimensions" in wrong["embedder"].detail
    assert "cannot be reached" in gone["embedder"].detail


async def test_a_weaviate_that_does_not_answer_is_a_fault_with_what_to_mend(tmp_path):
    with socket.socket() as nobody, socket.socket() as nothing:  # bound, and never listening
        nobody.bind(("127.0.0.1", 0))
        nothing.bind(("127.0.0.1", 0))
        http, grpc = (f"127.0.0.1:{one.getsockname()[1]}" for one in (nobody, nothing))
        given = {"store": "weaviate", "weaviate_url": f"http://{http}", "weaviate_grpc": grpc}
        found = await examine(free_settings(tmp_path / "none", **given))
    assert (found["store"].check, found["store"].state) == ("store", "fail")
    assert "CORTEX_WEAVIATE_URL" in found["store"].advice


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "CORTEX_WEAVIATE_GRPC"),
        ({"weaviate_url": "http://127.0.0.1:1", "weaviate_grpc": "127.0.0.1:1"}, "must be different"),
    ],
    ids=["none is set", "one port for both"],
)
async def test_addresses_of_weaviate_that_cannot_be_right_are_told_in_one_line(tmp_path, given, named):
    found = await examine(free_settings(tmp_path / "none", store="weaviate", **given))
    assert found["store"].state == "fail"
    assert named in found["store"].detail
    assert "\n" not in found["store"].detail


async def test_in_a_cluster_a_service_holds_no_folder_and_is_not_started_by_up(tmp_path):
    settings = free_settings(tmp_path / "none", kafka_bootstrap="127.0.0.1:1")
    assert "cortex query" in (await examine(settings))["service"].detail
    answers = {"/healthz": (200, {}), "/readyz": (200, {})}
    doctor = Doctor(settings, answers.get, lambda: datetime.now(UTC))
    told = [finding.state async for finding in doctor.findings() if finding.check == "service"]
    assert told == ["ok"]
