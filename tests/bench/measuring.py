"""What is measured over HTTP: of one query process, or of several in turn. A ``door`` is a connection to one of them."""

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.figures import percentiles
from tests.bench.population import Words, event
from tests.e2e.product import until

WARM = 20
FEED_RATE = 50  # units a second
WATCHED = 5  # of so many published events one is watched
BATCH = 200
SEARCHABLE = "cortex_ingest_searchable_seconds"
STORED_S = 300.0  # a machine that cannot keep up is told by the figure, not by an error
Sent = tuple[float, dict[str, Any]]


def ask_all(doors: Sequence[httpx.Client], questions: Sequence[str], *, rate: float | None = None) -> dict[str, Any]:
    """Ask one after another, or at a steady rate a second; return percentiles of the answer and of each stage, in ms.

    ``incomplete``: answers that lost a part of the search to its deadline, and are quicker for that. ``failed``: questions
    of an overloaded machine that got none (503); their time is not among the percentiles.
    """
    answers: list[float] = []
    incomplete = failed = 0
    stages: dict[str, list[float]] = {}
    begun = time.monotonic()
    for number, (question, door) in enumerate(zip(questions, cycle(doors))):
        if rate:
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        start = time.perf_counter()
        response = door.post("/v1/context", json={"q": question})
        took = (time.perf_counter() - start) * 1000
        if number < WARM:
            continue
        if response.status_code == 503:
            failed += 1
            continue
        assert response.status_code == 200, response.text
        answers.append(took)
        answer = response.json()
        incomplete += not answer["complete"]
        for stage, milliseconds in answer["timings_ms"].items():
            stages.setdefault(stage, []).append(milliseconds)
    whole = {**percentiles(answers), "incomplete": incomplete, "failed": failed}
    return {"answer": whole, **{stage: percentiles(values) for stage, values in stages.items()}}


def first_event(doors: Sequence[httpx.Client], questions: Sequence[str]) -> dict[str, float]:
    """Return milliseconds to the first SSE event."""
    taken = []
    for question, door in zip(questions, cycle(doors)):
        start = time.perf_counter()
        with door.stream("GET", "/v1/context/stream", params={"q": question}) as response:
            for line in response.iter_lines():
                if line.startswith("event:"):
                    taken.append((time.perf_counter() - start) * 1000)
                    break
    return percentiles(taken)


def publish(door: httpx.Client, events: Sequence[dict[str, Any]], topic: str = "events") -> list[dict[str, Any]]:
    """Publish a batch; return what was accepted."""
    response = door.post("/v1/events", params={"topic": topic}, json=list(events))
    assert response.status_code == 202, response.text
    return list(response.json()["accepted"])


@contextmanager
def feeding(
    doors: Sequence[httpx.Client], words: Words, seconds: float, rate: int = FEED_RATE
) -> Iterator["queue.SimpleQueue[Sent | None]"]:
    """Publish single events at a steady rate beside the block; yield where every fifth is put, and None after the last.

    ``rate``: units a second.
    """
    sent: queue.SimpleQueue[Sent | None] = queue.SimpleQueue()
    feeder = threading.Thread(target=_feed, args=(doors, words, int(seconds * rate), rate, sent))
    feeder.start()
    try:
        yield sent
    finally:
        feeder.join()


def _feed(
    doors: Sequence[httpx.Client], words: Words, count: int, rate: int, sent: "queue.SimpleQueue[Sent | None]"
) -> None:
    start = time.monotonic()
    try:
        for number, door in zip(range(count), cycle(doors)):
            pause = start + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            at = time.perf_counter()
            (accepted,) = publish(door, [event(words, f"live-{time.time_ns()}", datetime.now(UTC))])
            if number % WATCHED == 0:
                sent.put((at, accepted))
    finally:
        sent.put(None)  # whoever watches waits for it


def watch(door: httpx.Client, sent: "queue.SimpleQueue[Sent | None]") -> list[float]:
    """Return milliseconds from publishing to searchable, by asking for one event after the other: one request at a time."""
    visible = []
    while (one := sent.get(timeout=STORED_S)) is not None:
        at, accepted = one
        wait_stored(door, accepted)
        visible.append((time.perf_counter() - at) * 1000)
    return visible


def wait_stored(door: httpx.Client, accepted: dict[str, Any]) -> None:
    """Wait until an event is in the store."""
    address, source = f"/v1/events/{accepted['id']}", {"source": accepted["source"]}

    def is_stored() -> bool:
        return door.get(address, params=source).json().get("state") == "stored"  # a problem until it is known

    until(is_stored, STORED_S, f"{accepted['id']} is stored")


def ingest_rate(doors: Sequence[httpx.Client], words: Words, units: int) -> float:
    """Return how many units a second go from accepted to stored, published as fast as the doors take them."""
    events = [event(words, f"bulk-{time.time_ns()}-{n}", datetime.now(UTC)) for n in range(units)]
    start = time.perf_counter()
    for first, door in zip(range(0, units, BATCH), cycle(doors)):
        accepted = publish(door, events[first : first + BATCH], "bulk")
    for one in accepted[-8:]:
        wait_stored(doors[0], one)
    until(lambda: all(_lag(door) == 0 for door in doors), STORED_S, "no lag")
    return round(units / (time.perf_counter() - start), 1)


def _lag(door: httpx.Client) -> int:
    return sum(mark["lag"] for mark in door.get("/v1/status").json()["watermarks"])


def histogram(ingest: Sequence[str]) -> dict[str, int]:
    """Return how many events took up to so many seconds from acceptance to the commit, of all ingest processes together."""
    found: dict[float, int] = {}
    for url in ingest:
        text = httpx.get(f"{url}/metrics", trust_env=False).raise_for_status().text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"{SEARCHABLE}_bucket":
                    limit = float(sample.labels["le"])
                    found[limit] = found.get(limit, 0) + int(sample.value)
    return {f"<={limit:g}": found[limit] for limit in sorted(found)}


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return what came in between, per bucket instead of up to it; empty buckets are left out."""
    grown = {limit: count - before.get(limit, 0) for limit, count in after.items()}
    below, own = 0, {}
    for limit, count in grown.items():
        own[limit] = count - below
        below = count
    return {limit: count for limit, count in own.items() if count}
