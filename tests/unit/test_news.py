"""News: what a receipt has to tell, and that nothing waits for a board that is away."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from ingest.metrics import IngestMetrics
from ingest.news import REFILLED, REST_S, NewsStage, news_of
from schemas.messages import Receipt, ReceiptOutcome
from schemas.positions import Position
from shared.boards.memory import MemoryBoard
from shared.clock import ManualClock
from shared.kafka import CONTRADICTIONS, EPOCH_KEY, STORED
from shared.news import START
from shared.stores.memory import MemoryStore
from tests.contract.knowledge_events import TENANT, asserted, effect_of, unit

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def receipt(number=1, outcome=ReceiptOutcome.STORED, **given):
    place = Position(log="l", topic="cortex.events", partition=0, number=number)
    return Receipt(position=place, recorded_at=NOW, tenant=TENANT, outcome=outcome, **given)


def told(said):
    return [(item.kind, item.unit_ids[0], item.scopes[0]) for item in news_of(said)]


def test_what_was_not_there_is_stored_and_what_was_is_changed():
    said = receipt(units=("a", "b"), scopes={"a": "team/x", "b": "team/x"}, before={"b": "team/x"})
    assert told(said) == [("stored", "a", "team/x"), ("changed", "b", "team/x")]


def test_what_moves_leaves_one_scope_and_comes_to_another():
    said = receipt(units=("a",), scopes={"a": "team/new"}, before={"a": "team/old"})
    assert told(said) == [("retracted", "a", "team/old"), ("stored", "a", "team/new")]


def test_what_is_gone_is_told_where_it_was():
    assert told(receipt(retracted=("a", "never"), before={"a": "team/x"})) == [("retracted", "a", "team/x")]


def test_a_part_that_says_what_it_said_is_no_news():
    assert told(receipt(units=("a",), scopes={"a": "team/x"}, before={"a": "team/x"}, kept=("a",))) == []


@dataclass
class Message:
    value: bytes | None
    topic: str = f"prefix.{STORED}"
    partition: int = 0
    offset: int = 0
    key: bytes | None = b"k"
    headers: tuple[tuple[str, bytes], ...] = ()


class Rig:
    def __init__(self):
        self.board = MemoryBoard()
        self.store = MemoryStore()
        self.clock = ManualClock(NOW)
        self.stage = NewsStage(self.board, self.store, self.clock, IngestMetrics(CollectorRegistry()), "epoch")

    async def work(self, *messages):
        assert await self.stage.work(messages, lambda: False) == len(messages)

    async def kinds(self):
        return [entry.item.kind for entry in await self.board.read(TENANT, START, f"{2**60}-0", 100)]


def stored(number, unit_id="a", **given):
    said = receipt(number, units=(unit_id,), scopes={unit_id: "team/x"}, **given)
    return Message(said.model_dump_json().encode(), offset=number)


async def test_a_redelivered_receipt_is_told_once():
    rig = Rig()
    await rig.work(stored(1), stored(2))
    await rig.work(stored(1), stored(2), stored(3))
    assert await rig.kinds() == ["stored"] * 3


async def test_what_changed_nothing_and_what_cannot_be_read_is_no_news():
    rig = Rig()
    await rig.work(stored(1, outcome=ReceiptOutcome.UNCHANGED), stored(2, outcome=ReceiptOutcome.STALE))
    await rig.work(Message(b"junk"), Message(None))
    assert await rig.kinds() == []


async def test_a_board_that_is_away_holds_nobody_up_and_the_gap_is_told_later():
    rig = Rig()
    await rig.board.fail(away=True)
    await rig.work(stored(1))
    await rig.board.fail(away=False)
    await rig.work(stored(2))  # within the rest: not even tried
    assert await rig.kinds() == []
    rig.clock.advance(REST_S + 1)
    await rig.work(stored(3))
    await rig.work(stored(4))
    assert await rig.kinds() == ["gap", "stored", "stored"]


async def pair(rig, **given):
    events = [asserted(unit("u1", "one")), asserted(unit("u2", "two"))]
    await rig.store.apply(TENANT, [effect_of(event, number) for number, event in enumerate(events, 1)])
    at = NOW.isoformat()
    value = f'{{"tenant":"{TENANT}","units":["u1","u2"],"recorded_at":"{at}","open":true,"detail":"1 ≠ 2"}}'
    return Message(value.encode(), topic=CONTRADICTIONS, **given)


async def test_a_contradiction_belongs_to_the_scopes_of_both_sides():
    rig = Rig()
    await rig.work(await pair(rig))
    (entry,) = await rig.board.read(TENANT, START, f"{2**60}-0", 10)
    assert (entry.item.kind, entry.item.unit_ids, len(entry.item.scopes)) == ("contradicted", ("u1", "u2"), 2)


async def test_what_a_refill_tells_again_is_no_news():
    rig = Rig()
    again = await pair(rig, headers=((REFILLED, b"1"),))
    await rig.work(again, Message(b"{}", topic=CONTRADICTIONS, key=EPOCH_KEY), Message(b"[1]", topic=CONTRADICTIONS))
    assert await rig.kinds() == []
