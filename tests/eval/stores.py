"""``python -m tests.eval.stores``: the same feed and the same questions on SQLite and on Weaviate.

Both stores are filled by their own writers and asked by the product's own assembly. Exit 1 when recall@10 differs by more
than a point on any set. Weaviate is started here, with its data in a temporary folder.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from compose.native.weaviate import WeaviatePorts, start_weaviate
from shared.clock import SystemClock
from shared.embedder import Embedder, Vectors
from shared.embedders.minilm import MiniLMEmbedder
from shared.graphs.replica import GraphReplica
from shared.stores.weaviate import WeaviateReader, WeaviateWriter
from tests.eval import datasets, hybrid, measures
from tests.eval.datasets import Dataset
from tests.eval.product import embed_all, fill, indexed, rank

TOP = 10
POINTS = 1.0  # what the stores may differ by, in recall@10
ANSWER_S = 20.0  # quality is measured, never a deadline that a busy machine missed
ARMS: dict[str, frozenset[str] | None] = {
    "product": None,
    "keyword alone": frozenset({"keyword"}),
    "vector alone": frozenset({"vector"}),
}
Address = tuple[str, str]
Ranking = list[frozenset[str]]


@asynccontextmanager
async def in_weaviate(
    dataset: Dataset, vectors: dict[str, Vectors], model: str, address: Address
) -> AsyncIterator[tuple[WeaviateReader, GraphReplica]]:
    """Store a set in Weaviate and yield what a query process would open."""
    prefix = prefix_of(dataset)
    writer = WeaviateWriter(*address, SystemClock(), prefix=prefix)
    try:
        graph = await fill(writer, dataset, vectors, model)
    finally:
        await writer.close()
    reader = WeaviateReader(*address, prefix=prefix, answer_s=ANSWER_S)
    try:
        yield reader, graph
    finally:
        await reader.close()


async def agree(
    dataset: Dataset, embedder: Embedder, vectors: dict[str, Vectors], address: Address, names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Ask both stores; return per system what they have in common and how far their recall is apart."""
    ranked: dict[str, dict[str, list[Ranking]]] = {name: {} for name in names}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            indexed(dataset, vectors, embedder.model, Path(folder)) as in_sqlite,
            in_weaviate(dataset, vectors, embedder.model, address) as elsewhere,
        ):
            for store, (reader, graph) in {"sqlite": in_sqlite, "weaviate": elsewhere}.items():
                for name in names:
                    start = time.monotonic()
                    ranked[name][store] = await rank(reader, graph, embedder, dataset.questions, ARMS[name])
                    took = (time.monotonic() - start) / len(dataset.questions) * 1000
                    sys.stderr.write(f"{dataset.name}: {name} on {store}: {took:.1f} ms a question\n")
    return {name: compared(dataset, **both) for name, both in ranked.items()}


def compared(dataset: Dataset, sqlite: list[Ranking], weaviate: list[Ranking]) -> dict[str, Any]:
    """Compare two stores' rankings; means in percent, differences as Weaviate minus SQLite in points."""
    recall = [
        [
            measures.recall_at(ranking, question.gold, TOP)
            for ranking, question in zip(one, dataset.questions, strict=True)
        ]
        for one in (sqlite, weaviate)
    ]
    pairs = list(zip(sqlite, weaviate, strict=True))
    return {
        "overlap@10": measures.interval([measures.overlap_at(one, other, TOP) for one, other in pairs]),
        "same ten": measures.interval([float(measures.overlap_at(one, other, TOP) == 1.0) for one, other in pairs]),
        "same order": measures.interval([float(one[:TOP] == other[:TOP]) for one, other in pairs]),
        "recall sqlite": measures.interval(recall[0]),
        "recall weaviate": measures.interval(recall[1]),
        "difference": measures.interval([there - here for here, there in zip(*recall, strict=True)]),
    }


def show(dataset: Dataset, systems: dict[str, dict[str, measures.Score]]) -> None:
    """Print a set's table."""
    print(f"\n{dataset.name}: {len(dataset.items)} texts, {len(dataset.questions)} questions (95 % intervals)")
    heads = list(next(iter(systems.values())))
    print(f"{'':16}" + "".join(f"{head:>21}" for head in heads))
    for name, row in systems.items():
        print(f"{name:16}" + "".join(f"{row[head]!s:>21}" for head in heads), flush=True)


def prefix_of(dataset: Dataset) -> str:
    """Name a set's collections, which begin with a capital letter there."""
    return f"Eval{dataset.name.title()}"


async def run(options: argparse.Namespace, root: Path) -> list[str]:
    """Compare on every chosen set; return where recall is too far apart."""
    apart: list[str] = []
    figures: dict[str, Any] = {}
    embedder = await MiniLMEmbedder.open(threads=2)
    try:
        with tempfile.TemporaryDirectory(prefix="cortex-eval-") as folder:
            server = await start_weaviate(Path(folder) / "weaviate", WeaviatePorts.free(), print)
            try:
                for name in options.sets.split(","):
                    dataset = datasets.SETS[name](root)
                    if options.questions:
                        dataset = Dataset(name, dataset.items, dataset.questions[: options.questions], dataset.headline)
                    vectors = await embed_all(dataset, embedder)
                    address = (server.url, server.grpc)
                    systems = await agree(dataset, embedder, vectors, address, options.systems.split(","))
                    show(dataset, systems)
                    apart += [
                        f"{name}: {system} by {row['difference'].mean:+.2f} points"
                        for system, row in systems.items()
                        if abs(row["difference"].mean) > POINTS
                    ]
                    figures[name] = {
                        system: {measure: vars(score) for measure, score in row.items()}
                        for system, row in systems.items()
                    }
                    if options.hybrid:
                        await hybrid.compare(dataset, embedder, address, prefix_of(dataset))
            finally:
                await server.stop()
    finally:
        await embedder.close()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return apart


def main() -> int:
    """Run the chosen sets; exit 1 when the stores' recall differs by more than a point."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval.stores", description=__doc__)
    parser.add_argument("--sets", default="locomo,2wiki", help=f"comma-separated, of {', '.join(datasets.SETS)}")
    parser.add_argument("--questions", type=int, help="only the first N questions of each set")
    parser.add_argument("--systems", default=",".join(ARMS), help="comma-separated")
    parser.add_argument("--hybrid", action="store_true", help="also measure Weaviate's own hybrid search")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    root = datasets.folder()
    if not root.is_dir():
        print(f"The evaluation sets are not in {root} (CORTEX_EVAL_DATA names another folder); nothing was run.")
        return 2
    apart = asyncio.run(run(options, root))
    if apart:
        print(f"\nrecall@{TOP} of the two stores is more than {POINTS:g} point apart: " + "; ".join(apart))
    return int(bool(apart))


if __name__ == "__main__":
    sys.exit(main())
