"""The question's vector: from the cache, or from the embedder and then into the cache."""

import numpy as np

from shared.cache import Cache
from shared.caches.keys import cache_key
from shared.embedder import Embedder, Vector
from shared.errors import CacheUnavailable, EmbedderUnavailable

KEEP_S = 86_400
"""A query vector depends on its text and model alone; a day is only a bound on the cache's size."""


class QuestionVectors:
    """Embeds questions. A cache that fails costs speed and nothing else."""

    def __init__(self, embedder: Embedder, cache: Cache) -> None:
        self._embedder = embedder
        self._cache = cache

    async def vector(self, tenant: str, text: str) -> Vector:
        """Return the unit vector of a question. Raises EmbedderUnavailable."""
        key = self._key(tenant, text)
        kept = await self._kept(key)
        if kept is not None:
            return kept
        vector = await self._embedder.embed_query(text)
        if vector.shape != (self._embedder.dims,) or not bool(np.isfinite(vector).all()):
            raise EmbedderUnavailable("The embedder returned no usable vector.")
        try:
            await self._cache.put(key, vector.astype("<f4").tobytes(), KEEP_S)
        except CacheUnavailable:
            return vector
        return vector

    async def _kept(self, key: str) -> Vector | None:
        try:
            body = await self._cache.get(key)
        except CacheUnavailable:
            return None
        if body is None or len(body) != self._embedder.dims * 4:
            return None
        vector: Vector = np.frombuffer(body, dtype="<f4").astype(np.float32)
        return vector if bool(np.isfinite(vector).all()) else None

    def _key(self, tenant: str, text: str) -> str:
        """The tenant is part of it, so that a fast answer tells nobody what another tenant asked."""
        return cache_key("question-vector", tenant, self._embedder.model, text)
