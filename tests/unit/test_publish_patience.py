"""``cortex publish`` and the feeds at a door that has no room: they come again when they are told to, within a bound."""

import httpx
import pytest

from compose.cli.client import ProblemError, UnreachableError, retry_after_s
from compose.cli.publish import publish_patiently
from schemas.problems import Problem
from schemas.status import Accepted, AcceptedBatch


def refusal(status: int, after_s: float | None = None) -> ProblemError:
    return ProblemError(Problem(type="about:blank", title="no", status=status, detail="no"), after_s)


class Door:
    """Refuses as often as it was told, then takes."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.slept: list[float] = []

    def publish(self, events, *, bulk):
        if self.refusals:
            raise self.refusals.pop(0)
        accepted = tuple(Accepted(id=event["id"], source="s", token="t", duplicate=False) for event in events)
        return AcceptedBatch(accepted=accepted, token="t")

    def send(self, patience_s: float = 300) -> list[str]:
        taken = publish_patiently(self, [{"id": "e"}], bulk=False, patience_s=patience_s, sleep=self.slept.append)
        return [accepted.id for accepted in taken]


@pytest.mark.parametrize("status", [429, 503])
def test_it_comes_again_after_the_seconds_that_it_was_told(status):
    door = Door(refusal(status, 7), refusal(status, 2))
    assert door.send() == ["e"]
    assert door.slept == [7, 2]


def test_where_no_seconds_are_told_the_pauses_double():
    door = Door(*(refusal(503) for _ in range(4)))
    assert door.send() == ["e"]
    assert door.slept == [0.2, 0.4, 0.8, 1.6]


def test_a_pause_is_never_longer_than_a_minute_nor_none_at_all():
    door = Door(refusal(429, 86_400), refusal(429, 0))
    assert door.send() == ["e"]
    assert door.slept[0] == 60
    assert door.slept[1] > 0


def test_its_patience_ends():
    door = Door(*(refusal(503, 10) for _ in range(50)))
    with pytest.raises(ProblemError):
        door.send(patience_s=45)
    assert sum(door.slept) <= 45


@pytest.mark.parametrize("error", [refusal(400, 1), refusal(413), UnreachableError("nobody there")])
def test_what_the_same_again_cannot_mend_is_told_at_once(error):
    door = Door(error)
    with pytest.raises(type(error)):
        door.send()
    assert door.slept == []


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("0", 0.0), ("", None), ("Tue, 01 Dec 2026", None), ("-1", None)]
)
def test_retry_after_is_read_in_seconds(header, seconds):
    assert retry_after_s(httpx.Response(503, headers={"Retry-After": header})) == seconds
