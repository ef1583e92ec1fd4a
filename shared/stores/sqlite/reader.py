"""The reader: a bounded pool of read-only connections and threads; snapshots are read transactions on them."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TypeVar

from shared.clock import Clock, SystemClock
from shared.errors import InvalidInput, StoreUnavailable
from shared.stores.sqlite.connect import SUFFIX, open_to_read, path_of, translated
from shared.stores.sqlite.keyword import TermCounts
from shared.stores.sqlite.models import active_model
from shared.stores.sqlite.snapshot import SqliteSnapshot
from shared.stores.sqlite.vectors import Matrices, View

Result = TypeVar("Result")

SNAPSHOTS_A_THREAD = 32
"""Snapshots that may be open for each thread: a snapshot waits for embeddings and graphs most of its life."""
IDLE_CONNECTIONS = 16
WAIT_S = 5.0
"""Longest wait for a free snapshot."""
TENANTS_COUNTED = 256


class SqliteReader:
    """Reads what `SqliteWriter` wrote, in the same process or another. ``clock`` tells which relations and pairs still hold."""

    def __init__(
        self, folder: Path, *, threads: int = 2, vector_memory_mb: int = 1_024, clock: Clock | None = None
    ) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="knowledge-read")
        self._free = asyncio.Semaphore(threads * SNAPSHOTS_A_THREAD)
        self._matrices = Matrices(vector_memory_mb * 1024 * 1024)
        self._lock = Lock()
        self._idle: list[tuple[str, sqlite3.Connection]] = []
        self._term_counts: dict[str, TermCounts] = {}

    @asynccontextmanager
    async def snapshot(self, tenant: str) -> AsyncIterator[SqliteSnapshot]:
        """Open a consistent view of a tenant."""
        path = path_of(self._folder, tenant)
        await self._acquire()
        session = _Session(self._threads, lambda: self._take(tenant, path))
        try:
            view = await session.begin(tenant)
            yield SqliteSnapshot(
                session.run,
                self._beside,
                view=view,
                now=self._clock.now(),
                matrices=self._matrices,
                counts=self._counts_of(tenant),
            )
        finally:
            session.end(lambda connection: self._give_back(tenant, connection), self._free.release)

    async def tenants(self) -> list[str]:
        """Return the tenants that have a file, by name."""
        return await self._in_thread(self._tenants)

    async def warm(self) -> None:
        """Load the matrices of every tenant, as far as memory is given: to be called once at start."""
        for tenant in await self.tenants():
            async with self.snapshot(tenant) as snapshot:
                await snapshot.warm()

    async def ping(self) -> None:
        """Raise StoreUnavailable when the folder or a file in it cannot be read."""
        tenants = await self.tenants()
        if tenants:
            async with self.snapshot(tenants[0]) as snapshot:
                await snapshot.watermarks()

    async def close(self) -> None:
        """Wait for what is running and close the files."""
        await asyncio.to_thread(self._threads.shutdown)
        with self._lock:
            for _, connection in self._idle:
                connection.close()
            self._idle.clear()

    async def _acquire(self) -> None:
        try:
            await asyncio.wait_for(self._free.acquire(), WAIT_S)
        except TimeoutError as error:
            raise StoreUnavailable(f"no snapshot of the store became free within {WAIT_S:g} s") from error

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _beside(self, work: Callable[[], Result]) -> Result:
        try:
            return await self._in_thread(work)
        except RuntimeError as error:  # what the pool raises once it was shut down
            raise StoreUnavailable("the reader of the store was closed") from error

    def _tenants(self) -> list[str]:
        try:
            files = list(self._folder.iterdir()) if self._folder.exists() else []
        except OSError as error:
            raise StoreUnavailable(f"the folder of the knowledge files cannot be read: {error.strerror}") from error
        return sorted(file.stem for file in files if file.suffix == SUFFIX and self._is_tenant(file.stem))

    def _is_tenant(self, name: str) -> bool:
        try:
            path_of(self._folder, name)
        except InvalidInput:
            return False
        return True

    def _counts_of(self, tenant: str) -> TermCounts:
        with self._lock:
            if len(self._term_counts) >= TENANTS_COUNTED:
                self._term_counts.clear()
            return self._term_counts.setdefault(tenant, TermCounts())

    def _take(self, tenant: str, path: Path) -> sqlite3.Connection | None:
        with self._lock:
            for place, (name, connection) in enumerate(self._idle):
                if name == tenant:
                    del self._idle[place]
                    return connection
        return open_to_read(path)

    def _give_back(self, tenant: str, connection: sqlite3.Connection) -> None:
        with self._lock:
            self._idle.append((tenant, connection))
            surplus = self._idle.pop(0)[1] if len(self._idle) > IDLE_CONNECTIONS else None
        if surplus is not None:
            surplus.close()


class _Session:
    """One connection in one read transaction: calls run in threads, one at a time; a cancelled one is interrupted.

    Its end awaits nothing, so that no cancellation can come between: it queues behind the call that still runs.
    """

    def __init__(self, threads: ThreadPoolExecutor, take: Callable[[], sqlite3.Connection | None]) -> None:
        self._threads = threads
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._connection: sqlite3.Connection | None = None
        self._turn = asyncio.Lock()
        self._in_use = Lock()
        self._ended = False

    async def begin(self, tenant: str) -> View:
        """Begin the transaction and return which one it is."""
        return await self._exclusively(lambda: self._begin(tenant))

    async def run(self, work: Callable[[sqlite3.Connection], Result], empty: Result) -> Result:
        """Run work on the connection; ``empty`` where the tenant has no file."""
        if self._ended:
            raise StoreUnavailable("the snapshot was closed")
        if self._connection is None:
            return empty
        connection = self._connection
        return await self._exclusively(lambda: _guarded(work, connection))

    def end(self, give_back: Callable[[sqlite3.Connection], None], then: Callable[[], None]) -> None:
        """End the transaction and give the connection back, after what still runs; then call ``then`` in the loop."""
        self._ended = True
        try:
            job = self._threads.submit(self._end, give_back)
        except RuntimeError:  # the reader was closed: its threads are gone, and nothing runs any more
            self._end(give_back)
            then()
            return
        job.add_done_callback(lambda _: self._in_loop(then))

    async def _exclusively(self, work: Callable[[], Result]) -> Result:
        """Run work when the connection is free. The turn ends with the thread's work, not with the caller's patience."""
        await self._turn.acquire()
        try:
            job = self._threads.submit(self._locked, work)
        except RuntimeError as error:
            self._turn.release()
            raise StoreUnavailable("the reader of the store was closed") from error
        outcome: asyncio.Future[Result] = self._loop.create_future()
        job.add_done_callback(lambda _: self._in_loop(lambda: self._pass_on(job, outcome)))
        try:
            return await outcome
        except asyncio.CancelledError:
            if not job.cancel() and job.running() and self._connection is not None:
                self._connection.interrupt()
            raise

    def _pass_on(self, job: Future[Result], outcome: asyncio.Future[Result]) -> None:
        """End the turn and hand over what the thread did, in one step of the loop: each costs a wake-up."""
        self._turn.release()
        if outcome.done() or job.cancelled():  # whoever waited has left
            return
        error = job.exception()
        if error is None:
            outcome.set_result(job.result())
        else:
            outcome.set_exception(error)

    def _locked(self, work: Callable[[], Result]) -> Result:
        with self._in_use:
            return work()

    def _in_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(call)

    def _begin(self, tenant: str) -> View:
        self._connection = self._take()
        if self._connection is None:
            return View(tenant, 0, None)
        with translated():
            self._connection.execute("BEGIN")
            (seq,) = self._connection.execute("SELECT coalesce(max(seq), 0) FROM change").fetchone()
            return View(tenant, int(seq), active_model(self._connection))

    def _end(self, give_back: Callable[[sqlite3.Connection], None]) -> None:
        with self._in_use:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:
                connection.close()  # unusable: the next snapshot opens a new one
            else:
                give_back(connection)


def _guarded(work: Callable[[sqlite3.Connection], Result], connection: sqlite3.Connection) -> Result:
    with translated():
        return work(connection)
