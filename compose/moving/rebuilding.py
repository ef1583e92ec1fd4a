"""``cortex rebuild``: a store built from the log beside the live one, compared with it, or put in its place."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from compose.local.folder import DataFolder, FileLock, translated
from compose.moving.parts import Parts, open_parts, sqlite_side, tenants_of
from ingest.buried import buried_in, discarded_in
from ingest.rebuild import Rebuild, Tally, Watermarks
from ingest.verify import Side, Verdict, verify
from shared.errors import InvalidInput
from shared.settings import Settings

BEFORE: Final = "knowledge.before-"
DRAFT: Final = "knowledge.rebuilding"
JOBS: Final = 100_000
"""Jobs that are carried over: what the commands left behind, which the log of events does not hold."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild of a tenant did and, where it was compared, what came of that."""

    tenant: str
    tally: Tally
    seconds: float
    verdict: Verdict | None = None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.tally.events / self.seconds if self.seconds > 0 else 0.0


async def verify_store(
    settings: Settings, *, tenant: str | None = None, keep: Path | None = None, on_progress: OnProgress = lambda _: None
) -> list[Rebuilt]:
    """Rebuild every tenant's store, or one's, from the log and compare it with the live one, which may be served meanwhile.

    Raises InvalidInput (``keep`` has something in it), DataFolderError, StoreUnavailable, LogUnavailable, DiskFull.
    """
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        folder = await stack.enter_async_context(_folder(settings.data_dir, keep))
        fresh = await stack.enter_async_context(sqlite_side(folder / "knowledge"))
        tenants = await tenants_of(parts.log, parts.live, tenant)
        return [await compare_tenant(name, parts, fresh, on_progress) for name in tenants]


async def compare_tenant(
    tenant: str, parts: Parts, fresh: Side, on_progress: OnProgress, *, to_the_end: bool = False
) -> Rebuilt:
    """Replay a tenant's log into a store up to where the live one is, and compare the two; then perhaps all the rest."""
    begun = time.monotonic()
    rebuild = await _rebuild(tenant, parts, fresh, on_progress)

    async def replay(until: Watermarks) -> set[str]:
        return await rebuild.run(tenant, await buried_in(parts.log, parts.live.reader, tenant), until)

    verdict = await verify(tenant, parts.live, fresh, replay)
    if to_the_end:
        await rebuild.run(tenant, await buried_in(parts.log, parts.live.reader, tenant))
    return Rebuilt(tenant, rebuild.tally, time.monotonic() - begun, verdict)


async def replace_store(settings: Settings, now: datetime, on_progress: OnProgress = lambda _: None) -> list[Rebuilt]:
    """Put a store built from the whole log in the place of the present one, which stays beside it. Cortex must be down.

    Nothing is changed until everything is built and on the medium; then two renames. Should the machine stop between
    them, the next start finds no knowledge and makes it from the journal, which only takes longer. Raises FolderInUse,
    InvalidInput (another store than SQLite), DataFolderError, DiskFull.
    """
    if settings.kafka_bootstrap is not None or settings.store != "sqlite":
        raise InvalidInput("only the store of the local runtime is replaced: nobody knows who else writes this one.")
    folder = await asyncio.to_thread(DataFolder.claim, settings.data_dir)
    try:
        lock = await asyncio.to_thread(FileLock.take, folder.path / "ingest.lock")
        try:
            draft = folder.path / DRAFT
            await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
            done = await _build(settings, draft, on_progress)
            await asyncio.to_thread(_swap, folder.path, draft, f"{BEFORE}{now:%Y%m%dT%H%M%S}")
        finally:
            lock.close()
    finally:
        folder.close()
    return done


def drop_old(data_dir: Path) -> list[str]:
    """Delete the stores that were replaced; return their names."""
    old = sorted(path.name for path in data_dir.glob(f"{BEFORE}*") if path.is_dir())
    with translated(data_dir):
        for name in old:
            shutil.rmtree(data_dir / name)
    return old


async def _build(settings: Settings, draft: Path, on_progress: OnProgress) -> list[Rebuilt]:
    async with open_parts(settings) as parts, sqlite_side(draft) as fresh:
        done: list[Rebuilt] = []
        for tenant in await tenants_of(parts.log, parts.live, None):
            begun = time.monotonic()
            rebuild = await _rebuild(tenant, parts, fresh, on_progress)
            await rebuild.run(tenant, await discarded_in(parts.log, tenant))
            await carry_jobs(tenant, parts.live, fresh)
            done.append(Rebuilt(tenant, rebuild.tally, time.monotonic() - begun))
        return done


async def carry_jobs(tenant: str, live: Side, fresh: Side) -> None:
    """Copy what became of a tenant's commands."""
    async with live.reader.snapshot(tenant) as snapshot:
        jobs = await snapshot.jobs(JOBS)
    for job in jobs:
        await fresh.writer.save_job(tenant, job)


async def _rebuild(tenant: str, parts: Parts, fresh: Side, on_progress: OnProgress) -> Rebuild:
    return Rebuild(
        parts.log,
        fresh.writer,
        fresh.reader,
        await parts.embedder_of(tenant),
        lender=parts.live.writer,
        on_progress=lambda events: on_progress(f"{tenant}: {events} events"),
    )


@asynccontextmanager
async def _folder(data_dir: Path, keep: Path | None) -> AsyncIterator[Path]:
    """Give a folder for the rebuilt store: beside the data folder, for the time of the comparison, or one to keep."""
    if keep is not None:
        await asyncio.to_thread(_make_empty, keep)
        yield keep
        return
    made = await asyncio.to_thread(_make_beside, data_dir)
    try:
        yield made
    finally:
        await asyncio.to_thread(shutil.rmtree, made, ignore_errors=True)


def _make_beside(data_dir: Path) -> Path:
    data_dir = data_dir.absolute()
    with translated(data_dir.parent):
        return Path(tempfile.mkdtemp(prefix=f".{data_dir.name}.rebuild-", dir=data_dir.parent))


def _make_empty(folder: Path) -> None:
    with translated(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(f"{folder} has something in it: name a new folder to keep the rebuilt store in.")


def _swap(folder: Path, draft: Path, before: str) -> None:
    with translated(folder):
        draft.mkdir(exist_ok=True)
        for path in (*draft.iterdir(), draft):
            _sync(path)
        (folder / "knowledge").rename(folder / before)
        draft.rename(folder / "knowledge")
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
