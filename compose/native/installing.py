"""Programs that are fetched or built once and kept by version, outside the working tree."""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from compose.local.children import Child, Command
from compose.local.folder import FileLock, translated
from shared.errors import FolderInUse, NotReady, ToolMissing

OnProgress = Callable[[str], None]

LOOK_EVERY_S: Final = 0.5
LOG_SHOWN: Final = 800  # characters of a log's end in an error: the reason stands in its last lines
LINES_SHOWN: Final = 3
LINE_SHOWN: Final = 300
ERROR: Final = re.compile(r"\b(?:ERROR|FATAL|\w*Exception)\b")


def cache_folder() -> Path:
    """Return the folder of what is kept between runs: ``CORTEX_CACHE_DIR``, else ``cortex`` in the user's cache folder."""
    own = os.environ.get("CORTEX_CACHE_DIR")
    if own:
        return Path(own).absolute()
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache").absolute() / "cortex"


async def installed(name: str, make: Callable[[Path], Awaitable[None]], limit_s: float) -> Path:
    """Return the folder ``name`` of the cache; where it is missing, ``make`` fills one that then takes its place.

    It is there wholly or not at all. Of several processes one does the work, the others wait for it, all for at most
    ``limit_s``. Raises NotReady, ToolMissing or DataFolderError.
    """
    root = cache_folder()
    target = root / name
    if target.is_dir():
        return target
    with translated(root):
        root.mkdir(parents=True, exist_ok=True)
    try:
        async with asyncio.timeout(limit_s), _lock(root / f".{name}.lock"):
            if not target.is_dir():
                await _make(target, make)
    except TimeoutError as error:
        raise NotReady(f"{name} was not installed within {limit_s:g} s.") from error
    return target


async def _make(target: Path, make: Callable[[Path], Awaitable[None]]) -> None:
    draft = await asyncio.to_thread(_new_draft, target)
    try:
        await make(draft)
        await asyncio.to_thread(_settle, draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _new_draft(target: Path) -> Path:
    """Make an empty folder beside the target; those of runs that were killed go. The caller holds the lock."""
    with translated(target.parent):
        for left in target.parent.glob(f".{target.name}.*/"):
            shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))


def _settle(draft: Path, target: Path) -> None:
    with translated(target.parent):
        draft.chmod(0o755)  # a temporary folder is its owner's alone; programs are no secret
        draft.replace(target)


@asynccontextmanager
async def _lock(path: Path) -> AsyncIterator[None]:
    while True:
        try:
            lock = FileLock.take(path)
        except FolderInUse:
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        break
    try:
        yield
    finally:
        lock.close()


def tool(program: str, remedy: str) -> str:
    """Return where a program is. Raises ToolMissing, which says how it is installed."""
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(f"{program} is not installed: {remedy}.")
    return found


async def run(command: Command, log: Path) -> None:
    """Run a command to its end. Raises NotReady with the end of what it wrote; cancelled, it ends the command."""
    with log.open("ab") as file:
        child = await Child.start(command, output=file.fileno(), errors=file.fileno())
        try:
            code = await child.wait()
        except asyncio.CancelledError:
            child.kill()
            await child.wait()
            raise
    if code:
        raise NotReady(f"{command.name} failed with code {code}: {end_of(log)}")


def end_of(log: Path) -> str:
    """Return a log's first lines that name an error, and its end; short enough for an error of ours."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it wrote no log"
    named = [line[:LINE_SHOWN] for line in text.splitlines() if ERROR.search(line)][:LINES_SHOWN]
    return "\n".join([*named, text.strip()[-LOG_SHOWN:]]) or "it wrote nothing"
