"""``make bench``: latency, throughput and memory of a running Cortex, beside the floor measured in the same run."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from query.intent import detect_intent
from shared.embedders.minilm import MiniLMEmbedder
from tests.bench.figures import Report, percentiles
from tests.bench.floor import embedder_rate, floor
from tests.bench.hook import hook_figures
from tests.bench.measuring import WARM, ask_all, difference, feeding, first_event, histogram, ingest_rate, watch
from tests.bench.population import Words, populate
from tests.e2e.product import Product

QUESTIONS = 200
FEED_S = 20
INGEST_PORT = 4  # of `up --port P`, above P
ASK_RATE = 5  # questions a second beside the feed
BULK_UNITS = 2_000
RATE_TEXTS = 300


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
    doors = [product.http]
    idle = ask_all(doors, questions)
    for stage, figures in idle.items():
        report.add(f"{units}: idle {stage} ms", figures)
    report.add(
        f"{units}: idle answer / floor", {key: round(idle["answer"][key] / base[key], 2) for key in ("p50", "p95")}
    )
    report.add(f"{units}: first event ms", first_event(doors, questions[:50]))
    for name, figures in hook_figures(product.url, questions[:100]).items():
        report.add(f"{units}: {name} ms", figures)
    report.add(f"{units}: RSS MB", round(product.rss_mb()))
    with product.another() as client:
        ingest = [f"http://127.0.0.1:{product.port + INGEST_PORT}"]
        before = histogram(ingest)
        with feeding(doors, words, FEED_S) as sent:
            report.add(f"{units}: publish to searchable ms", percentiles(watch(client, sent)))
        report.add(f"{units}: accepted to searchable, events by s", difference(histogram(ingest), before))
        with feeding(doors, words, FEED_S):
            busy = ask_all([client], questions[: FEED_S * ASK_RATE], rate=ASK_RATE)
    report.add(f"{units}: fed answer ms", busy["answer"])
    report.add(
        f"{units}: fed answer / floor", {key: round(busy["answer"][key] / base[key], 2) for key in ("p50", "p95")}
    )
    report.add(f"{units}: ingest units/s", ingest_rate(doors, words, BULK_UNITS))
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
