"""``make bench``: latency, throughput and memory of a running Cortex, beside the floor measured in the same run."""

import argparse
import asyncio
import queue
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from query.intent import detect_intent
from shared.embedders.minilm import MiniLMEmbedder
from tests.bench.figures import Report, percentiles
from tests.bench.floor import embedder_rate, floor
from tests.bench.hook import hook_figures
from tests.bench.population import Words, event, populate
from tests.e2e.product import Product, until

QUESTIONS = 200
WARM = 20
FEED_RATE = 50  # units a second beside the questions
FEED_S = 20
ASK_RATE = 5  # questions a second beside the feed
Sent = tuple[float, dict[str, Any]]
BULK_UNITS = 2_000
RATE_TEXTS = 300


def ask_all(
    product: Product, questions: list[str], *, client: httpx.Client | None = None, rate: float | None = None
) -> dict[str, Any]:
    """Ask one after another, or at a steady rate a second; return percentiles of the answer and of each stage, in ms."""
    answers: list[float] = []
    stages: dict[str, list[float]] = {}
    begun = time.monotonic()
    for number, question in enumerate(questions):
        if rate:
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        start = time.perf_counter()
        response = (client or product.http).post("/v1/context", json={"q": question})
        assert response.status_code == 200, response.text
        took = (time.perf_counter() - start) * 1000
        if number < WARM:
            continue
        answers.append(took)
        for stage, milliseconds in response.json()["timings_ms"].items():
            stages.setdefault(stage, []).append(milliseconds)
    return {"answer": percentiles(answers), **{stage: percentiles(values) for stage, values in stages.items()}}


def feed(product: Product, words: Words, seconds: float, sent: "queue.SimpleQueue[Sent | None]") -> None:
    """Publish single events at a steady rate; every fifth is put where `watch` sees it."""
    start = time.monotonic()
    for number in range(int(seconds * FEED_RATE)):
        pause = start + number / FEED_RATE - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        at = time.perf_counter()
        (accepted,) = product.publish(event(words, f"live-{time.time_ns()}", datetime.now(UTC)))
        if number % 5 == 0:
            sent.put((at, accepted))
    sent.put(None)


def watch(product: Product, sent: "queue.SimpleQueue[Sent | None]") -> list[float]:
    """Return milliseconds from publishing to searchable, by asking for one event after the other: one request at a time."""
    visible = []
    with product.another() as client:
        while (one := sent.get(timeout=60)) is not None:
            at, accepted = one
            address, source = f"/v1/events/{accepted['id']}", {"source": accepted["source"]}
            until(
                lambda address=address, source=source: client.get(address, params=source).json()["state"] == "stored",
                60,
                "stored",
            )
            visible.append((time.perf_counter() - at) * 1000)
    return visible


def first_event(product: Product, questions: list[str]) -> dict[str, float]:
    """Return milliseconds to the first SSE event."""
    taken = []
    for question in questions:
        start = time.perf_counter()
        with product.http.stream("GET", "/v1/context/stream", params={"q": question}) as response:
            for line in response.iter_lines():
                if line.startswith("event:"):
                    taken.append((time.perf_counter() - start) * 1000)
                    break
    return percentiles(taken)


def ingest_rate(product: Product, words: Words) -> float:
    """Return how many units a second go from accepted to stored, published as fast as the door takes them."""
    events = [event(words, f"bulk-{time.time_ns()}-{n}", datetime.now(UTC)) for n in range(BULK_UNITS)]
    start = time.perf_counter()
    accepted: list[dict[str, Any]] = []
    for first in range(0, BULK_UNITS, 200):
        response = product.http.post("/v1/events", params={"topic": "bulk"}, json=events[first : first + 200])
        assert response.status_code == 202, response.text
        accepted += response.json()["accepted"]
    product.wait_stored(accepted[-8:])
    until(lambda: sum(mark["lag"] for mark in product.http.get("/v1/status").json()["watermarks"]) == 0, 120, "no lag")
    return round(BULK_UNITS / (time.perf_counter() - start), 1)


async def run(units: int, report: Report, embedder: MiniLMEmbedder) -> None:
    """Measure at one size."""
    words = Words(seed=units)
    questions = [words.question() for _ in range(QUESTIONS + WARM)]
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "data"
        start = time.monotonic()
        await populate(folder, units, embedder.model)
        report.add(f"{units}: populated in s", round(time.monotonic() - start, 1))
        base = await floor(folder, embedder, questions)
        for name, figures in base.items():
            report.add(f"{units}: floor {name} ms", figures)
        product = Product(folder)
        try:
            start = time.monotonic()
            await asyncio.to_thread(product.start)
            report.add(f"{units}: start s", round(time.monotonic() - start, 1))
            await asyncio.to_thread(_measure, product, words, questions, report, units, base["floor"])
        finally:
            product.close()


def _measure(
    product: Product, words: Words, questions: list[str], report: Report, units: int, base: dict[str, float]
) -> None:
    idle = ask_all(product, questions)
    for stage, figures in idle.items():
        report.add(f"{units}: idle {stage} ms", figures)
    report.add(
        f"{units}: idle answer / floor", {key: round(idle["answer"][key] / base[key], 2) for key in ("p50", "p95")}
    )
    report.add(f"{units}: first event ms", first_event(product, questions[:50]))
    for name, figures in hook_figures(product.url, questions[:100]).items():
        report.add(f"{units}: {name} ms", figures)
    report.add(f"{units}: RSS MB", round(product.rss_mb()))
    sent: queue.SimpleQueue[Sent | None] = queue.SimpleQueue()
    feeder = threading.Thread(target=feed, args=(product, words, FEED_S, sent))
    feeder.start()
    report.add(f"{units}: publish to searchable ms", percentiles(watch(product, sent)))
    feeder.join()
    feeder = threading.Thread(target=feed, args=(product, words, FEED_S, sent))
    feeder.start()
    with product.another() as client:
        busy = ask_all(product, questions[: FEED_S * ASK_RATE], client=client, rate=ASK_RATE)
    feeder.join()
    report.add(f"{units}: fed answer ms", busy["answer"])
    report.add(
        f"{units}: fed answer / floor", {key: round(busy["answer"][key] / base[key], 2) for key in ("p50", "p95")}
    )
    report.add(f"{units}: ingest units/s", ingest_rate(product, words))
    report.add(f"{units}: RSS MB after", round(product.rss_mb()))


async def main() -> int:
    """Run all sizes."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--units", default="1000,20000,100000", help="comma-separated sizes")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    report = Report()
    embedder = await MiniLMEmbedder.open(threads=1)
    try:
        texts = [Words(seed=1).text() for _ in range(RATE_TEXTS)]
        report.add("embedder alone texts/s", await embedder_rate(embedder, texts))
        words = Words(seed=2)
        intents = []
        for _ in range(5_000):
            question = words.question()
            start = time.perf_counter()
            detect_intent(question)
            intents.append((time.perf_counter() - start) * 1000)
        report.add("intent tier 1 ms", percentiles(intents))
        for units in (int(size) for size in options.units.split(",")):
            await run(units, report, embedder)
    finally:
        await embedder.close()
    if options.json:
        report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
