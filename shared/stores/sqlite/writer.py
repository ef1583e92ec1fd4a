"""The writer: one thread that owns every write, and one that looks things up beside it."""

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
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
from shared.errors import FolderReadOnly, LogUnavailable, StoreUnavailable
from shared.logs.turnstile import Turnstile
from shared.store import CONTRADICTIONS, Applied, Effect, FoundContradiction, Resolved, Resolving, StoredContradiction
from shared.stores.sqlite import again, contradictions, declarations, ledger, models, schema
from shared.stores.sqlite.apply import apply_effects, move_watermark, replace_vectors
from shared.stores.sqlite.connect import open_to_read, open_to_write, path_of, translated
from shared.stores.sqlite.digest import digests, fingerprints_in
from shared.stores.sqlite.rows import as_json_array
from shared.vector_models import Coverage, KnownModel, Text

Result = TypeVar("Result")
_log = structlog.get_logger(__name__)

TURN_S = 10.0
"""Longest wait for the other writers: each holds the files for a transaction, some tens of milliseconds."""
OPEN_FILES = 64
"""Tenants whose files stay open for writing; the least recently used is closed."""


class SqliteWriter:
    """Writes the knowledge of every tenant below a folder.

    Only one may exist a folder, and the runtime's lock sees to it; or each is ``shared``, and they take turns: two that
    wrote or checkpointed at one moment could corrupt the log of an SQLite before 3.51.3. Beside it another process may
    open one that only looks things up (vectors, models, contributions, fingerprints): that one writes nothing.
    """

    def __init__(self, folder: Path, clock: Clock, *, shared: bool = False) -> None:
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
        self._turnstile = Turnstile(folder / "writers", TURN_S) if shared else None

    async def apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        """Make effects durable in one transaction; see the protocol."""
        return await self._in_thread(self._write, lambda: self._apply(tenant, effects))

    async def known_vectors(self, model: str, tenant: str, content_keys: Collection[str]) -> dict[str, Vectors]:
        """Return vectors that were computed before."""
        return await self._in_thread(self._look_up, lambda: self._known_vectors(model, tenant, content_keys))

    async def models(self, tenant: str) -> list[KnownModel]:
        """Return the tenant's models, the active one first."""
        return await self._in_thread(self._look_up, lambda: self._read(tenant, models.models, []))

    async def add_model(self, tenant: str, model: str, dims: int) -> None:
        """Make a model known, so that its vectors are kept."""
        work = partial(models.add_model, model=model, dims=dims)
        await self._in_thread(self._write, lambda: self._write_in(tenant, work))

    async def coverage(self, tenant: str, model: str) -> Coverage:
        """Return how many texts lack a model's vectors."""
        work = partial(models.coverage, model=model)
        return await self._in_thread(self._look_up, lambda: self._read(tenant, work, Coverage(0, 0)))

    async def texts_without(self, tenant: str, model: str, limit: int, after: str = "") -> list[Text]:
        """Return texts that lack a model's vectors."""
        work = partial(models.texts_without, model=model, limit=limit, after=after)
        return await self._in_thread(self._look_up, lambda: self._read(tenant, work, []))

    async def put_vectors(self, tenant: str, model: str, vectors: Mapping[str, Vectors]) -> int:
        """Keep vectors of texts in place of older ones of this model."""
        work = partial(replace_vectors, model=model, vectors=vectors)
        return await self._in_thread(self._write, lambda: self._write_in(tenant, work))

    async def activate_model(self, tenant: str, model: str) -> bool:
        """Let searches use a model, unless a text lacks its vectors."""
        work = partial(models.activate_model, model=model)
        return await self._in_thread(self._write, lambda: self._write_in(tenant, work))

    async def drop_model(self, tenant: str, model: str, limit: int) -> int:
        """Forget a model and some of its vectors."""
        work = partial(models.drop_model, model=model, limit=limit)
        return await self._in_thread(self._write, lambda: self._write_in(tenant, work))

    async def record_contradictions(
        self,
        tenant: str,
        position: Position | None,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        """Replace what is kept for the checked units, and move the watermark."""
        return await self._in_thread(self._write, lambda: self._record(tenant, position, recorded_at, checked, found))

    async def resolve_again(self, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
        """Keep what units' texts were resolved to anew, where they have not changed since."""
        return await self._in_thread(self._write, lambda: self._resolve_again(tenant, resolving))

    async def save_job(self, tenant: str, job: Job) -> None:
        """Keep a background job's state."""
        await self._in_thread(self._write, lambda: self._save_job(tenant, job))

    async def contributions(self, tenant: str) -> list[Contribution]:
        """Return everything the tenant contributes to the graph now."""
        return await self._in_thread(self._look_up, lambda: self._contributions(tenant))

    async def digest(self, tenant: str) -> dict[str, str]:
        """Return the digests of the tenant's state."""
        return await self._in_thread(self._look_up, lambda: self._look_at(tenant, digests))

    async def fingerprints(self, tenant: str, part: str) -> dict[str, str]:
        """Return the fingerprint of each thing of a part of the tenant's state."""
        return await self._in_thread(
            self._look_up, lambda: self._look_at(tenant, lambda connection: fingerprints_in(connection, part))
        )

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

    def _write_in(self, tenant: str, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._transaction(tenant) as connection:
            return work(connection)

    def _read(self, tenant: str, work: Callable[[sqlite3.Connection], Result], empty: Result) -> Result:
        with self._reading(tenant) as connection:
            return empty if connection is None else work(connection)

    def _apply(self, tenant: str, effects: Sequence[Effect]) -> list[Applied]:
        with self._transaction(tenant) as connection:
            return apply_effects(connection, tenant, effects)

    def _record(
        self,
        tenant: str,
        position: Position | None,
        recorded_at: datetime,
        checked: Collection[str],
        found: Sequence[FoundContradiction],
    ) -> list[StoredContradiction]:
        with self._transaction(tenant) as connection:
            kept = contradictions.replace(connection, checked, found, recorded_at, keep_standing=position is not None)
            new = {pair.id for pair in kept}
            if position is not None:
                move_watermark(connection, CONTRADICTIONS, position)
            if not new:
                return []
            units = {unit_id for pair in found for unit_id in pair.units}
            listed = contradictions.listed(connection, self._clock.now(), unit_ids=units, open_only=False, limit=-1)
            return [pair for pair in listed if pair.found.id in new]

    def _resolve_again(self, tenant: str, resolving: Sequence[Resolving]) -> list[Resolved]:
        with self._transaction(tenant) as connection:
            return again.resolve(connection, tenant, resolving)

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

    def _look_at(self, tenant: str, look: Callable[[sqlite3.Connection], Result]) -> Result:
        """Look at the tenant's file; where there is none, at an empty one."""
        with self._reading(tenant) as connection:
            if connection is not None:
                return look(connection)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as nothing:
            schema.prepare(nothing, tenant)
            return look(nothing)

    @contextmanager
    def _transaction(self, tenant: str) -> Iterator[sqlite3.Connection]:
        """Hold the tenant's write transaction: it commits, or nothing of it remains."""
        with self._turn(), translated():
            connection = self._file(tenant)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the files alone, where other processes write them too. Raises StoreUnavailable."""
        if self._turnstile is None:
            yield
            return
        with ExitStack() as turn:
            try:
                turn.enter_context(self._turnstile.writing())
            except LogUnavailable as error:
                raise StoreUnavailable("another process holds the knowledge files for too long") from error
            yield

    @contextmanager
    def _reading(self, tenant: str) -> Iterator[sqlite3.Connection | None]:
        """Hold a read transaction on a connection of its own, so that a look-up never waits for a write."""
        connection = self._readers.pop(tenant, None) or self._open_reader(tenant)
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

    def _open_reader(self, tenant: str) -> sqlite3.Connection | None:
        """Open a tenant's file to look things up, once it has every table of this release."""
        path = path_of(self._folder, tenant)
        connection = open_to_read(path)
        if connection is not None and schema.check_version(connection, path.name) < schema.VERSION:
            connection.close()
            open_to_write(path).close()
            connection = open_to_read(path)
        return connection

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
        with self._turn(), translated():
            while self._files:
                _, connection = self._files.popitem()
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.close()

    def _shut_down(self) -> None:
        self._write.shutdown()
        self._look_up.shutdown()
        if self._turnstile is not None:
            self._turnstile.close()
