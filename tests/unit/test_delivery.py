"""What becomes of a failure in ingest."""

import inspect

import pytest

from ingest.delivery import RULES, Backoff, Delivery, Hopeless, Verdict, doomed, rule_for
from ingest.metrics import IngestMetrics
from shared import errors

pytestmark = pytest.mark.anyio


def delivery(attempts: int = 3) -> Delivery:
    return Delivery("embed", attempts, Backoff(1e-6, 1e-5), IngestMetrics())


class Script:
    """Work that raises what it is given, one after the other, and then succeeds."""

    def __init__(self, *raised: Exception) -> None:
        self.raised = list(raised)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.raised:
            raise self.raised.pop(0)
        return "done"


def test_every_typed_error_has_a_rule_of_its_own():
    """A new error in shared/errors.py must be decided on here."""
    typed = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.CortexError)}
    assert typed <= set(RULES)


@pytest.mark.parametrize("kind", [kind for kind in RULES if issubclass(kind, errors.CortexError) and kind.retriable])
def test_what_calls_itself_retriable_is_never_buried_at_once(kind):
    assert RULES[kind].verdict is not Verdict.BURY


def test_an_error_that_nobody_thought_of_is_retried_a_bounded_number_of_times():
    assert rule_for(KeyError("x")).verdict is Verdict.RETRY
    assert rule_for(KeyError("x")).cause == "unexpected-error"


def test_the_nearest_class_decides():
    class Worse(errors.StoreUnavailable):
        pass

    assert rule_for(Worse()).cause == "store-unavailable"


async def test_a_transient_failure_is_retried_in_place():
    work = Script(errors.EmbedderUnavailable(), errors.EmbedderUnavailable())
    assert await delivery().attempt(work) == "done"
    assert work.calls == 3


async def test_attempts_are_bounded():
    work = Script(*[errors.EmbedderUnavailable() for _ in range(9)])
    with pytest.raises(Hopeless) as caught:
        await delivery(attempts=4).attempt(work)
    assert (caught.value.cause, caught.value.attempts, work.calls) == ("embedder-unavailable", 4, 4)


async def test_a_deterministic_error_is_hopeless_at_once_and_names_the_field():
    work = Script(errors.InvalidInput(faults=(errors.Fault("/data/text", "the text is empty"),)))
    with pytest.raises(Hopeless) as caught:
        await delivery().attempt(work)
    assert (caught.value.cause, caught.value.attempts, work.calls) == ("invalid-input", 1, 1)
    assert "/data/text" in caught.value.detail


@pytest.mark.parametrize("kind", [errors.StoreUnavailable, errors.LogUnavailable, errors.DiskFull])
async def test_an_outage_of_what_everything_needs_never_exhausts(kind):
    work = Script(*[kind() for _ in range(50)])
    assert await delivery(attempts=2).attempt(work) == "done"
    work = Script(*[kind() for _ in range(50)])
    assert await delivery(attempts=2).insist(work) == "done"


async def test_failures_do_not_count_while_the_part_fails_for_everything():
    """C12: an embedder that is down for a while turns no event into a dead letter."""
    work = Script(*[errors.EmbedderUnavailable() for _ in range(20)])

    async def healthy() -> bool:
        return False

    assert await delivery(attempts=3).attempt(work, healthy=healthy) == "done"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (errors.TooLarge("too many bytes"), "too-large"),
        (errors.Transient("it says that it may pass"), "transient"),
        (OverflowError("date value out of range"), "unexpected-error"),
        (RecursionError("too deep"), "unexpected-error"),
    ],
)
def test_an_input_that_cannot_be_read_is_hopeless_whatever_reading_it_raised(error, cause):
    """Case C30: an error that nobody foresaw costs one event, at once, and neither its lane nor the process."""
    reason = doomed(error)
    assert (reason.cause, reason.attempts) == (cause, 1)
    assert str(error) in reason.detail


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            errors.InvalidInput(
                faults=(
                    errors.Fault("/data/text", "the text is empty", "at least 1 long"),
                    errors.Fault("", "not JSON: unexpected end"),
                )
            ),
            "/data/text: the text is empty (limit: at least 1 long); not JSON: unexpected end",
        ),
        (
            errors.EmbedderUnavailable(),
            "tried 4 times; the last time: The embedder does not answer.",
        ),
        (TimeoutError(), "tried 4 times; the last time: It took longer than the deadline allows."),
        (
            KeyError("x"),
            "tried 4 times; the last time: an error that nobody foresaw; ingest's log has all of it (KeyError: 'x')",
        ),
    ],
    ids=["fields", "unavailable", "late", "unforeseen"],
)
async def test_the_detail_is_a_sentence_that_names_field_limit_and_cause(error, words):
    with pytest.raises(Hopeless) as caught:
        await delivery(attempts=4).attempt(Script(*[error] * 9))
    assert caught.value.detail == words


async def test_insisting_lets_a_bug_through():
    with pytest.raises(KeyError):
        await delivery().insist(Script(KeyError("x")))


async def test_the_detail_can_be_written_anywhere():
    work = Script(*[ValueError("bad \ud800 text\n\x00 more") for _ in range(9)])
    with pytest.raises(Hopeless) as caught:
        await delivery().attempt(work)
    assert caught.value.detail.encode("utf-8")
    assert caught.value.detail.isprintable()


def test_waits_double_up_to_the_limit_and_are_shortened_at_random():
    longest, shortest = Backoff(0.2, 5.0, lambda: 0.0), Backoff(0.2, 5.0, lambda: 1.0)
    assert [round(longest.delay_s(n), 3) for n in range(1, 8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert shortest.delay_s(3) == pytest.approx(0.4)
    assert longest.delay_s(10_000) == 5.0
