"""The embedders that the settings name, opened when they are needed: of new tenants at once, of other models at first use."""

import asyncio
import re
from typing import Final

from shared.embedder import Embedder, unknown_model
from shared.settings import EmbeddingEndpoint, Settings

MINILM: Final = ("all-MiniLM-L6-v2/fused-int8", "all-MiniLM-L6-v2/plain")
_HASHED: Final = re.compile(r"hashed-terms/([1-9]\d{0,4})")


class Catalogue:
    """`Embedders` by the settings. The built-in models can always be opened: a folder may come from another machine."""

    def __init__(self, wanted: Embedder, endpoints: tuple[EmbeddingEndpoint, ...], threads: int) -> None:
        self._wanted = wanted
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._threads = threads
        self._opened: dict[str, Embedder] = {wanted.model: wanted}
        self._opening = asyncio.Lock()

    @classmethod
    async def open(cls, settings: Settings, threads: int) -> "Catalogue":
        """Open the wanted embedder; ``threads``: of each built-in model. Raises EmbedderUnavailable."""
        return cls(await _open_wanted(settings, threads), settings.endpoints, threads)

    @property
    def wanted(self) -> Embedder:
        """The embedder of new tenants."""
        return self._wanted

    def names(self) -> tuple[str, ...]:
        """Return the names of the models that can be opened, the wanted one first."""
        others = {*self._endpoints, *MINILM, *self._opened} - {self._wanted.model}
        return (self._wanted.model, *sorted(others))

    async def of(self, model: str | None) -> Embedder:
        """Return a model's embedder; None: the wanted one. Raises UnknownModel, EmbedderUnavailable."""
        if model is None:
            return self._wanted
        if model not in self._opened:
            async with self._opening:
                if model not in self._opened:
                    self._opened[model] = await self._open(model)
        return self._opened[model]

    async def close(self) -> None:
        """Close all that were opened."""
        for embedder in self._opened.values():
            await embedder.close()

    async def _open(self, model: str) -> Embedder:
        if model in self._endpoints:
            return _endpoint(self._endpoints[model])
        if model in MINILM:
            return await _minilm(self._threads, model)
        hashed = _HASHED.fullmatch(model)
        if hashed is not None:
            return _hashed(int(hashed[1]))
        raise unknown_model(model, self.names())


async def _open_wanted(settings: Settings, threads: int) -> Embedder:
    if settings.embedder == "hashed":
        return _hashed()
    if settings.embedder == "endpoint" and settings.own_endpoint is not None:
        return _endpoint(settings.own_endpoint)
    return await _minilm(threads)


# Imported where they are needed: weights, tokenizer and HTTP client are for those who use them.


def _hashed(dims: int | None = None) -> Embedder:
    from shared.embedders.hashed import HashedEmbedder  # noqa: PLC0415 - as above

    return HashedEmbedder() if dims is None else HashedEmbedder(dims)


def _endpoint(endpoint: EmbeddingEndpoint) -> Embedder:
    from shared.embedders.endpoint import EndpointEmbedder  # noqa: PLC0415 - as above

    return EndpointEmbedder(endpoint)


async def _minilm(threads: int, model: str | None = None) -> Embedder:
    from shared.embedders.minilm import MiniLMEmbedder  # noqa: PLC0415 - as above

    if model is None:
        return await MiniLMEmbedder.open(threads)
    return await MiniLMEmbedder.open(threads, variant="plain" if model.endswith("/plain") else "fused-int8")
