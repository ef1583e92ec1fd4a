"""The floor: what the parts cost alone, in the same run: one query embedding and the store's two searches."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from shared.embedder import Embedder
from shared.store import SearchFilter
from shared.stores.sqlite import SqliteReader
from shared.text import query_terms
from tests.bench.figures import percentiles
from tests.bench.population import TENANT

LIMIT = 50
WARM = 20


async def floor(folder: Path, embedder: Embedder, questions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return milliseconds of the embedding, of each search, and of all three in a row."""
    reader = SqliteReader(folder / "knowledge", threads=2, vector_memory_mb=1_024)
    taken: dict[str, list[float]] = {"embed": [], "keyword": [], "vector": [], "floor": []}
    try:
        for number, question in enumerate(questions):
            async with reader.snapshot(TENANT) as view:
                scopes = frozenset(member.scope for member in await view.memberships(None))
                where = SearchFilter(scopes=scopes, at=datetime.now(UTC))
                terms = query_terms(question)
                start = time.perf_counter()
                vector = await embedder.embed_query(question)
                embedded = time.perf_counter()
                await view.keyword(terms, where, LIMIT)
                keyword = time.perf_counter()
                await view.vector(vector, where, LIMIT)
                end = time.perf_counter()
            if number >= WARM:
                taken["embed"].append((embedded - start) * 1000)
                taken["keyword"].append((keyword - embedded) * 1000)
                taken["vector"].append((end - keyword) * 1000)
                taken["floor"].append((end - start) * 1000)
    finally:
        await reader.close()
    return {name: percentiles(values) for name, values in taken.items()}


async def embedder_rate(embedder: Embedder, texts: Sequence[str]) -> float:
    """Return how many texts a second the embedder takes, one at a time, as the embed stage does."""
    start = time.perf_counter()
    for text in texts:
        await embedder.embed_text(text)
    return round(len(texts) / (time.perf_counter() - start), 1)
