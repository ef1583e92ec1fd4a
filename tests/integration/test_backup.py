"""Backup and restore of a data folder: consistent, checked, and never over anything. Migrations at start."""

import json
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compose.cli.backup import run_backup
from compose.local.backup import MANIFEST, make_backup, read_manifest, restore_backup
from compose.local.folder import DataFolder, read_version
from compose.local.migrations import CURRENT, Schema
from schemas.events import parse_event
from schemas.status import DeadLetter
from shared.clock import SystemClock
from shared.errors import DataFolderError, FolderInUse, FolderNewer, InvalidInput
from shared.logs.journal import Journal
from shared.stores.sqlite import SqliteReader, SqliteWriter
from tests.contract.knowledge_events import TENANT, Store, asserted, unit

pytestmark = [pytest.mark.anyio, pytest.mark.integration]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def event(number: int):
    data = {"id": f"u{number}", "text": f"Fact {number}.", "type": "context"}
    data["scope"] = {"level": "team", "entity_id": "core"}
    envelope = {"specversion": "1.0", "id": f"e{number}", "source": "tests", "tenant": TENANT, "type": "unit.asserted"}
    return parse_event({**envelope, "data": data})


@pytest.fixture
async def folder(tmp_path):
    """A data folder with twenty kept events, five of them stored, one dead letter and a feed's manifest."""
    path = tmp_path / "data"
    DataFolder.claim(path).close()
    log = Journal.open(path / "journal.db", 4, SystemClock())
    await log.append([event(number) for number in range(20)])
    await log.bury(
        DeadLetter(
            id="letter", stage="embed", cause="too-large", detail="", attempts=1, topic="cortex.events", partition=0,
            offset=3, tenant=TENANT, event_id="e3", event_source="tests", failed_at=NOW, body=b"\x00\xff",
        )
    )  # fmt: skip
    await log.close()
    store = Store(
        SqliteWriter(path / "knowledge", SystemClock()),
        SqliteReader(path / "knowledge", threads=1, vector_memory_mb=16),
    )
    await store.apply(*(asserted(unit(f"u{number}", f"Fact {number}.")) for number in range(5)))
    await store.close()
    (path / "feeds").mkdir()
    (path / "feeds" / "acme.handbook.docs.json").write_text("{}")
    return path


async def contents(path: Path):
    """Return what a data folder keeps."""
    log = Journal.open(path / "journal.db", 4, SystemClock())
    writer = SqliteWriter(path / "knowledge", SystemClock())
    try:
        records = [(r.position.number, r.event_id, r.recorded_at, r.body) for r in await log.read(0, 1000)]
        letters = await log.dead_letters()
        pending = await log.pending(TENANT, {})
        return records, letters, pending, await writer.digest(TENANT)
    finally:
        await writer.close()
        await log.close()


async def test_a_restored_folder_keeps_what_was_there_and_goes_on(folder, tmp_path):
    manifest = make_backup(folder, tmp_path / "backup", NOW)
    assert (manifest.events, manifest.newest, manifest.schema_version) == (20, 20, CURRENT.version)
    restore_backup(tmp_path / "backup", tmp_path / "elsewhere" / "data")
    restored = tmp_path / "elsewhere" / "data"
    assert await contents(restored) == await contents(folder)
    assert (restored / "feeds" / "acme.handbook.docs.json").read_text() == "{}"
    DataFolder.claim(restored).close()
    log = Journal.open(restored / "journal.db", 4, SystemClock())
    (known, new) = await log.append([event(19), event(20)])
    assert (known.duplicate, new.duplicate, new.position.number) == (True, False, 21)
    await log.close()


async def test_a_restored_log_has_another_name_so_that_a_token_of_the_lost_future_is_refused(folder, tmp_path):
    manifest = make_backup(folder, tmp_path / "backup", NOW)
    restore_backup(tmp_path / "backup", tmp_path / "again")
    log = Journal.open(tmp_path / "again" / "journal.db", 4, SystemClock())
    assert log.log_id != manifest.log_id
    await log.close()


async def test_a_backup_beside_a_flood_of_appends_is_a_whole_beginning_of_the_log(folder, tmp_path):
    """Numbers without a gap, up to what was kept when the journal's turn came; appends go on meanwhile."""
    log = Journal.open(folder / "journal.db", 4, SystemClock())
    done = threading.Event()
    made = []

    def back_up():
        made.append(make_backup(folder, tmp_path / "backup", NOW))
        done.set()

    thread = threading.Thread(target=back_up)
    number = 20
    await log.append([event(n) for n in range(number, number + 3_000)])
    number += 3_000
    thread.start()
    while not done.is_set():
        await log.append([event(number), event(number + 1)])
        number += 2
    thread.join(30)
    await log.close()
    restore_backup(tmp_path / "backup", tmp_path / "again")
    records, pending = await everything(tmp_path / "again")
    assert [entry[0] for entry in records] == list(range(1, made[0].newest + 1))
    assert 3_020 <= made[0].newest <= number
    assert sum(pending.values()) == made[0].newest


async def everything(path: Path):
    """Return all numbers of a long log, and its lags."""
    log = Journal.open(path / "journal.db", 4, SystemClock())
    records = []
    while page := await log.read(records[-1][0] if records else 0, 1_000):
        records += [(record.position.number, record.event_id) for record in page]
    pending = await log.pending(TENANT, {})
    await log.close()
    return records, pending


async def test_a_backup_is_never_written_over_anything_nor_into_the_folder_itself(folder, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="there already"):
        make_backup(folder, tmp_path / "there", NOW)
    with pytest.raises(InvalidInput, match="lies in the data folder"):
        make_backup(folder, folder / "backup", NOW)
    with pytest.raises(DataFolderError, match="not a data folder"):
        make_backup(tmp_path / "there", tmp_path / "backup", NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]


async def test_a_restore_into_a_folder_that_is_used_or_holds_anything_is_refused(folder, tmp_path):
    make_backup(folder, tmp_path / "backup", NOW)
    served = DataFolder.claim(folder)
    with pytest.raises(FolderInUse, match="in use by another Cortex"):
        restore_backup(tmp_path / "backup", folder)
    served.close()
    before = await contents(folder)
    with pytest.raises(DataFolderError, match="is not empty"):
        restore_backup(tmp_path / "backup", folder)
    assert await contents(folder) == before
    (tmp_path / "empty").mkdir()
    restore_backup(tmp_path / "backup", tmp_path / "empty")
    assert await contents(tmp_path / "empty") == before


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["journal.db", f"knowledge/{TENANT}.db", "VERSION", "feeds/acme.handbook.docs.json"])
@pytest.mark.parametrize("harm", [cut, flip, Path.unlink], ids=["cut", "flipped bit", "missing"])
async def test_a_damaged_backup_is_refused_and_nothing_is_left(folder, tmp_path, name, harm):
    make_backup(folder, tmp_path / "backup", NOW)
    harm(tmp_path / "backup" / name)
    with pytest.raises(DataFolderError, match=name):
        restore_backup(tmp_path / "backup", tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


async def test_a_backup_without_a_manifest_or_of_a_later_release_is_refused(folder, tmp_path):
    make_backup(folder, tmp_path / "backup", NOW)
    manifest = json.loads((tmp_path / "backup" / MANIFEST).read_text())
    for changed, refusal in (
        ({"schema_version": CURRENT.version + 1}, FolderNewer),
        ({"format": 2}, FolderNewer),
        ({"files": {**manifest["files"], "../escape": manifest["files"]["VERSION"]}}, DataFolderError),
        ({"files": {}}, DataFolderError),
        ({"newest": "many"}, DataFolderError),
    ):
        (tmp_path / "backup" / MANIFEST).write_text(json.dumps(manifest | changed))
        with pytest.raises(refusal):
            read_manifest(tmp_path / "backup")
    (tmp_path / "backup" / MANIFEST).unlink()
    with pytest.raises(DataFolderError, match="not a whole backup"):
        restore_backup(tmp_path / "backup", tmp_path / "again")


async def test_a_knowledge_file_ahead_of_its_journal_is_refused(folder, tmp_path):
    """Then events would be taken for stored that were never kept."""
    log = Journal.open(tmp_path / "short.db", 4, SystemClock())
    await log.append([event(0)])
    await log.close()
    shutil.copyfile(tmp_path / "short.db", folder / "journal.db")
    make_backup(folder, tmp_path / "backup", NOW)
    with pytest.raises(DataFolderError, match="ahead of its journal"):
        restore_backup(tmp_path / "backup", tmp_path / "again")


def aged(path: Path, version: int) -> None:
    DataFolder.claim(path).close()
    (path / "VERSION").write_text(json.dumps({"schema": version}))


def test_a_folder_of_an_earlier_release_is_brought_up_step_by_step(tmp_path):
    """Version 1 holds a file `note`; 2 renamed it; 3 gave it an end. The seam is what is tested, with steps made up."""
    path = tmp_path / "data"
    aged(path, 1)
    (path / "note").write_text("kept")
    steps = {
        1: lambda folder: (folder / "note").replace(folder / "notes"),
        2: lambda folder: (folder / "notes").write_text((folder / "notes").read_text().rstrip(".") + "."),
    }
    DataFolder.claim(path, Schema(3, steps)).close()
    assert (path / "notes").read_text() == "kept."
    assert read_version(path / "VERSION") == 3
    with pytest.raises(FolderNewer):
        DataFolder.claim(path, CURRENT)
    DataFolder.claim(path, Schema(3, steps)).close()  # nothing to do: no step runs twice
    assert (path / "notes").read_text() == "kept."


def test_a_step_that_fails_is_done_again_at_the_next_start(tmp_path):
    path = tmp_path / "data"
    aged(path, 1)
    done = []

    def fails(folder):
        done.append("tried")
        raise DataFolderError("no room")

    with pytest.raises(DataFolderError, match="no room"):
        DataFolder.claim(path, Schema(3, {1: lambda _: done.append("first"), 2: fails}))
    assert read_version(path / "VERSION") == 2
    DataFolder.claim(path, Schema(3, {1: lambda _: done.append("first"), 2: lambda _: done.append("second")})).close()
    assert done == ["first", "tried", "second"]


def test_a_folder_too_old_to_be_brought_up_is_refused_before_anything_changes(tmp_path):
    path = tmp_path / "data"
    aged(path, 1)
    done = []
    with pytest.raises(DataFolderError, match="brings up none before 2"):
        DataFolder.claim(path, Schema(3, {2: lambda _: done.append("second")}))
    assert (done, read_version(path / "VERSION")) == ([], 1)


def test_where_kafka_is_the_log_a_folder_that_holds_nothing_of_it_is_not_called_a_wrong_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CORTEX_KAFKA_BOOTSTRAP", "127.0.0.1:9092")
    with pytest.raises(InvalidInput, match="cortex export"):
        run_backup(str(tmp_path / "copy"), data_dir=str(tmp_path / "none"), as_json=True)
    DataFolder.claim(tmp_path / "data").close()
    with pytest.raises(DataFolderError, match="journal"):  # a laptop's folder: as ever
        run_backup(str(tmp_path / "copy"), data_dir=str(tmp_path / "data"), as_json=True)
