"""Where the vectors of statements come from: the batch at hand, or their records."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import numpy as np

from shared.effects import Statement
from shared.embedder import Vectors
from shared.stores.weaviate import records
from shared.stores.weaviate.records import STANDING, Record
from shared.stores.weaviate.table import Table


class VectorSource:
    """``fresh``: by content key, what came with the batch, by model; ``held``: records as they were read.

    ``replacing``: what came takes the place of what is kept; else that stands.
    """

    def __init__(
        self,
        table: Table,
        tenant: str,
        fresh: Mapping[str, Mapping[str, Vectors]],
        held: Iterable[Record],
        *,
        replacing: bool = False,
    ) -> None:
        self._table = table
        self._tenant = tenant
        self._fresh = fresh
        self._held = {record.id: record for record in held}
        self._replacing = replacing

    def has(self, said: Statement, model: str) -> bool:
        """Tell whether a statement's text has vectors of a model."""
        return model in self._fresh.get(said.content_key or "", {}) or self._is_kept(said, model)

    def brings(self, said: Statement, model: str) -> bool:
        """Tell whether what is there has to be written with other vectors."""
        return self._replacing and model in self._fresh.get(said.content_key or "", {})

    async def load(self, said: Collection[Statement], model: str) -> dict[str, Vectors]:
        """Return the vectors of statements that have any, by unit."""
        found: dict[str, Vectors] = {}
        absent: dict[str, Statement] = {}
        for statement in said:
            fresh = self._fresh.get(statement.content_key or "", {})
            if model in fresh:
                found[statement.unit_id] = np.atleast_2d(fresh[model])
            elif self._is_kept(statement, model):
                absent[str(records.statement_id(self._tenant, statement))] = statement
        ids = [records.statement_id(self._tenant, statement) for statement in absent.values()]
        for one in await self._table.by_ids(ids, ["vectors"]):
            kept = records.vectors_of(one.properties["vectors"])
            if model in kept:
                found[absent[str(one.id)].unit_id] = kept[model]
        return found

    async def filled(self, wanted: Iterable[Record], begun: Collection[UUID] = ()) -> list[Record]:
        """Return the records that must be written, with their vectors: what is new, and what is not as it should be.

        ``begun``: records whose write may have been cut short. Where there are any, all are written once more.
        """
        changed: list[Record] = []
        merged: dict[str, Record] = {}
        for each in wanted:
            is_known = each.id in self._held and each.id not in begun
            record = replace(each, stamp=self._held[each.id].stamp) if is_known else each.stamped()
            held, fresh = self._held.get(record.id), self._fresh_of(record)
            if held is None or (held.past != record.past and not held.models):
                changed.append(record.with_vectors(fresh))
            elif record.past not in {held.past, STANDING}:
                changed.append(record.with_vectors({}))  # what is past needs none
            elif begun or held.body != record.body or (fresh and (self._replacing or fresh.keys() - set(held.models))):
                merged[str(record.id)] = record
        found = await self._table.by_ids([record.id for record in merged.values()], ["vectors"])
        there = {str(one.id): records.vectors_of(one.properties["vectors"]) for one in found}
        for name, record in merged.items():
            kept, fresh = there.get(name, {}), self._fresh_of(record)
            changed.append(record.with_vectors(kept | fresh if self._replacing else fresh | kept))
        return changed

    def _fresh_of(self, record: Record) -> dict[str, Vectors]:
        if record.past != STANDING or not record.text:
            return {}
        return {model: np.atleast_2d(matrix) for model, matrix in self._fresh.get(record.text, {}).items()}

    def _is_kept(self, said: Statement, model: str) -> bool:
        record = self._held.get(records.statement_id(self._tenant, said))
        return record is not None and model in record.models
