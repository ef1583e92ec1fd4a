"""Events taken out of one log and into another: whole, in order, resumed where it stopped, refused where it is damaged."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from compose.moving.exporting import Exporter, export_events
from compose.moving.importing import check_export, import_events, read_tenant_map
from compose.moving.manifest import MANIFEST, ExportManifest
from ingest.buried import Buried
from ingest.rebuild import Rebuild
from schemas.events import parse_event
from schemas.positions import Position
from schemas.status import DeadLetter, LetterMark, LetterState
from shared.clock import SystemClock
from shared.embedders.hashed import HashedEmbedder
from shared.errors import DataFolderError, InvalidInput, LogUnavailable, UnknownThing, UnsupportedVersion
from shared.log import BULK, EVENTS, LogRecord
from shared.logs.journal import Journal
from shared.stores.memory import MemoryStore
from tests.integration.ingesting import asserted, envelope, retracted

pytestmark = [pytest.mark.anyio, pytest.mark.integration]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FEED = [
    *[asserted(f"u{n % 7}", f"Gate {n} opens at dawn.") for n in range(20)],
    retracted("u3"),
    asserted("n", "The build takes 4 minutes.", revision=4),
    asserted("n", "The build takes 3 minutes.", revision=3),
    asserted("t1", "Ticket 88 is owned by Sam."),
    asserted("t2", "Ticket 88 is owned by Ines."),
]


@pytest.fixture
async def journals(tmp_path):
    """Two journals, the second with another number of partitions."""
    opened = [
        Journal.open(tmp_path / f"{name}.db", partitions, SystemClock()) for name, partitions in (("a", 4), ("b", 3))
    ]
    yield opened
    for journal in opened:
        await journal.close()


async def say(log: Journal, events: list[dict], tenant: str = "acme") -> None:
    """Append events one by one, live and bulk in turns."""
    for number, event in enumerate(events):
        await log.append([parse_event(envelope(event, tenant))], topic=BULK if number % 3 else EVENTS)


async def take_out(log: Journal, folder: Path, tenant: str | None = None, events: int = 10) -> ExportManifest:
    return await export_events(log, folder, tenant=tenant, release="test", now=NOW, events=events)


async def take_in(log: Journal, folder: Path, tenants: dict[str, str] | None = None):
    return await import_events(log, check_export(folder), folder.parent / "imports", tenants=tenants or {})


async def digest(log: Journal, tenant: str = "acme") -> dict[str, str]:
    """Return the digest of what a log says."""
    store = MemoryStore()
    await Rebuild(log, store, store, HashedEmbedder()).run(tenant, Buried())
    return await store.digest(tenant)


async def bodies(log: Journal) -> list[dict]:
    return [orjson.loads(record.body) async for page in log.scan() for record in page]


async def test_what_is_exported_and_imported_is_the_same_knowledge(journals, tmp_path):
    """Units without a revision count by their order, which goes along; history, tombstones and contradictions too."""
    first, second = journals
    await say(first, FEED)
    manifest = await take_out(first, tmp_path / "out")
    assert (manifest.complete, manifest.events, manifest.tenants) == (True, len(FEED), {"acme": len(FEED)})
    assert [file.events for file in manifest.files.values()] == [10, 10, 5]
    done = await take_in(second, tmp_path / "out")
    assert (done.events, done.duplicates, done.refused) == (len(FEED), 0, [])
    assert await digest(second) == await digest(first)
    assert (await digest(first))["history"] != (await digest(first))["tombstones"]


async def test_when_an_event_was_first_recorded_goes_along(journals, tmp_path):
    first, second = journals
    await say(first, FEED[:2])
    await take_out(first, tmp_path / "out")
    await take_in(second, tmp_path / "out")
    [page] = [page async for page in first.scan()]
    assert [body["recordedtime"] for body in await bodies(second)] == [one.recorded_at.isoformat() for one in page]


async def test_an_export_is_taken_up_after_its_last_complete_file(journals, tmp_path):
    first, second = journals
    await say(first, FEED)
    begun = ExportManifest(release="test", made_at=NOW, log_id=first.log_id)
    exporter = Exporter.open(tmp_path / "out", begun, events=10)
    async for page in first.scan():
        for record in page[:14]:  # it ends in the middle of the second file
            exporter.add(record, discarded=False)
    exporter.close()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "events-00001.jsonl", "events-00002.jsonl.part", MANIFEST
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="not complete"):
        check_export(tmp_path / "out")
    await take_out(first, tmp_path / "out")
    await take_in(second, tmp_path / "out")
    assert [body["id"] for body in await bodies(second)] == [body["id"] for body in await bodies(first)]


async def test_exported_again_only_what_has_come_since_is_written(journals, tmp_path):
    first, second = journals
    await say(first, FEED[:12])
    before = await take_out(first, tmp_path / "out")
    await say(first, FEED[12:])
    after = await take_out(first, tmp_path / "out")
    assert after.files.items() >= before.files.items()
    assert after.events == len(FEED)
    assert await take_out(first, tmp_path / "out") == after
    await take_in(second, tmp_path / "out")
    assert await digest(second) == await digest(first)


async def test_one_tenant_is_exported_alone_and_imported_under_another_name(journals, tmp_path):
    first, second = journals
    await say(first, FEED)
    await say(first, FEED[:3], "other")
    manifest = await take_out(first, tmp_path / "out", tenant="acme")
    assert manifest.tenants == {"acme": len(FEED)}
    with pytest.raises(InvalidInput, match="'nobody'"):
        await take_in(second, tmp_path / "out", {"nobody": "new"})
    done = await take_in(second, tmp_path / "out", read_tenant_map(["acme=new"]))
    assert done.tenants == {"new": len(FEED)}
    assert await digest(second, "new") == await digest(first)


async def test_a_tenant_that_nobody_knows_is_named_beside_those_that_are_known_and_nothing_is_written(
    journals, tmp_path
):
    first, _ = journals
    with pytest.raises(UnknownThing, match="'nobody'; it knows none"):
        await take_out(first, tmp_path / "out", tenant="nobody")
    for number in range(30):
        await say(first, FEED[:1], f"tenant-{number:02}")
    with pytest.raises(UnknownThing, match=r"'nobody'; it knows tenant-00, .*tenant-19 and 10 more") as refused:
        await take_out(first, tmp_path / "out", tenant="nobody")
    assert "tenant-20" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    assert (await take_out(first, tmp_path / "out", tenant="tenant-29")).events == 1


async def test_a_log_without_events_is_exported_as_what_it_is(journals, tmp_path):
    manifest = await take_out(journals[0], tmp_path / "out")
    assert (manifest.complete, manifest.events) == (True, 0)


async def test_another_logs_export_is_never_mixed_in(journals, tmp_path):
    first, second = journals
    await say(first, FEED[:1])
    await take_out(first, tmp_path / "out")
    with pytest.raises(InvalidInput, match="another log"):
        await take_out(second, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"letter\.txt"):
        await take_out(first, tmp_path / "full")


class Failing:
    """A log that goes away after some appends."""

    def __init__(self, log: Journal, appends: int) -> None:
        self._log, self._left = log, appends

    async def append(self, events, *, topic=EVENTS):
        if not self._left:
            raise LogUnavailable
        self._left -= 1
        return await self._log.append(events, topic=topic)

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


async def test_an_import_goes_on_where_it_was_interrupted(journals, tmp_path, monkeypatch):
    first, second = journals
    await say(first, FEED)
    await take_out(first, tmp_path / "out")
    monkeypatch.setattr("compose.moving.importing.BATCH", 4)
    with pytest.raises(LogUnavailable):
        await take_in(Failing(second, 3), tmp_path / "out")
    done = await take_in(second, tmp_path / "out")
    assert (done.resumed, done.events, done.duplicates) == (12, len(FEED) - 12, 0)
    assert await digest(second) == await digest(first)


async def test_the_same_import_into_a_log_that_forgot_its_cursor_changes_nothing(journals, tmp_path):
    first, second = journals
    await say(first, FEED)
    await take_out(first, tmp_path / "out")
    await take_in(second, tmp_path / "out")
    before = await bodies(second)
    for cursor in (tmp_path / "imports").iterdir():
        cursor.unlink()
    done = await take_in(second, tmp_path / "out")
    assert (done.events, done.duplicates) == (0, len(FEED))
    assert await bodies(second) == before


async def test_events_of_two_topics_come_in_the_order_in_which_they_counted(journals, tmp_path):
    """A log of several partitions gives them out of order: what they count as decides."""
    _, second = journals
    exporter = Exporter.open(tmp_path / "out", ExportManifest(release="test", made_at=NOW, log_id="kafka"), events=1)
    for revision, topic, text in ((20, EVENTS, "The gate is shut."), (10, BULK, "The gate is open.")):
        body = envelope(asserted("gate", text))
        place = Position(log="kafka", topic=topic, partition=0, number=0)
        at = NOW + timedelta(seconds=revision)
        record = LogRecord(place, at, "acme", "tests", body["id"], "acme/gate", orjson.dumps(body), revision)
        exporter.add(record, discarded=False)
    exporter.finish()
    await take_in(second, tmp_path / "out")
    assert [body["data"]["text"] for body in await bodies(second)] == ["The gate is open.", "The gate is shut."]


async def test_what_was_discarded_is_not_taken_in_and_what_nobody_can_read_is_counted(journals, tmp_path):
    first, second = journals
    await say(first, FEED[:3])
    [page] = [page async for page in first.scan()]
    place, unwanted = page[1].position, page[1]
    letter = DeadLetter(
        id="l", stage="embed", cause="x", detail="", attempts=1, topic=place.topic, partition=place.partition,
        offset=place.number, tenant="acme", event_id=unwanted.event_id, event_source=unwanted.source, failed_at=NOW, body=b"",
    )  # fmt: skip
    await first.bury(letter)
    await first.mark_letter("l", LetterMark(state=LetterState.DISCARDED, by="ana", at=NOW))
    await take_out(first, tmp_path / "out")
    exporter = Exporter.open(
        tmp_path / "out", ExportManifest(release="test", made_at=NOW, log_id=first.log_id), events=10
    )
    odd = Position(log=first.log_id, topic=EVENTS, partition=0, number=10_000)
    exporter.add(LogRecord(odd, NOW, "acme", "tests", "odd", "acme/odd", b"\xff no event"), discarded=False)
    exporter.finish()
    done = await take_in(second, tmp_path / "out")
    assert (done.events, done.discarded, done.refused_count) == (2, 1, 1)
    assert unwanted.event_id not in [body["id"] for body in await bodies(second)]


async def _exported(log: Journal, folder: Path) -> Path:
    await say(log, FEED)
    await take_out(log, folder)
    return folder


async def test_a_changed_line_is_named_by_file_and_line(journals, tmp_path):
    folder = await _exported(journals[0], tmp_path / "out")
    file = folder / "events-00002.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:6], lines[6].replace(b"dawn", b"dusk"), *lines[7:]]))
    with pytest.raises(DataFolderError, match=r"events-00002\.jsonl, line 7"):
        check_export(folder)
    file.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataFolderError, match=r"events-00002\.jsonl .* 9 whole lines, 10 are expected"):
        check_export(folder)
    file.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    with pytest.raises(DataFolderError, match=r"events-00002\.jsonl is not what was written"):
        check_export(folder)
    file.unlink()
    with pytest.raises(DataFolderError, match=r"events-00002\.jsonl is missing"):
        check_export(folder)
    file.mkdir()
    with pytest.raises(DataFolderError, match=r"events-00002\.jsonl cannot be read"):
        check_export(folder)
    assert await bodies(journals[1]) == []


async def test_a_later_format_and_what_is_no_export_are_refused(journals, tmp_path):
    folder = await _exported(journals[0], tmp_path / "out")
    manifest = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(UnsupportedVersion, match="format 2"):
        check_export(folder)
    (folder / MANIFEST).write_text(json.dumps({**manifest, "files": {"../../etc/passwd": {}}}))
    with pytest.raises(DataFolderError, match="damaged"):
        check_export(folder)
    (folder / MANIFEST).write_text("[" * 100_000)
    with pytest.raises(DataFolderError, match="cannot be read"):
        check_export(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(InvalidInput, match="not an export"):
        check_export(folder)


def test_a_tenant_map_is_old_equals_new_once_each_and_new_a_name_that_a_tenant_can_have():
    assert read_tenant_map(["a=b", "c=d", "a=b"]) == {"a": "b", "c": "d"}
    for wrong in (["a"], ["a="], ["=b"], ["a=../b"], ["a=B c"], ["a=b", "a=c"]):
        with pytest.raises(InvalidInput):
            read_tenant_map(wrong)
