"""``python -m tests.bench.cluster``: latency, throughput and memory on Kafka, Weaviate and Redis, beside the floor.

Everything is started here on free ports of loopback, with its data in a temporary folder, and ended again. Each size has
servers of its own. What is measured on a machine that has other things to do says nothing: its load is told first.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.embedders.minilm import MiniLMEmbedder
from tests.bench.cluster_fill import fill
from tests.bench.cluster_floor import floor
from tests.bench.cluster_members import Members, running, settings_of
from tests.bench.figures import Report, percentiles
from tests.bench.measuring import WARM, ask_all, difference, feeding, first_event, histogram, ingest_rate, watch
from tests.bench.population import PARTITIONS, Words
from tests.chaos.servers import Servers, serving

SIZES = "20000,100000"
ASK_RATE = 5  # questions a second beside the feed
FEED_RATES = 20, 50  # units a second; the second is near what two cores carry with all servers on them
SHARES = ("p50", "p95")


@dataclass(frozen=True)
class Plan:
    """How much is measured. Small sizes are for trying whether it runs at all."""

    questions: int
    streams: int
    feed_s: int
    bulk: int

    @classmethod
    def of(cls, units: int) -> "Plan":
        """Return the plan for a size."""
        return cls(200, 50, 20, 2_000) if units >= 10_000 else cls(60, 20, 10, 500)


async def run(units: int, report: Report, embedder: MiniLMEmbedder) -> dict[str, Any]:
    """Measure at one size; return the percentiles of the answer and of each stage."""
    plan, words = Plan.of(units), Words(seed=units)
    questions = [words.question() for _ in range(plan.questions + WARM)]
    with tempfile.TemporaryDirectory(prefix="cortex-bench-") as parent:
        folder = Path(parent)
        async with serving(folder, weaviate=True) as servers:
            settings = settings_of(servers, folder, PARTITIONS)
            start = time.monotonic()
            await fill(settings, units, embedder.model)
            took = time.monotonic() - start
            report.add(f"{units}: filled units/s", round(units / took, 1))
            _sizes(report, f"{units}: filled", servers, folder)
            base = await floor(settings, embedder, questions)
            for name, figures in base.items():
                report.add(f"{units}: floor {name} ms", figures)
            start = time.monotonic()
            async with running(settings, folder) as members:
                report.add(f"{units}: 2 ingest, 2 query ready in s", round(time.monotonic() - start, 1))
                figures = await asyncio.to_thread(
                    _measure, members, words, questions, plan, report, units, base["floor"]
                )
                _sizes(report, f"{units}: end", servers, folder)
                return figures


def _measure(
    members: Members,
    words: Words,
    questions: list[str],
    plan: Plan,
    report: Report,
    units: int,
    base: Mapping[str, float],
) -> dict[str, Any]:
    doors = members.doors
    idle = ask_all(doors, questions)
    for stage, figures in idle.items():
        report.add(f"{units}: idle {stage} ms", figures)
    report.add(f"{units}: idle answer / floor", _times(idle["answer"], base))
    report.add(f"{units}: first event ms", first_event(doors, questions[: plan.streams]))
    report.add(f"{units}: RSS MB", members.memory_mb())
    # the first ones after a start find nothing read of what they are compared with
    report.add(f"{units}: ingest units/s, 2 processes just started", ingest_rate(doors, words, plan.bulk))
    with ExitStack() as stack:
        others = [stack.enter_context(door) for door in members.connect()]
        ingest = [member.url for member in members.ingest]
        for rate in FEED_RATES:
            before = histogram(ingest)
            with feeding(doors, words, plan.feed_s, rate) as sent:
                report.add(f"{units}: at {rate}/s, publish to searchable ms", percentiles(watch(others[0], sent)))
            report.add(
                f"{units}: at {rate}/s, accepted to searchable, events by s",
                difference(histogram(ingest), before),
            )
        with feeding(doors, words, plan.feed_s, FEED_RATES[0]):
            busy = ask_all(others, questions[: WARM + plan.feed_s * ASK_RATE // 2], rate=ASK_RATE)
    report.add(f"{units}: fed answer ms", busy["answer"])
    report.add(f"{units}: fed answer / floor", _times(busy["answer"], base))
    report.add(f"{units}: ingest units/s, 2 processes after that", ingest_rate(doors, words, plan.bulk))
    report.add(f"{units}: RSS MB after", members.memory_mb())
    return idle


def _sizes(report: Report, name: str, servers: Servers, folder: Path) -> None:
    assert servers.weaviate is not None
    kept = {"kafka": servers.kafka, "weaviate": servers.weaviate, "redis": servers.redis}
    report.add(f"{name}, servers' RSS MB", {server: round(one.memory_mb()) for server, one in kept.items()})
    report.add(f"{name}, servers' disk MB", {server: _disk_mb(folder / server) for server in kept})


def _disk_mb(folder: Path) -> int:
    """Return what a folder takes on the disk; files that go meanwhile count nothing."""
    blocks = 0
    for path in folder.rglob("*"):
        try:
            blocks += path.lstat().st_blocks
        except FileNotFoundError:
            continue
    return round(blocks * 512 / 1e6)


def _times(figures: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """Return how many times the base the figures are; nothing where either has none (every question failed)."""
    return {share: round(figures[share] / base[share], 2) for share in SHARES if figures.get(share) and base.get(share)}


async def main() -> int:
    """Run all sizes."""
    parser = argparse.ArgumentParser(prog="make bench-cluster", description=__doc__)
    parser.add_argument("--units", default=SIZES, help="comma-separated sizes")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that still starts is no error
    report = Report()
    report.add("load of the machine before", round(os.getloadavg()[0], 1))
    embedder = await MiniLMEmbedder.open(threads=1)
    try:
        measured = {units: await run(units, report, embedder) for units in map(int, options.units.split(","))}
    finally:
        await embedder.close()
    smallest, largest = min(measured), max(measured)
    if smallest < largest:
        for stage, figures in measured[largest].items():
            report.add(f"{smallest} to {largest}: {stage} times", _times(figures, measured[smallest].get(stage, {})))
    report.add("load of the machine after", round(os.getloadavg()[0], 1))
    if options.json:
        report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
