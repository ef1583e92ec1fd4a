"""Several embedding models in one store: which vectors a tenant keeps, and which of them its searches use.

A tenant has one active model: searches compare with its vectors and no others. A second one is built beside it, and takes
over in one transaction once it has the vectors of every text. The one before stays until it is dropped, so that going back
is a switch too. What is stored meanwhile gets vectors of all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.embedder import Vectors


class ModelState(StrEnum):
    """What a tenant's model is for."""

    ACTIVE = "active"
    BESIDE = "beside"


@dataclass(frozen=True)
class KnownModel:
    """An embedding model of which a tenant keeps vectors: its name (`Embedder.model`), and the length of a vector."""

    name: str
    dims: int
    state: ModelState

    @property
    def active(self) -> bool:
        """Whether searches use it."""
        return self.state is ModelState.ACTIVE


@dataclass(frozen=True)
class Text:
    """A text that has no vectors of a model yet: its key, what is embedded, and one of the units that have it."""

    content_key: str
    text: str
    unit_id: str


@dataclass(frozen=True)
class Coverage:
    """How many texts a tenant has, live ones and parts that wait for their document, and how many lack a model's vectors."""

    texts: int
    without: int


class VectorModels(Protocol):
    """The part of the store's writer that keeps vectors of several models."""

    async def models(self, tenant: str) -> list[KnownModel]:
        """Return the tenant's models, the active one first, then by name; none before its first vectors."""
        ...

    async def add_model(self, tenant: str, model: str, dims: int) -> None:
        """Make a model known, so that vectors of it are kept: active where there is none yet, else beside the active one.

        One that is known stays as it is. Raises InvalidInput where it is known with vectors of another length.
        """
        ...

    async def coverage(self, tenant: str, model: str) -> Coverage:
        """Return how many texts there are, and how many of them lack this model's vectors."""
        ...

    async def texts_without(self, tenant: str, model: str, limit: int, after: str = "") -> list[Text]:
        """Return up to ``limit`` texts that lack this model's vectors, by content key, those beyond ``after``."""
        ...

    async def put_vectors(self, tenant: str, model: str, vectors: Mapping[str, Vectors]) -> int:
        """Keep vectors of texts by content key, in place of older ones of this model, in one transaction.

        Returns how many were kept: a text that has gone meanwhile has no use for them, nor has a model that is not known.
        Raises InvalidInput for vectors of another length than the model's.
        """
        ...

    async def activate_model(self, tenant: str, model: str) -> bool:
        """Let searches use a known model from here on, unless a text lacks its vectors; return whether they do.

        One transaction: a question sees all of the old index or all of the new one. Raises UnknownThing for a model that
        is not known.
        """
        ...

    async def drop_model(self, tenant: str, model: str, limit: int) -> int:
        """Forget a model and up to ``limit`` of its texts' vectors; return how many were dropped, 0 at the end.

        Raises InvalidInput for the active one.
        """
        ...
