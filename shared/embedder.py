"""The embedder: texts to unit vectors."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
