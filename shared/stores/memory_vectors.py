"""A tenant's vectors in memory: of each text by model, and which model is searched."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shared.embedder import Vectors
from shared.errors import InvalidInput, ModelChanged, UnknownThing
from shared.vector_models import KnownModel, ModelState


@dataclass
class VectorState:
    """``texts``: content key → model → vectors. ``dims``: of each known model."""

    active: str | None = None
    dims: dict[str, int] = field(default_factory=dict)
    texts: dict[str, dict[str, Vectors]] = field(default_factory=dict)

    def models(self) -> list[KnownModel]:
        """Return the known models, the active one first, then by name."""
        names = sorted(self.dims, key=lambda name: (name != self.active, name))
        return [
            KnownModel(name, self.dims[name], ModelState.ACTIVE if name == self.active else ModelState.BESIDE)
            for name in names
        ]

    def add_model(self, model: str, dims: int) -> None:
        """Make a model known; the first is the active one."""
        if self.dims.setdefault(model, dims) != dims:
            raise InvalidInput(f"vectors of {model} have {self.dims[model]} dimensions here, and these have {dims}")
        self.active = self.active or model

    def check(self, coming: Sequence[Mapping[str, Vectors]]) -> None:
        """Raise ModelChanged where one of the texts does not come with vectors of the active model."""
        active = self.active
        for found in coming:
            active = active or next(iter(found), None)
            if active not in found:
                raise ModelChanged(f"{sorted(found)} do not include the model that is searched now")

    def keep(self, content_key: str, found: Mapping[str, Vectors]) -> None:
        """Keep a text's vectors of the known models, unless they are there. The first model ever is made known."""
        if not self.dims:
            model, vectors = next(iter(found.items()))
            self.add_model(model, np.atleast_2d(vectors).shape[1])
        for model, vectors in found.items():
            if model in self.dims and model not in self.texts.get(content_key, {}):
                self._put(content_key, model, vectors)

    def replace(self, model: str, vectors: Mapping[str, Vectors], counted: Collection[str]) -> int:
        """Keep vectors of the texts that count, in place of older ones; return of how many."""
        wanted = {key: rows for key, rows in vectors.items() if key in counted and model in self.dims}
        for key, rows in wanted.items():
            self._put(key, model, rows)
        return len(wanted)

    def without(self, model: str, counted: Collection[str]) -> list[str]:
        """Return the keys of texts that lack a model's vectors, sorted."""
        return sorted(key for key in counted if model not in self.texts.get(key, {}))

    def activate(self, model: str, counted: Collection[str]) -> bool:
        """Let searches use a model, unless a text lacks its vectors."""
        if model not in self.dims:
            raise UnknownThing(f"nothing is kept of the embedding model {model}")
        if self.without(model, counted):
            return False
        self.active = model
        return True

    def drop(self, model: str, limit: int) -> int:
        """Forget a model and some of its vectors; return how many went."""
        if model == self.active:
            raise InvalidInput(f"{model} is the embedding model that is searched; change to another one first")
        self.dims.pop(model, None)
        gone = [key for key in sorted(self.texts) if model in self.texts[key]][:limit]
        for key in gone:
            del self.texts[key][model]
        return len(gone)

    def retain(self, counted: Collection[str]) -> None:
        """Forget texts that count no more."""
        self.texts = {key: kept for key, kept in self.texts.items() if key in counted}

    def of(self, model: str | None) -> dict[str, Vectors]:
        """Return a model's vectors by content key."""
        return {key: kept[model] for key, kept in self.texts.items() if model is not None and model in kept}

    def _put(self, content_key: str, model: str, vectors: Vectors) -> None:
        matrix = np.atleast_2d(vectors).astype(np.float32)
        self.add_model(model, matrix.shape[1])
        self.texts.setdefault(content_key, {})[model] = matrix
