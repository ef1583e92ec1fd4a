"""All rows of one tenant as growing columns: what a snapshot is built from, without looking at a contribution twice."""

from array import array
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schemas.graph import Contribution
from shared.graphs.rows import MENTIONED_WITH, edges_of, keys_of

SPEAKS_OF: Final = -1  # the relation of a row that only says: this contribution speaks of this key
UNDIRECTED: Final = 0  # the number of `MENTIONED_WITH` among the relations
EVERYWHERE: Final = 0  # the scope of declarations, readable by all
COMPACT_SHARE: Final = 0.25  # of dead rows: then copying them costs more than moving the live ones once
COMPACT_ROWS: Final = 10_000

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The live rows, copied: ``source`` and ``target`` are key numbers, ``owner`` a contribution's."""

    source: Ints
    target: Ints
    relation: Ints
    owner: Ints
    weight: Floats
    owner_scope: Ints
    owner_at: Floats


class RowTable:
    """Rows by contribution. Keys, relations, scopes and owners have numbers that never change."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.relations: list[str] = []
        self.scopes: dict[str | None, int] = {None: EVERYWHERE}
        self.owners: list[str] = []
        self._key_numbers: dict[str, int] = {}
        self._relation_numbers: dict[str, int] = {}
        self._owner_numbers: dict[str, int] = {}
        self._owner_scope, self._owner_at = array("q"), array("d")
        self._spans: dict[int, tuple[int, int]] = {}
        self._dead = 0
        self._relation(MENTIONED_WITH)
        self._clear_rows()

    def replace(self, contribution: Contribution) -> None:
        """Put the contribution's rows in place of those it had; a removed one has none."""
        owner = self._owner(contribution)
        start, end = self._spans.pop(owner, (0, 0))
        self._alive[start:end] = bytes(end - start)
        self._dead += end - start
        if not contribution.removed:
            self._append(owner, contribution)
        if self._dead > COMPACT_ROWS and self._dead > COMPACT_SHARE * len(self._alive):
            self._compact()

    def columns(self) -> Columns:
        """Return a copy of the live rows; later changes do not touch it."""
        live = np.frombuffer(bytes(self._alive), dtype=np.bool_)
        return Columns(
            source=_numbers(self._source)[live],
            target=_numbers(self._target)[live],
            relation=_numbers(self._relation_of)[live],
            owner=_numbers(self._owner_of)[live],
            weight=_floats(self._weight)[live],
            owner_scope=_numbers(self._owner_scope).copy(),
            owner_at=_floats(self._owner_at).copy(),
        )

    def _append(self, owner: int, contribution: Contribution) -> None:
        start = len(self._alive)
        for name in sorted(keys_of(contribution)):
            key = self._key(name)
            self._add(key, SPEAKS_OF, key, owner, 1.0)
        for row in edges_of(contribution):
            self._add(self._key(row.source), self._relation(row.relation), self._key(row.target), owner, row.weight)
        self._spans[owner] = (start, len(self._alive))

    def _add(self, source: int, relation: int, target: int, owner: int, weight: float) -> None:
        self._source.append(source)
        self._relation_of.append(relation)
        self._target.append(target)
        self._owner_of.append(owner)
        self._weight.append(weight)
        self._alive.append(1)

    def _clear_rows(self) -> None:
        self._source, self._target = array("q"), array("q")
        self._relation_of, self._owner_of = array("q"), array("q")
        self._weight = array("d")
        self._alive = bytearray()

    def _compact(self) -> None:
        kept = self.columns()
        self._clear_rows()
        for column, values in (
            (self._source, kept.source),
            (self._target, kept.target),
            (self._relation_of, kept.relation),
            (self._owner_of, kept.owner),
            (self._weight, kept.weight),
        ):
            column.frombytes(values.tobytes())
        self._alive = bytearray(b"\x01" * len(kept.source))
        self._dead = 0
        # a contribution's rows were appended together, so they still stand together
        first, count = np.unique(kept.owner, return_index=True, return_counts=True)[1:]
        self._spans = {
            int(kept.owner[start]): (int(start), int(start + number))
            for start, number in zip(first, count, strict=True)
        }

    def _owner(self, contribution: Contribution) -> int:
        number = self._owner_numbers.setdefault(contribution.id, len(self.owners))
        if number == len(self.owners):
            self.owners.append(contribution.id)
            self._owner_scope.append(EVERYWHERE)
            self._owner_at.append(0.0)
        self._owner_scope[number] = self.scopes.setdefault(contribution.scope, len(self.scopes))
        at = contribution.occurred_at
        self._owner_at[number] = at.timestamp() if at else float("-inf")
        return number

    def _key(self, name: str) -> int:
        number = self._key_numbers.setdefault(name, len(self.keys))
        if number == len(self.keys):
            self.keys.append(name)
        return number

    def _relation(self, name: str) -> int:
        number = self._relation_numbers.setdefault(name, len(self.relations))
        if number == len(self.relations):
            self.relations.append(name)
        return number


def _numbers(column: "array[int]") -> Ints:
    """Look at a column; only for as long as it takes to copy from it, as it cannot grow meanwhile."""
    return np.frombuffer(column, dtype=np.int64) if column else np.zeros(0, dtype=np.int64)


def _floats(column: "array[float]") -> Floats:
    return np.frombuffer(column, dtype=np.float64) if column else np.zeros(0)
