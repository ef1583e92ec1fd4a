"""The SQLite store among processes, threads and failures: what the protocol promises when things go wrong."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import numpy as np
import pytest

from shared.clock import ManualClock
from shared.errors import DiskFull, FolderNewer, InvalidInput, StoreUnavailable
from shared.stores.memory import MemoryStore
from shared.stores.sqlite import SqliteReader, SqliteWriter
from shared.text import query_terms
from tests.contract.knowledge_events import (
    NOW,
    TENANT,
    Store,
    asserted,
    effect_of,
    open_store,
    retracted,
    unit,
    vector_of,
    where,
)

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

CLOCK = ManualClock(NOW)
ROOT = Path(__file__).parents[2]
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

WRITER = """
import asyncio, sys
from pathlib import Path
from shared.clock import SystemClock
from shared.stores.sqlite import SqliteWriter
from tests.contract.knowledge_events import TENANT, asserted, effect_of, retracted, unit

async def write(folder, start):
    writer = SqliteWriter(folder, SystemClock())
    for batch in range(start, start + 100_000):
        stated = [effect_of(asserted(unit(f"u{batch}-{n}", f"batch {batch} number {n}")), batch * 10 + n) for n in range(9)]
        gone = effect_of(retracted(f"u{batch - 1}-0"), batch * 10 + 9)
        await writer.apply(TENANT, [*stated, gone])
        print(batch, flush=True)

asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.fixture
async def store(tmp_path):
    opened = open_store("sqlite", tmp_path, CLOCK)
    yield opened
    await opened.close()


def start_writer(folder: Path, start: int) -> subprocess.Popen[str]:
    """Start a process that writes batches and prints the number of each that is durable."""
    command = [sys.executable, "-c", WRITER, str(folder), str(start)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def read_until(process: subprocess.Popen[str], batch: int) -> int:
    """Read the writer's lines until a batch is durable."""
    with anyio.fail_after(60):
        while True:
            line = await asyncio.to_thread(process.stdout.readline)
            assert line, "the writer ended by itself"
            if int(line) >= batch:
                return int(line)


def check_file(path: Path) -> None:
    """Assert that tables, keyword index and vectors are whole and in step."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO passage_words (passage_words) VALUES ('integrity-check')")
        (without_vectors,) = connection.execute(
            "SELECT count(*) FROM passage WHERE content_key NOT IN (SELECT content_key FROM text)"
        ).fetchone()
        (loose,) = connection.execute(
            "SELECT count(*) FROM text WHERE content_key NOT IN (SELECT content_key FROM passage)"
        ).fetchone()
        assert (without_vectors, loose) == (0, 0)
    finally:
        connection.close()


async def test_what_was_acknowledged_survives_kill_nine(tmp_path):
    start = 1
    for _ in range(4):
        process = start_writer(tmp_path, start)
        try:
            durable = await read_until(process, start + 3)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        rest = [int(line) for line in process.stdout]
        durable = rest[-1] if rest else durable
        process.stdout.close()
        reader = SqliteReader(tmp_path, clock=CLOCK)
        async with reader.snapshot(TENANT) as snapshot:
            stored = (await snapshot.watermarks())["cortex.events", 0]
            assert stored % 10 == 9
            assert stored // 10 >= durable
            wanted = [f"u{batch}-{n}" for batch in range(1, stored // 10 + 1) for n in range(9)]
            dead = {f"u{batch}-0" for batch in range(1, stored // 10)}
            assert set(await snapshot.units(wanted)) == set(wanted) - dead
            assert (await snapshot.counts()).units == len(wanted) - len(dead)
        await reader.close()
        start = stored // 10 + 1
    check_file(tmp_path / f"{TENANT}.db")


async def test_another_process_reads_one_commit_at_a_time_while_one_writes(tmp_path):
    process = start_writer(tmp_path, 1)
    reader = SqliteReader(tmp_path, threads=2, clock=CLOCK)
    try:
        await read_until(process, 2)
        seen = []
        with anyio.fail_after(60):
            while len(seen) < 40 or seen[-1] == seen[0]:
                async with reader.snapshot(TENANT) as snapshot:
                    batches = (await snapshot.watermarks())["cortex.events", 0] // 10
                    hits = await snapshot.vector(vector_of("batch 1 number 1"), where(), 100_000)
                    counts = await snapshot.counts()
                    assert counts.units == len(hits) == batches * 9 - (batches - 1)
                    assert hits[0].unit_ids == ("u1-1",)
                    newest = await snapshot.keyword(query_terms(f"{batches}"), where(), 100)
                    assert f"u{batches}-0" in {unit_id for hit in newest for unit_id in hit.unit_ids}
                seen.append(batches)
        assert seen == sorted(seen)
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
        await reader.close()


async def test_a_reader_finds_what_was_closed_properly(tmp_path):
    """After a clean close there is one file without a log; it can be read and copied."""
    writer = SqliteWriter(tmp_path, CLOCK)
    await writer.apply(TENANT, [effect_of(asserted(unit("u", "words")), 1)])
    await writer.close()
    assert [path.name for path in tmp_path.iterdir()] == [f"{TENANT}.db"]
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / f"{TENANT}.db").write_bytes((tmp_path / f"{TENANT}.db").read_bytes())
    store = Store(SqliteWriter(copy, CLOCK), SqliteReader(copy, clock=CLOCK), number=1)
    assert await store.keyword("words") == [("u",)]
    await store.apply(retracted("u"))
    assert await store.keyword("words") == []
    await store.close()


async def test_a_file_of_a_later_release_is_refused_and_left_alone(tmp_path):
    path = tmp_path / f"{TENANT}.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    store = open_store("sqlite", tmp_path, CLOCK)
    with pytest.raises(FolderNewer):
        await store.apply(asserted(unit("u", "text")))
    with pytest.raises(FolderNewer):
        await store.keyword("text")
    await store.close()
    assert path.read_bytes() == before


async def test_what_is_no_database_is_unavailable(tmp_path):
    (tmp_path / f"{TENANT}.db").write_bytes(b"not a database, not at all" * 100)
    store = open_store("sqlite", tmp_path, CLOCK)
    with pytest.raises(StoreUnavailable):
        await store.apply(asserted(unit("u", "text")))
    with pytest.raises(StoreUnavailable):
        await store.keyword("text")
    with pytest.raises(StoreUnavailable):
        await store.reader.ping()
    await store.close()


@pytest.mark.parametrize("name", ["", "../up", "a/b", "UPPER", "a" * 64, "-a", "a\n"])
async def test_a_name_that_is_no_tenant_touches_no_file(store, name):
    with pytest.raises(InvalidInput):
        async with store.reader.snapshot(name):
            pass
    with pytest.raises(InvalidInput):
        await store.writer.known_vectors("m", name, ["k"])


async def test_a_full_disk_is_said_and_nothing_of_the_batch_stays(store):
    await store.apply(asserted(unit("u", "text")))
    connection = store.writer._file(TENANT)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    before = await store.writer.digest(TENANT)
    with pytest.raises(DiskFull):
        await store.apply(*(asserted(unit(f"u{n}", f"number {n} " + "x" * 2000)) for n in range(200)))
    assert await store.writer.digest(TENANT) == before
    connection.execute("PRAGMA max_page_count = 1000000")
    await store.apply(asserted(unit("v", "later text")))
    assert await store.keyword("later") == [("v",)]


async def test_a_lock_held_by_a_stranger_is_transient(store, tmp_path):
    await store.apply(asserted(unit("u", "text")))
    store.writer._file(TENANT).execute("PRAGMA busy_timeout = 20")
    stranger = sqlite3.connect(tmp_path / f"{TENANT}.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.apply(asserted(unit("v", "text")))
    stranger.execute("ROLLBACK")
    stranger.close()
    await store.apply(asserted(unit("v", "text")))
    assert (await store.counts()).units == 2


async def test_a_cancelled_query_stops_and_its_connection_is_used_again(store):
    await store.apply(asserted(unit("u", "text")))
    with anyio.fail_after(20):
        with anyio.move_on_after(0.1) as scope:
            async with store.reader.snapshot(TENANT) as snapshot:
                await snapshot._run(lambda connection: connection.execute(ENDLESS).fetchone(), None)
        assert scope.cancelled_caught
        await store.apply(asserted(unit("v", "text two")))
        for _ in range(4):
            assert len(await store.vector("text")) == 2
        await until(lambda: store.reader._idle and not any(one.in_transaction for _, one in store.reader._idle))


async def test_a_cancelled_arm_leaves_the_snapshot_to_the_others(store):
    await store.apply(asserted(unit("u", "text")))
    with anyio.fail_after(20):
        async with store.reader.snapshot(TENANT) as snapshot:
            with anyio.move_on_after(0.1):
                await snapshot._run(lambda connection: connection.execute(ENDLESS).fetchone(), None)
            assert set(await snapshot.units(["u"])) == {"u"}


async def test_a_write_that_nobody_waits_for_any_more_is_whole_or_not_there(store):
    effects = [effect_of(asserted(unit(f"u{n}", f"number {n}")), n) for n in range(1, 201)]
    writing = asyncio.ensure_future(store.writer.apply(TENANT, effects))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    await store.writer.apply(TENANT, [effect_of(asserted(unit("last", "last")), 300)])
    assert (await store.counts()).units in (1, 201)


async def test_more_snapshots_than_threads_wait_their_turn(store):
    await store.apply(asserted(unit("u", "text")))

    async def ask():
        async with store.reader.snapshot(TENANT) as snapshot:
            return await asyncio.gather(
                snapshot.keyword(["text"], where(), 5),
                snapshot.vector(vector_of("text"), where(), 5),
                snapshot.counts(),
            )

    with anyio.fail_after(30):
        answers = await asyncio.gather(*(ask() for _ in range(100)))
    assert {len(answer[0]) for answer in answers} == {1}
    assert len(store.reader._idle) <= 16


async def test_a_closed_writer_says_so_and_closes_twice(tmp_path):
    writer = SqliteWriter(tmp_path, CLOCK)
    await writer.close()
    await writer.close()
    with pytest.raises(StoreUnavailable):
        await writer.apply(TENANT, [effect_of(asserted(unit("u", "text")), 1)])


async def test_a_warmed_reader_answers_the_same(store):
    await store.apply(asserted(unit("u", "one")), asserted(unit("v", "two", scope="team/other")))
    await store.reader.warm()
    assert len(store.reader._matrices._matrices) == 2
    assert await store.vector("one") == [("u",)]


async def test_a_closed_reader_says_so(tmp_path):
    reader = SqliteReader(tmp_path, clock=CLOCK)
    await reader.close()
    with pytest.raises(StoreUnavailable):
        async with reader.snapshot(TENANT):
            pass


@pytest.mark.parametrize("memory_mb", [0, 16])
async def test_matrices_that_are_patched_agree_with_plain_search(tmp_path, memory_mb):
    """A reader that lives along with 60 commits of additions, changes and removals answers as the in-memory store does."""
    reader = SqliteReader(tmp_path, threads=2, vector_memory_mb=memory_mb, clock=CLOCK)
    plain, writer = MemoryStore(CLOCK), SqliteWriter(tmp_path, CLOCK)
    chance = np.random.default_rng(7)
    number = 0
    for _ in range(60):
        effects = []
        for _ in range(int(chance.integers(1, 12))):
            number += 1
            name = f"u{chance.integers(0, 60)}"
            text = f"text {chance.integers(0, 40)}"
            stated = asserted(unit(name, text, scope=f"team/{'ab'[chance.integers(0, 2)]}"))
            effects.append(effect_of(stated if chance.random() < 0.6 else retracted(name), number))
        await writer.apply(TENANT, effects)
        await plain.apply(TENANT, effects)
        for filter_ in (where("team/a"), where("team/a", "team/b")):
            query = vector_of(f"question {number}")
            async with reader.snapshot(TENANT) as patched, plain.snapshot(TENANT) as wanted:
                assert await patched.vector(query, filter_, 9) == await wanted.vector(query, filter_, 9)
    await reader.close()
    await writer.close()


async def until(condition, within_s: float = 10) -> None:
    """Wait for a condition."""
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - the condition is another thread's work, which sets no event
            await anyio.sleep(0.01)


async def test_a_unit_that_cannot_be_read_any_more_keeps_no_other_from_the_graph(store, tmp_path):
    """A rule for units that came later, or a damaged row, must not keep a whole folder from starting."""
    await store.apply(asserted(unit("bad", "The first text.")), asserted(unit("good", "The second text.")))
    with sqlite3.connect(tmp_path / f"{TENANT}.db") as connection:
        connection.execute("UPDATE statement SET body = json_set(body, '$.text', ' ') WHERE unit_id = 'bad'")
    connection.close()
    assert [one.id for one in await store.writer.contributions(TENANT)] == ["unit:good"]
