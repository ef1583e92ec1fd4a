"""Weaviate's own hybrid search beside our two arms fused by us: on the same objects, words and vectors."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from weaviate.classes.query import HybridFusion

from query.arms import KEYWORD, VECTOR, arm_weights
from query.fuse import best_passages, fuse_ranks
from query.intent import detect_intent
from query.search import DEPTH
from shared.embedder import Embedder, Vector
from shared.store import SearchFilter, Snapshot
from shared.stores.weaviate import WeaviateReader
from shared.stores.weaviate.client import Client
from shared.stores.weaviate.filters import passing
from shared.stores.weaviate.schema import unit_collection
from shared.text import query_terms
from tests.eval import measures
from tests.eval.datasets import Dataset, Labelled
from tests.eval.product import TENANT

PLACES = 10
ALPHAS = (0.5, 0.7)  # the vector's share: even, and the server's own default (0.75, to a tenth)
ANSWER_S = 20.0
Ranked = list[str]
Search = Callable[[Labelled, Vector], Awaitable[Ranked]]


async def compare(dataset: Dataset, embedder: Embedder, address: tuple[str, str], prefix: str) -> None:
    """Print recall@10 and milliseconds a search; the question's embedding is not counted, for all need it."""
    client = Client(*address, answer_s=ANSWER_S)
    reader = WeaviateReader(*address, prefix=prefix, answer_s=ANSWER_S)
    handle = client.handle(unit_collection(prefix, embedder.model).name, TENANT)
    asked = [np.asarray(await embedder.embed_query(question.text)) for question in dataset.questions]
    print(f"\n{dataset.name}: Weaviate's hybrid beside our two arms ({len(dataset.questions)} questions)")
    print(f"{'':34}{'recall@10':>21}{'p50 ms':>9}{'p95 ms':>9}")
    try:
        async with reader.snapshot(TENANT) as snapshot:
            systems: dict[str, Search] = {"two arms, fused by us": lambda *of: _ours(snapshot, *of)}
            systems["keyword arm (the early hits)"] = lambda *of: _keyword(snapshot, *of)
            for fusion in (HybridFusion.RANKED, HybridFusion.RELATIVE_SCORE):
                for alpha in ALPHAS:
                    systems[f"hybrid {fusion.name}, alpha {alpha}"] = _theirs(client, handle, fusion, alpha)
            for name, search in systems.items():
                await _measure(name, search, dataset.questions, asked)
    finally:
        await reader.close()
        await client.close()


async def _measure(name: str, search: Search, questions: Sequence[Labelled], asked: Sequence[Vector]) -> None:
    recalls, taken = [], []
    for question, vector in zip(questions, asked, strict=True):
        start = time.perf_counter()
        found = await search(question, vector)
        taken.append((time.perf_counter() - start) * 1000)
        recalls.append(measures.recall_at([frozenset({one}) for one in found], question.gold, PLACES))
    p50, p95 = np.percentile(taken, [50, 95])
    print(f"{name:34}{measures.interval(recalls)!s:>21}{p50:>9.1f}{p95:>9.1f}", flush=True)


def _where(question: Labelled) -> SearchFilter:
    return SearchFilter(scopes=frozenset({f"team/{question.where}"}), at=datetime.now(UTC))


async def _keyword(snapshot: Snapshot, question: Labelled, vector: Vector) -> Ranked:
    del vector
    return [hit.unit_ids[0] for hit in await snapshot.keyword(query_terms(question.text), _where(question), PLACES)]


async def _ours(snapshot: Snapshot, question: Labelled, vector: Vector) -> Ranked:
    where = _where(question)
    keyword, near = await asyncio.gather(
        snapshot.keyword(query_terms(question.text), where, DEPTH), snapshot.vector(vector, where, DEPTH)
    )
    fused = fuse_ranks({KEYWORD: keyword, VECTOR: near}, arm_weights(detect_intent(question.text).purpose, near))
    units = {hit.passage_id: hit.unit_ids[0] for hit in (*keyword, *near)}
    return [units[passage] for passage in best_passages(fused, PLACES)]


def _theirs(client: Client, handle: Any, fusion: HybridFusion, alpha: float) -> Search:
    async def search(question: Labelled, vector: Vector) -> Ranked:
        answer = await client.within(
            lambda: handle.query.hybrid(
                " ".join(query_terms(question.text)),
                vector=vector.tolist(),
                alpha=alpha,
                fusion_type=fusion,
                query_properties=["words"],
                filters=passing(_where(question)),
                limit=2 * PLACES,  # a long text is several objects
                return_properties=["unit_id"],
            ),
            ANSWER_S,
        )
        return list(dict.fromkeys(one.properties["unit_id"] for one in answer.objects))[:PLACES]

    return search
