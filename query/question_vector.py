"""The question's vector: from the cache, or from the embedder and then into the cache; of the model that the index is of."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

from shared.cache import Cache
from shared.caches.keys import cache_key
from shared.embedder import Embedder, Embedders, Vector
from shared.errors import CacheUnavailable, EmbedderUnavailable

KEEP_S = 86_400
"""A query vector depends on its text and model alone; a day is only a bound on the cache's size."""


class QuestionVectors:
    """Embeds questions. A cache that fails costs speed and nothing else; ``cache_away``: the last question found it so."""

    def __init__(self, embedders: Embedders, cache: Cache) -> None:
        self._embedders = embedders
        self._cache = cache
        self.cache_away = False

    async def vector(self, tenant: str, text: str, model: str | None = None) -> Vector:
        """Return the unit vector of a question by a model; None: the wanted one. Raises UnknownModel, EmbedderUnavailable."""
        embedder = await self._embedders.of(model)
        key = cache_key(
            "question-vector", tenant, embedder.model, text
        )  # the tenant: a fast answer tells no other's question
        kept = await self._kept(key, embedder)
        if kept is not None:
            return kept
        vector = await embedder.embed_query(text)
        if vector.shape != (embedder.dims,) or not bool(np.isfinite(vector).all()):
            raise EmbedderUnavailable("The embedder returned no usable vector.")
        try:
            await self._cache.put(key, vector.astype("<f4").tobytes(), KEEP_S)
        except CacheUnavailable:
            return vector
        return vector

    @asynccontextmanager
    async def searching(
        self, tenant: str, text: str, begun: asyncio.Task[Vector], model: str | None
    ) -> AsyncIterator[asyncio.Task[Vector]]:
        """Yield the question's vector on its way, by the model of a snapshot; ``begun``: by the wanted one.

        That is begun before the snapshot is open, and is nearly always the one. The end stops what was begun here.
        """
        if model in (None, self._embedders.wanted.model):
            yield begun
            return
        other = asyncio.create_task(self.vector(tenant, text, model), name="question-vector-of-index")
        try:
            yield other
        finally:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    async def _kept(self, key: str, embedder: Embedder) -> Vector | None:
        try:
            body = await self._cache.get(key)
        except CacheUnavailable:
            self.cache_away = True
            return None
        self.cache_away = False
        if body is None or len(body) != embedder.dims * 4:
            return None
        vector: Vector = np.frombuffer(body, dtype="<f4").astype(np.float32)
        return vector if bool(np.isfinite(vector).all()) else None
