"""The writer: one thread that owns every write, and one that looks things up beside it."""

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import numpy as np
import structlog
from pydantic import ValidationError

from schemas.commands import Job
from schemas.graph import Contribution
from schemas.messages import Resolution
from schemas.positions import Position
from schemas.units import Unit
from shared.clock import Clock
from shared.contributions import unit_contribution
from shared.embedder import Vectors
from shared.errors import FolderReadOnly, StoreUnavailable
from shared.store import CONTRADICTIONS, Applied, Effect, FoundContradiction, StoredContradiction
from shared.stores.sqlite import contradictions, declarations, ledger, schema
from shared.stores.sqlite.apply import apply_effects, move_watermark
from shared.stores.sqlite.connect import open_to_read, open_to_write, path_of, translated
from shared.stores.sqlite.digest import digests
from shared.stores.sqlite.rows import as_json_array

Result = TypeVar("Result")
_log = structlog.get_logger(__name__)

OPEN_FILES = 64
"""Tenants whose files stay open for writing; the least recently used is closed."""


class SqliteWriter:
    """Writes the knowledge of every tenant below a folder. Only one may exist a folder: the runtime's lock sees to it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._closed = False
        self._files: OrderedDict[str, sqlite3.Connection] = OrderedDict()
        self._readers: OrderedDict[str, sqlite3.Connection] = OrderedDict()
        self._write = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-write")
        self._look_up = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-look-up")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderReadOnly(f"the folder {folder} cannot be made: {error.strerror}") from error

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable in one transaction; see the protocol."""
        return await self._in_thread(self._write, lambda: self._apply(tenant, effects))

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before."""
        return await self._in_thread(self._look_up, lambda: self._known_vectors(model, tenant, content_keys))

    async def record_contradictions(
        self,
        tenant: str,
        position: Position,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Replace what is kept for the checked units, and move the watermark."""
        return await self._in_thread(self._write, lambda: self._record(tenant, position, recorded_at, checked, found))

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state."""
        await self._in_thread(self._write, lambda: self._save_job(tenant, job))

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now."""
        return await self._in_thread(self._look_up, lambda: self._contributions(tenant))

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the digests of the tenant's state."""
        return await self._in_thread(self._look_up, lambda: self._digest(tenant))

    async def close(self) -> None:
        """Finish what was begun, write the logs back and close the files."""
        if self._closed:
            return
        self._closed = True
        await self._in_thread(self._look_up, self._close_readers)
        await self._in_thread(self._write, self._close_files)
        await asyncio.to_thread(self._shut_down)

    async def _in_thread(self, executor: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        """Run work in a thread. Cancelled before it began it never runs; once begun it ends, one way or the other."""
        try:
            running = asyncio.get_running_loop().run_in_executor(executor, work)
        except RuntimeError as error:
            raise StoreUnavailable("the writer of the store was closed") from error
        return await running

    def _apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        with self._transaction(tenant) as connection:
            return apply_effects(connection, tenant, effects)

    def _record(
        self,
        tenant: str,
        position: Position,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        with self._transaction(tenant) as connection:
            new = {pair.id for pair in contradictions.replace(connection, checked, found, recorded_at)}
            move_watermark(connection, CONTRADICTIONS, position)
            if not new:
                return []
            units = {unit_id for pair in found for unit_id in pair.units}
            kept = contradictions.listed(connection, self._clock.now(), unit_ids=units, open_only=False, limit=-1)
            return [pair for pair in kept if pair.found.id in new]

    def _save_job(self, tenant: str, job: Job) -> None:
        with self._transaction(tenant) as connection:
            ledger.save_job(connection, job)

    def _known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        with self._reading(tenant) as connection:
            if connection is None:
                return {}
            rows = connection.execute(
                "SELECT content_key, rows, vectors FROM text WHERE model = ? "
                "AND content_key IN (SELECT value FROM json_each(?))",
                (model, as_json_array(content_keys)),
            ).fetchall()
        return {key: np.frombuffer(vectors, dtype="<f4").reshape(count, -1) for key, count, vectors in rows}

    def _contributions(self, tenant: str) -> list[Contribution]:
        with self._reading(tenant) as connection:
            if connection is None:
                return []
            found = declarations.contributions(connection, tenant)
            rows = connection.execute(
                "SELECT unit.unit_id, body, unit.revision, resolution FROM unit "
                "JOIN statement ON statement.id = unit.statement ORDER BY unit.unit_id"
            )
            for unit_id, body, revision, resolution in rows:  # each is read once: past the caches
                try:
                    mentions = Resolution.model_validate_json(resolution).mentions if resolution else ()
                    found.append(unit_contribution(tenant, Unit.model_validate_json(body), revision, mentions))
                except ValidationError as error:
                    # a rule that came after it, or a damaged row: one unit must not keep all the others from starting
                    _log.error("store.unreadable_unit", tenant=tenant, unit=unit_id, faults=error.error_count())
        return found

    def _digest(self, tenant: str) -> dict[str, str]:
        with self._reading(tenant) as connection:
            if connection is not None:
                return digests(connection)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as nothing:
            schema.prepare(nothing, tenant)
            return digests(nothing)

    @contextmanager
    def _transaction(self, tenant: str) -> Iterator[sqlite3.Connection]:
        """Hold the tenant's write transaction: it commits, or nothing of it remains."""
        with translated():
            connection = self._file(tenant)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _reading(self, tenant: str) -> Iterator[sqlite3.Connection | None]:
        """Hold a read transaction on a connection of its own, so that a look-up never waits for a write."""
        connection = self._readers.pop(tenant, None) or open_to_read(path_of(self._folder, tenant))
        if connection is None:
            yield None
            return
        self._keep_open(self._readers, tenant, connection)
        with translated():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def _file(self, tenant: str) -> sqlite3.Connection:
        connection = self._files.pop(tenant, None) or open_to_write(path_of(self._folder, tenant))
        self._keep_open(self._files, tenant, connection)
        return connection

    def _keep_open(
        self, files: OrderedDict[str, sqlite3.Connection], tenant: str, connection: sqlite3.Connection
    ) -> None:
        files[tenant] = connection
        while len(files) > OPEN_FILES:
            _, oldest = files.popitem(last=False)
            oldest.close()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()

    def _close_files(self) -> None:
        with translated():
            while self._files:
                _, connection = self._files.popitem()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.close()

    def _shut_down(self) -> None:
        self._write.shutdown()
        self._look_up.shutdown()
