"""Exact similarity of vectors: the one arithmetic that every store answers with."""

import numpy as np
from numpy.typing import NDArray

from shared.embedder import Vector, Vectors


def cosines(vectors: Vectors, query: Vector) -> NDArray[np.float64]:
    """Return the cosine of each row with the query, both of unit length, in double precision.

    Each row is summed alone, so its result does not depend on where it stands in a matrix; matrix products do.
    """
    products = vectors.astype(np.float64) * query.astype(np.float64)
    sums: NDArray[np.float64] = products.sum(axis=1)
    return sums
