"""``make eval``: answer quality on the evaluation sets, beside baselines run on the same texts in the same run."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from shared.embedder import Embedder
from shared.embedders.minilm import MiniLMEmbedder
from tests.eval import baselines, datasets, measures
from tests.eval.datasets import Dataset
from tests.eval.product import embed_all, indexed, rank

ABLATIONS = {
    "product": None,
    "without graph": frozenset({"keyword", "vector"}),
    "keyword alone": frozenset({"keyword"}),
    "vector alone": frozenset({"vector"}),
}
MEASURES: dict[str, Callable[[Sequence[frozenset[str]], frozenset[str]], float]] = {
    "recall@5": lambda ranked, gold: measures.recall_at(ranked, gold, 5),
    "recall@10": lambda ranked, gold: measures.recall_at(ranked, gold, 10),
    "all@10": lambda ranked, gold: measures.all_at(ranked, gold, 10),
    "mrr@10": lambda ranked, gold: measures.reciprocal_rank(ranked, gold, 10),
}


async def evaluate(
    dataset: Dataset, embedder: Embedder, ablations: Sequence[str]
) -> dict[str, list[list[frozenset[str]]]]:
    """Return the ranking of every system for every question."""
    start = time.monotonic()
    vectors = await embed_all(dataset, embedder)
    asked = [np.asarray(await embedder.embed_query(question.text)) for question in dataset.questions]
    sys.stderr.write(f"{dataset.name}: {len(dataset.items)} texts embedded in {time.monotonic() - start:.0f} s\n")
    keyword = baselines.bm25(dataset)
    dense = baselines.vectors(dataset, vectors, asked)
    systems = {
        "BM25 + stemming": baselines.places(keyword),
        "MiniLM": baselines.places(dense),
        "RRF60": baselines.places(baselines.fused(keyword, dense, 60)),
        "RRF10": baselines.places(baselines.fused(keyword, dense, 10)),
    }
    with tempfile.TemporaryDirectory() as folder:
        async with indexed(dataset, vectors, embedder.model, Path(folder)) as (reader, graph):
            for name in ablations:
                start = time.monotonic()
                systems[name] = await rank(reader, graph, embedder, dataset.questions, ABLATIONS[name])
                took = (time.monotonic() - start) / len(dataset.questions) * 1000
                sys.stderr.write(f"{dataset.name}: {name}: {took:.1f} ms a question\n")
    return systems


def table(dataset: Dataset, systems: dict[str, list[list[frozenset[str]]]]) -> dict[str, dict[str, measures.Score]]:
    """Score every system by every measure."""
    golds = [question.gold for question in dataset.questions]
    return {
        name: {
            measure: measures.interval([score(ranked, gold) for ranked, gold in zip(rankings, golds, strict=True)])
            for measure, score in MEASURES.items()
        }
        for name, rankings in systems.items()
    }


def show(dataset: Dataset, scores: dict[str, dict[str, measures.Score]]) -> None:
    """Print a set's table; the headline measure is starred."""
    print(f"\n{dataset.name}: {len(dataset.items)} texts, {len(dataset.questions)} questions (95 % intervals)")
    heads = [f"{name}{'*' if name == dataset.headline else ''}" for name in MEASURES]
    print(f"{'':16}" + "".join(f"{head:>21}" for head in heads))
    for name, row in scores.items():
        print(f"{name:16}" + "".join(f"{row[measure]!s:>21}" for measure in MEASURES))


def below(dataset: Dataset, scores: dict[str, dict[str, measures.Score]]) -> list[str]:
    """Name the baselines that the product does not reach by the headline measure."""
    product = scores["product"][dataset.headline].mean
    names = ("BM25 + stemming", "MiniLM", "RRF60", "RRF10")
    return [f"{dataset.name}: {name}" for name in names if scores[name][dataset.headline].mean > product]


async def main() -> int:
    """Run the chosen sets; exit 1 when the product is under a baseline of the same run."""
    parser = argparse.ArgumentParser(prog="make eval", description=__doc__)
    parser.add_argument(
        "--sets", default=",".join(datasets.DEFAULT), help=f"comma-separated, of {', '.join(datasets.SETS)}"
    )
    parser.add_argument("--limit", type=int, help="only the first N questions of each set")
    parser.add_argument("--systems", default=",".join(ABLATIONS), help="comma-separated ablations")
    parser.add_argument("--json", type=Path, help="also write the means here")
    options = parser.parse_args()
    root = datasets.folder()
    if not root.is_dir():
        print(
            f"make eval needs the evaluation sets in {root} (or in the folder that CORTEX_EVAL_DATA names); nothing was run."
        )
        return 2
    embedder = await MiniLMEmbedder.open(threads=2)
    failures: list[str] = []
    means: dict[str, dict[str, dict[str, float]]] = {}
    try:
        for name in options.sets.split(","):
            dataset = datasets.SETS[name](root)
            if options.limit:
                dataset = Dataset(dataset.name, dataset.items, dataset.questions[: options.limit], dataset.headline)
            scores = table(dataset, await evaluate(dataset, embedder, options.systems.split(",")))
            show(dataset, scores)
            failures += below(dataset, scores)
            means[name] = {system: {key: score.mean for key, score in row.items()} for system, row in scores.items()}
    finally:
        await embedder.close()
    if options.json:
        options.json.write_text(json.dumps(means, indent=1))
    if failures:
        print("\nunder a baseline of this run: " + "; ".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
