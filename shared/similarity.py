"""Exact similarity of vectors: the one arithmetic that every store answers with."""

import numpy as np
from numpy.typing import NDArray

from shared.embedder import Vector, Vectors
from shared.errors import InvalidInput


def fitting(vectors: Vectors, query: Vector) -> Vectors:
    """Return the vectors, where a question can be compared with them. Raises InvalidInput for one of other dimensions."""
    if vectors.shape[1] != len(query):
        raise InvalidInput(f"the question's vector has {len(query)} dimensions, and the index {vectors.shape[1]}")
    return vectors


def cosines(vectors: Vectors, query: Vector) -> NDArray[np.float64]:
    """Return the cosine of each row with the query, both of unit length, in double precision.

    Each row is summed alone, so its result does not depend on where it stands in a matrix; matrix products do.
    """
    products = vectors.astype(np.float64) * query.astype(np.float64)
    sums: NDArray[np.float64] = products.sum(axis=1)
    return sums
