"""The journal's file: what survives, who may write at once, and what a broken disk or folder says."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from schemas.events import Event, parse_event
from schemas.status import LetterMark, LetterState
from shared.clock import SystemClock
from shared.errors import DataFolderError, DiskFull, FolderNewer, FolderReadOnly, LogUnavailable, Overloaded
from shared.logs import journal as journal_module
from shared.logs.journal import Journal
from shared.logs.turnstile import Turnstile

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

ROOT = Path(__file__).parents[2]
# Writes for ever and says each id once its append has returned.
WRITER = """
import asyncio, sys
from pathlib import Path
from schemas.events import parse_event
from shared.clock import SystemClock
from shared.logs.journal import Journal
from shared.logs.turnstile import Turnstile

async def main(path, source, count):
    journal = Journal.open(Path(path), 4, SystemClock())
    for number in range(int(count)):
        data = {"id": f"u{number}", "text": "x" * 500, "type": "context", "scope": {"level": "team", "entity_id": "t"}}
        event = {"id": f"e{number}", "source": source, "tenant": "acme", "type": "unit.asserted", "data": data}
        [place] = await journal.append([parse_event(event)])
        print(event["id"], place.position.number, flush=True)
    await journal.close()

asyncio.run(main(*sys.argv[1:]))
"""


def event(number: int, text: str = "The gateway listens on 8420.") -> Event:
    unit = {"id": f"u{number}", "text": text, "type": "context", "scope": {"level": "team", "entity_id": "platform"}}
    return parse_event(
        {"id": f"e{number}", "source": "/tests", "tenant": "acme", "type": "unit.asserted", "data": unit}
    )


def start_writer(path: Path, source: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), source, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_a_file_that_is_opened_again_keeps_its_events_its_name_and_its_partitions(tmp_path: Path) -> None:
    first = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    await first.append([event(1)])
    await first.close()
    again = Journal.open(tmp_path / "journal.db", 7, SystemClock())
    assert (again.log_id, again.partitions) == (first.log_id, 4)
    [place] = await again.append([event(1)])
    assert place.duplicate
    await again.close()


async def test_two_journals_have_different_names(tmp_path: Path) -> None:
    one, two = (Journal.open(tmp_path / name, 4, SystemClock()) for name in ("one.db", "two.db"))
    assert one.log_id != two.log_id
    await one.close()
    await two.close()


def test_a_clock_that_went_back_while_nobody_ran_does_not_take_recorded_at_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
        [now] = await journal.append([event(1)])
        await journal.close()

        class Early(SystemClock):
            def now(self) -> datetime:
                return datetime(2001, 1, 1, tzinfo=UTC)

        journal = Journal.open(tmp_path / "journal.db", 4, Early())
        [later] = await journal.append([event(2)])
        assert later.recorded_at == now.recorded_at
        await journal.close()

    asyncio.run(scenario())


async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with start_writer(path, "/killed", 100_000) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline().split()[0] for _ in range(50)]
        writer.send_signal(signal.SIGKILL)
        said += [line.split()[0] for line in writer.stdout if line.endswith("\n")]
    journal = Journal.open(path, 4, SystemClock())
    kept = [record.event_id for record in await journal.read(0, 100_000)]
    assert kept[: len(said)] == said
    assert len(kept) <= len(said) + 1  # one may have been committed and not yet said
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    await journal.close()


async def test_two_processes_write_at_once_and_a_third_follows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    reader = Journal.open(path, 4, SystemClock())
    writers = [start_writer(path, source, 150) for source in ("/a", "/b")]
    followed: list[tuple[str, str]] = []
    newest = 0
    async with asyncio.timeout(60):
        while len(followed) < 300:
            assert await reader.wait(newest, 30)
            for record in await reader.read(newest, 64):
                assert record.position.number > newest
                newest = record.position.number
                followed.append((record.source, record.event_id))
    for writer in writers:
        writer.communicate(timeout=30)
        assert writer.returncode == 0
    for source in ("/a", "/b"):
        assert [name for where, name in followed if where == source] == [f"e{number}" for number in range(150)]
    await reader.close()


async def test_waiting_notices_another_processes_commit_after_a_long_silence(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    reader = Journal.open(path, 4, SystemClock())
    assert not await reader.wait(0, 0.3)  # long enough to trust the file's time of change
    waiting = asyncio.create_task(reader.wait(0, 30))
    with start_writer(path, "/late", 1):
        assert await asyncio.wait_for(waiting, 30)
    await reader.close()


async def test_closing_commits_what_waits(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    appends = [asyncio.create_task(journal.append([event(number)])) for number in range(100)]
    await asyncio.sleep(0)  # each has handed its events over
    await journal.close()
    await asyncio.gather(*appends)
    again = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    assert len(await again.read(0, 1_000)) == 100
    await again.close()


async def test_a_full_disk_is_named_takes_nothing_and_passes(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    await journal.append([event(1)])
    # SQLite gives the same error for this bound as for ENOSPC
    journal._writing._db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(DiskFull):
        await journal.append([event(number, "x" * 20_000) for number in range(2, 10)])
    assert [record.event_id for record in await journal.read(0, 10)] == ["e1"]
    journal._writing._db.execute("PRAGMA max_page_count = 100000")
    await journal.append([event(number, "x" * 20_000) for number in range(2, 10)])
    assert len(await journal.read(0, 100)) == 9
    await journal.close()


async def test_too_much_at_once_is_refused_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "WAITING_BYTES", 25_000)
    journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    with sqlite3.connect(tmp_path / "journal.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")  # the writer has to wait, so that requests pile up
        appends = [asyncio.create_task(journal.append([event(number, "x" * 10_000)])) for number in range(20)]
        await asyncio.sleep(0)
        other.execute("ROLLBACK")
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Overloaded)]
    assert 0 < len(refused) < 20
    assert len(await journal.read(0, 100)) == 20 - len(refused)
    other.close()
    await journal.append([event(99, "x" * 30_000)])  # one request is always taken
    await journal.close()


async def test_a_cancelled_caller_disturbs_nobody(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
    leaving = asyncio.create_task(journal.append([event(1)]))
    staying = asyncio.create_task(journal.append([event(2)]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying)[0].position.number > 0
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await journal.close()


def test_a_journal_of_a_later_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(FolderNewer, match="schema 99"):
        Journal.open(path, 4, SystemClock())


def test_a_file_that_is_no_journal_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    before = path.read_bytes()
    with pytest.raises(DataFolderError, match="damaged"):
        Journal.open(path, 4, SystemClock())
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FolderReadOnly):
        Journal.open(tmp_path / "absent" / "journal.db", 4, SystemClock())


async def test_a_journal_locked_for_good_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal.open(path, 4, SystemClock())
    for connection in (journal._writing._db, journal._reading._db):
        connection.execute("PRAGMA busy_timeout = 10")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LogUnavailable, match="locked"):
            await journal.append([event(1)])
        with pytest.raises(LogUnavailable, match="locked"):
            await journal.read(0, 1)
        other.execute("ROLLBACK")
    other.close()
    await journal.append([event(1)])
    [record] = await journal.read(0, 1)
    assert orjson.loads(record.body)["id"] == "e1"
    await journal.close()


@pytest.fixture
def sealed() -> Iterator[Path]:
    """A folder that this process may read but not write while it lasts (as root it becomes another user)."""
    folder = Path(tempfile.mkdtemp(prefix="cortex-sealed-"))
    asyncio.run(Journal.open(folder / "journal.db", 4, SystemClock()).close())
    folder.chmod(0o555)
    (folder / "journal.db").chmod(0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_folder_without_rights_to_write_is_named(sealed: Path) -> None:
    with pytest.raises(FolderReadOnly):
        Journal.open(sealed / "journal.db", 4, SystemClock())
    with pytest.raises(FolderReadOnly):
        Journal.open(sealed / "other.db", 4, SystemClock())


def test_a_flood_of_writers_turns_does_not_keep_another_waiting(tmp_path: Path) -> None:
    done = threading.Event()
    turns = 0

    def flood() -> None:
        nonlocal turns
        mine = Turnstile(tmp_path / "journal.db", timeout_s=30)
        while not done.is_set():
            with mine.writing():
                turns += 1
                done.wait(0.002)  # a commit's time; the lock is asked for again at once
        mine.close()

    other = Turnstile(tmp_path / "journal.db", timeout_s=30)
    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        for _ in range(50):
            with other.writing():
                pass
    finally:
        done.set()
        flooding.join(30)
    assert turns < 10 * 50  # they alternate; without turns the flood has thousands before the other has its fiftieth
    other.close()


def test_readers_share_the_file_and_a_writer_waits_for_them(tmp_path: Path) -> None:
    one, two, writer = (Turnstile(tmp_path / "journal.db", timeout_s=0.05) for _ in range(3))
    with one.reading(), two.reading(), pytest.raises(LogUnavailable, match="locked"), writer.writing():
        pass
    with writer.writing(), pytest.raises(LogUnavailable), one.reading():
        pass
    for turnstile in (one, two, writer):
        turnstile.close()


FIRST_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    tenant TEXT NOT NULL, source TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL,
    recorded_at INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX event_identity ON event (tenant, id, source);
CREATE UNIQUE INDEX event_ordinal ON event (tenant, topic, partition, number, ordinal);
CREATE TABLE lane (
    tenant TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, events INTEGER NOT NULL,
    PRIMARY KEY (tenant, topic, partition)
) WITHOUT ROWID;
CREATE TABLE dead_letter (
    id TEXT PRIMARY KEY, stage TEXT NOT NULL, cause TEXT NOT NULL, detail TEXT NOT NULL, attempts INTEGER NOT NULL,
    topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    tenant TEXT, event_id TEXT, event_source TEXT, failed_at INTEGER NOT NULL,
    body BLOB NOT NULL, headers BLOB NOT NULL, key BLOB
);
CREATE INDEX dead_letter_age ON dead_letter (failed_at, id);
INSERT INTO meta VALUES ('log_id', 'of-old'), ('partitions', '3');
INSERT INTO dead_letter VALUES (
    'd-1', 'embed', 'invalid-input', 'not JSON', 1, 'cortex.events', 2, 7, NULL, NULL, NULL, 1700000000000000,
    x'ff00', '[["trace","/gE="]]', NULL
);
PRAGMA user_version = 1;
"""


async def test_a_journal_of_the_first_release_is_brought_up_and_loses_nothing(tmp_path: Path) -> None:
    """Its letters are open, and can be acted on like those of today."""
    old = sqlite3.connect(tmp_path / "journal.db")
    old.executescript(FIRST_SCHEMA)
    old.close()
    for _ in range(2):  # the second time it is a journal of today
        journal = Journal.open(tmp_path / "journal.db", 4, SystemClock())
        try:
            assert (journal.log_id, journal.partitions) == ("of-old", 3)
            (letter,) = await journal.dead_letters()
            assert (letter.id, letter.body, letter.headers) == ("d-1", b"\xff\x00", (("trace", b"\xfe\x01"),))
            await journal.append([event(1)])
            mark = LetterMark(state=LetterState.REPLAYED, by="ana", at=datetime(2026, 3, 1, tzinfo=UTC), job="j-1")
            assert await journal.mark_letter("d-1", mark) is (letter.state is LetterState.OPEN)
        finally:
            await journal.close()
