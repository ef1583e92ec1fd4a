"""The embedder: texts to unit vectors."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.errors import UnknownModel

Vector = NDArray[np.float32]
"""Shape (dims,), float32, unit length."""
Vectors = NDArray[np.float32]
"""Shape (rows, dims), float32, each row of unit length; rows ≥ 1, one a chunk of the text."""


class Embedder(Protocol):
    """Turns texts into vectors. A vector depends on its text alone, never on what is embedded beside it."""

    @property
    def model(self) -> str:
        """Name of model and variant; vectors of two names are never compared."""
        ...

    @property
    def dims(self) -> int:
        """Length of a vector."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Embed a question. Raises EmbedderUnavailable."""
        ...

    async def embed_text(self, text: str) -> Vectors:
        """Embed a unit's text, in chunks where it is longer than the model's window. Raises EmbedderUnavailable."""
        ...

    async def close(self) -> None:
        """Give up threads and memory."""
        ...


class Embedders(Protocol):
    """The embedders of a process, by model: a tenant's index may be of another model than new tenants get."""

    @property
    def wanted(self) -> Embedder:
        """The embedder of new tenants."""
        ...

    def names(self) -> tuple[str, ...]:
        """Return the names of the models that can be opened, the wanted one first."""
        ...

    async def of(self, model: str | None) -> Embedder:
        """Return a model's embedder, opened at its first use; None: the wanted one. Raises UnknownModel for a name that no
        setting gives, and EmbedderUnavailable.
        """
        ...

    async def close(self) -> None:
        """Close all that were opened."""
        ...


class Alone:
    """`Embedders` of one model."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def wanted(self) -> Embedder:
        """The one there is."""
        return self._embedder

    def names(self) -> tuple[str, ...]:
        """Return its name."""
        return (self._embedder.model,)

    async def of(self, model: str | None) -> Embedder:
        """Return it, where it is of that model. Raises UnknownModel."""
        if model not in (None, self._embedder.model):
            raise unknown_model(str(model), self.names())
        return self._embedder

    async def close(self) -> None:
        """Close it."""
        await self._embedder.close()


def unknown_model(model: str, names: tuple[str, ...]) -> UnknownModel:
    """Say that a model cannot be opened, which ones can, and what to do."""
    return UnknownModel(
        f"an index is of the embedding model {model}, and the settings know {', '.join(names)} alone. Configure {model} "
        f"beside it (CORTEX_OTHER_EMBEDDERS), start, and then: cortex model change {names[0]}"
    )
