"""``cortex backup`` and ``cortex restore``."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from compose.cli import exits
from compose.cli.read_settings import read_settings
from compose.local.backup import VERSION, Manifest, make_backup, restore_backup
from compose.local.folder import read_version
from shared.errors import InvalidInput


def run_backup(target: str, *, data_dir: str, as_json: bool) -> int:
    """Make a backup. Raises InvalidInput where Kafka is the log and the folder holds nothing of it."""
    if read_settings({}).kafka_bootstrap is not None and read_version(Path(data_dir) / VERSION) is None:
        raise InvalidInput(f"The log is Kafka, of which {data_dir} holds nothing. Keep its events with: cortex export")
    begun = time.monotonic()
    manifest = make_backup(Path(data_dir), Path(target), datetime.now(UTC), _progress(quiet=as_json))
    _tell(manifest, target, "kept", time.monotonic() - begun, as_json=as_json)
    return exits.OK


def run_restore(source: str, *, data_dir: str, as_json: bool) -> int:
    """Restore a backup into a new folder."""
    begun = time.monotonic()
    manifest = restore_backup(Path(source), Path(data_dir), _progress(quiet=as_json))
    _tell(manifest, data_dir, "restored", time.monotonic() - begun, as_json=as_json)
    if not as_json:
        print(f"start it with: cortex up --data-dir {data_dir}")
    return exits.OK


def _progress(*, quiet: bool) -> Callable[[str], None]:
    def tell(what: str) -> None:
        if not quiet:
            sys.stderr.write(f"· {what}\n")

    return tell


def _tell(manifest: Manifest, place: str, done: str, seconds: float, *, as_json: bool) -> None:
    if as_json:
        print(manifest.model_dump_json())
        return
    tenants = sum(name.startswith("knowledge/") for name in manifest.files)
    print(
        f"{done} in {place}: {manifest.events} events, {tenants} tenants, {manifest.bytes / 1e6:.1f} MB, {seconds:.1f} s"
    )
