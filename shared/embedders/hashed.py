"""An embedder without a model: texts that share words are near. For tests, and wherever no weights may be loaded."""

import hashlib

import numpy as np

from shared.embedder import Vector, Vectors
from shared.embedders.windows import windows
from shared.errors import EmbedderUnavailable
from shared.text import terms

WINDOW_TERMS = 200  # about what MiniLM sees at once
OVERLAP_TERMS = 25
TEXT_WINDOWS = 64


class HashedEmbedder:
    """An `Embedder` by feature hashing (Weinberger et al. 2009) of the analyser's terms; deterministic everywhere.

    Each term adds +1 or -1 to one of ``dims`` places. A text without terms gets the vector of its own characters' hash.
    """

    def __init__(self, dims: int = 64) -> None:
        self._dims = dims
        self._closed = False

    @property
    def model(self) -> str:
        """Name of model and variant; vectors of two names are never compared."""
        return f"hashed-terms/{self._dims}"

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return self._dims

    async def embed_query(self, text: str) -> Vector:
        """Embed a question. Raises EmbedderUnavailable."""
        return self._vector(self._features(text))

    async def embed_text(self, text: str) -> Vectors:
        """Embed a unit's text, one row a window of 200 terms. Raises EmbedderUnavailable."""
        features = self._features(text)
        spans = windows(len(features), WINDOW_TERMS, OVERLAP_TERMS, TEXT_WINDOWS)
        return np.stack([self._vector(features[start:end]) for start, end in spans])

    async def close(self) -> None:
        """Calls that come later raise EmbedderUnavailable."""
        self._closed = True

    def _features(self, text: str) -> list[str]:
        if self._closed:
            raise EmbedderUnavailable("the embedder is closed")
        return terms(text) or [text]

    def _vector(self, features: list[str]) -> Vector:
        vector = np.zeros(self._dims, dtype=np.float32)
        for feature in features:
            digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            place = int.from_bytes(digest[:7], "big") % self._dims
            vector[place] += 1.0 if digest[7] & 1 else -1.0
        length = float(np.linalg.norm(vector))
        if length == 0.0:  # terms that cancel each other out exactly
            vector[0] = length = 1.0
        return (vector / np.float32(length)).astype(np.float32)
