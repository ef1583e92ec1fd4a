"""Commands in the journal's file: kept through a restart, in their order, and copied with a backup."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.commands import Command, Reindex
from shared.clock import ManualClock
from shared.logs.journal import Journal
from shared.logs.journal_copy import copy_journal

pytestmark = [pytest.mark.anyio, pytest.mark.integration]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def command(name: str, tenant: str = "acme") -> Command:
    order = Reindex(stage="embed")
    return Command(id=name, tenant=tenant, requested_by="person-ana", requested_at=NOON, order=order)


async def test_commands_are_kept_in_their_order_through_a_restart(tmp_path: Path) -> None:
    kept = [command("b"), command("a"), command("a", "beta")]
    log = Journal.open(tmp_path / "journal.db", 4, ManualClock(NOON))
    for one in kept:
        assert await log.order(one)
    await log.close()
    log = Journal.open(tmp_path / "journal.db", 4, ManualClock(NOON))
    assert not await log.order(command("a")), "the same id of the same tenant is the same command"
    found = await log.orders(0, 10)
    assert [one for _, one in found] == kept
    assert [one for _, one in await log.orders(found[0][0], 1)] == kept[1:2]
    await log.close()


async def test_a_copy_of_the_journal_holds_its_commands(tmp_path: Path) -> None:
    log = Journal.open(tmp_path / "journal.db", 4, ManualClock(NOON))
    await log.order(command("a"))
    copy_journal(tmp_path / "journal.db", tmp_path / "copy.db")
    await log.close()
    copied = Journal.open(tmp_path / "copy.db", 4, ManualClock(NOON))
    assert await copied.ordered("acme") == [command("a")]
    assert not await copied.order(command("a"))
    await copied.close()
