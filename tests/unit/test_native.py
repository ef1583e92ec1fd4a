"""Real servers without containers: what can be said of them before one is started."""

import asyncio
import socket
from pathlib import Path

import pytest

from compose.native.cluster import ClusterPorts, exports, run_cluster
from compose.native.installing import cache_folder, installed, tool
from compose.native.kafka import POM, VERSION, KafkaPorts, install_kafka, properties, start_kafka
from compose.native.ports import free_ports, ports_from
from compose.native.weaviate import WeaviatePorts, environment, install_weaviate
from shared.errors import InvalidInput, NotReady, PortInUse, ToolMissing


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache folder with nothing in it, and no program to be found."""
    monkeypatch.setenv("CORTEX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "cache"


def test_the_cache_is_where_it_is_said_to_be_else_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("CORTEX_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("CORTEX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "cortex"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cortex"


@pytest.mark.anyio
async def test_a_program_is_made_once_however_many_ask_for_it(empty_cache):
    made = []

    async def make(draft: Path) -> None:
        made.append(draft)
        (draft / "half").write_text("half")
        await asyncio.sleep(0)  # let the others come
        (draft / "program").write_text("whole")

    places = await asyncio.gather(*(installed("thing-1", make, 10) for _ in range(5)))
    assert set(places) == {empty_cache / "thing-1"}
    assert len(made) == 1
    assert (empty_cache / "thing-1" / "program").read_text() == "whole"


@pytest.mark.anyio
async def test_a_program_whose_making_failed_leaves_nothing_and_can_be_made_again(empty_cache):
    async def fail(draft: Path) -> None:
        (draft / "half").write_text("half")
        raise NotReady("the line is down")

    async def succeed(draft: Path) -> None:
        (draft / "program").write_text("whole")

    with pytest.raises(NotReady, match="the line is down"):
        await installed("thing-1", fail, 10)
    assert [path.name for path in empty_cache.iterdir()] == [".thing-1.lock"]
    assert (await installed("thing-1", succeed, 10) / "program").exists()


@pytest.mark.anyio
async def test_what_a_killed_run_left_half_made_is_removed(empty_cache):
    half = empty_cache / ".thing-1.abcdefgh"
    half.mkdir(parents=True)
    (half / "half").write_text("half")
    (empty_cache / ".thing-2.abcdefgh").mkdir()  # another's, who may be at work

    async def make(draft: Path) -> None:
        (draft / "program").write_text("whole")

    await installed("thing-1", make, 10)
    assert sorted(path.name for path in empty_cache.iterdir()) == [".thing-1.lock", ".thing-2.abcdefgh", "thing-1"]


@pytest.mark.anyio
async def test_a_program_that_takes_too_long_is_an_error_that_names_it(empty_cache):
    async def hang(draft: Path) -> None:
        await asyncio.Event().wait()

    with pytest.raises(NotReady, match=r"thing-1 was not installed within 0\.05 s"):
        await installed("thing-1", hang, 0.05)
    assert not (empty_cache / "thing-1").exists()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("begin", "named"),
    [
        (lambda folder: start_kafka(folder, KafkaPorts(1, 2)), "java is not installed: apt-get install openjdk-17"),
        (lambda _: install_kafka(), "mvn is not installed: apt-get install maven"),
        (lambda _: install_weaviate(), "go is not installed: install Go"),
    ],
)
async def test_what_is_missing_is_named_with_how_to_install_it(empty_cache, tmp_path, begin, named):
    with pytest.raises(ToolMissing, match=named):
        await begin(tmp_path / "data")


def test_a_tool_is_found_on_the_path(tmp_path, monkeypatch):
    program = tmp_path / "thing"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tool("thing", "install it") == str(program)


def test_free_ports_are_different_and_their_neighbours_free_too():
    for _ in range(20):
        one, pair, other = free_ports(1, 2, 2)
        assert len({one, pair, pair + 1, other, other + 1}) == 5


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"Port {port} cannot be used"):
            ports_from(port, 1)
    with pytest.raises(PortInUse, match="65536"):
        ports_from(65_535, 2)


def test_a_server_has_the_same_port_whichever_others_are_wanted():
    first = free_ports(9)[0]
    alone, beside = ClusterPorts.choose(first, ["redis"]), ClusterPorts.choose(first, ["kafka", "weaviate", "redis"])
    assert alone == beside
    ports = [*vars(beside.kafka).values(), beside.redis, *vars(beside.weaviate).values()]
    assert sorted([*ports, beside.weaviate.gossip + 1, beside.weaviate.raft + 1]) == list(range(first, first + 9))


@pytest.mark.anyio
@pytest.mark.parametrize("only", [(), ("kafka", "postgres")])
async def test_a_server_that_there_is_not_is_refused_before_anything_starts(tmp_path, only):
    async def never(_):
        raise AssertionError

    with pytest.raises(InvalidInput, match="choose of kafka, weaviate, redis"):
        await run_cluster(tmp_path / "data", only, first_port=0, partitions=1, on_ready=never)
    assert not (tmp_path / "data").exists()


def test_the_version_that_is_named_is_the_one_that_maven_is_told():
    assert f"<version>{VERSION}</version>" in POM.read_text(encoding="utf-8")


def test_kafka_listens_on_loopback_makes_no_topic_by_itself_and_dates_records():
    lines = dict(line.split("=", 1) for line in properties(Path("data"), KafkaPorts(5, 6)).splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:5,CONTROLLER://127.0.0.1:6"
    assert lines["advertised.listeners"] == "PLAINTEXT://127.0.0.1:5"
    assert lines["auto.create.topics.enable"] == "false"
    assert lines["log.message.timestamp.type"] == "LogAppendTime"


def test_weaviate_calls_nobody_and_invents_no_property():
    env = environment(Path("data"), WeaviatePorts(1, 2, 3, 5))
    assert env["DISABLE_TELEMETRY"] == "true"
    assert env["AUTOSCHEMA_ENABLED"] == "false"
    assert [env[f"CLUSTER_{kind}_BIND_PORT"] for kind in ("GOSSIP", "DATA")] == ["3", "4"]
    assert [env[name] for name in ("RAFT_PORT", "RAFT_INTERNAL_RPC_PORT")] == ["5", "6"]


def test_the_variables_are_printed_for_a_shell():
    assert exports({"A": "1", "B": "a b"}) == "export A=1\nexport B='a b'\n"
