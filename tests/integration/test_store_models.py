"""The SQLite store's models in files of an earlier release, and among several readers."""

import sqlite3

import numpy as np
import pytest

from shared.clock import ManualClock
from shared.stores.sqlite import SqliteReader
from shared.vector_models import Coverage, KnownModel, ModelState
from tests.contract.knowledge_events import DIMS, MODEL, NOW, TENANT, asserted, open_store, unit, vector_of, where

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

CLOCK = ManualClock(NOW)
AS_IN_VERSION_1 = """
ALTER TABLE text RENAME TO kept;
CREATE TABLE text (content_key TEXT PRIMARY KEY, model TEXT NOT NULL, rows INTEGER NOT NULL, vectors BLOB NOT NULL);
INSERT INTO text SELECT content_key, model, rows, vectors FROM kept;
DROP TABLE kept; DROP TABLE model; DROP TABLE event; DROP TABLE job;
PRAGMA user_version = 1;
"""


async def test_a_file_of_version_1_is_brought_up_with_its_vectors(tmp_path):
    """Readers that come before the writer can search it as it is."""
    store = open_store("sqlite", tmp_path, CLOCK)
    await store.apply(asserted(unit("a", "The first text.")), asserted(unit("b", "The second text.")))
    await store.close()
    with sqlite3.connect(tmp_path / f"{TENANT}.db") as connection:
        connection.executescript(AS_IN_VERSION_1)
        connection.execute("UPDATE text SET model = 'forgotten', vectors = zeroblob(20) WHERE rowid = 2")
    connection.close()
    reader = SqliteReader(tmp_path, clock=CLOCK)
    store = open_store("sqlite", tmp_path, CLOCK)
    for reading in (reader, store.reader):
        async with reading.snapshot(TENANT) as snapshot:
            assert await snapshot.model() == MODEL
            (hit,) = await snapshot.vector(vector_of("The first text."), where(), 5)
            assert hit.unit_ids == ("a",)
        assert await store.writer.coverage(TENANT, MODEL) == Coverage(2, 1), "a look-up finds all tables"
    assert await store.writer.models(TENANT) == [KnownModel(MODEL, DIMS, ModelState.ACTIVE)]
    assert await store.writer.coverage(TENANT, MODEL) == Coverage(2, 1), "what another model left is not taken for ours"
    (lacking,) = await store.writer.texts_without(TENANT, MODEL, 10)
    await store.writer.put_vectors(TENANT, MODEL, {lacking.content_key: vector_of(lacking.text)[np.newaxis]})
    assert await store.vector("The second text.", limit=1) == [("b",)]
    await store.close()
    await reader.close()


async def test_a_file_of_version_1_without_vectors_is_brought_up(tmp_path):
    store = open_store("sqlite", tmp_path, CLOCK)
    await store.apply({"type": "unit.retracted", "data": {"id": "never-there"}})
    await store.close()
    with sqlite3.connect(tmp_path / f"{TENANT}.db") as connection:
        connection.executescript(AS_IN_VERSION_1)
    connection.close()
    store = open_store("sqlite", tmp_path, CLOCK)
    await store.apply(asserted(unit("a", "The first text.")))
    assert await store.vector("The first text.", limit=1) == [("a",)]
    await store.close()


async def test_a_reader_with_everything_loaded_sees_the_switch_and_the_way_back(tmp_path):
    store = open_store("sqlite", tmp_path, CLOCK)
    texts = {f"u{number}": f"Text number {number}." for number in range(40)}
    await store.apply(*(asserted(unit(name, text)) for name, text in texts.items()))
    await store.reader.warm()
    await store.writer.add_model(TENANT, "turned", DIMS)
    lacking = await store.writer.texts_without(TENANT, "turned", 100)
    turned = {text.content_key: np.roll(vector_of(text.text), 1)[np.newaxis] for text in lacking}
    await store.writer.put_vectors(TENANT, "turned", turned)
    for _ in range(3):
        async with store.reader.snapshot(TENANT) as old:
            await store.writer.activate_model(TENANT, "turned")
            async with store.reader.snapshot(TENANT) as new:
                for name, text in texts.items():
                    for snapshot, query in ((new, np.roll(vector_of(text), 1)), (old, vector_of(text))):
                        (best,) = await snapshot.vector(query, where(), 1)
                        assert best.unit_ids == (name,)
                        assert (await snapshot.similarities(query, [best.passage_id])) == pytest.approx(
                            {best.passage_id: 1.0}
                        )
        await store.writer.activate_model(TENANT, MODEL)
        assert await store.vector(texts["u7"], limit=1) == [("u7",)]
    await store.close()
