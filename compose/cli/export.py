"""``cortex export`` and ``cortex import``."""

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from compose.cli import exits
from compose.cli.progress_line import ProgressLine
from compose.cli.read_settings import read_settings
from compose.local.folder import release
from compose.moving.exporting import export_events
from compose.moving.importing import Imported, check_export, import_events, imports_in, read_tenant_map
from compose.moving.manifest import ExportManifest
from compose.moving.parts import open_log
from shared.settings import Settings


def run_export(target: str, *, tenant: str | None, data_dir: str, as_json: bool) -> int:
    """Export the log."""
    settings = read_settings({"data_dir": Path(data_dir)})
    begun = time.monotonic()
    line = ProgressLine(quiet=as_json)
    manifest = asyncio.run(_export(settings, Path(target), tenant, line))
    line.clear()
    if as_json:
        print(manifest.model_dump_json())
        return exits.OK
    size = sum(file.bytes for file in manifest.files.values()) / 1e6
    print(
        f"{target} holds {manifest.events} events of {len(manifest.tenants)} tenants in {len(manifest.files)} files, "
        f"{size:.1f} MB, {time.monotonic() - begun:.1f} s"
    )
    return exits.OK


def run_import(source: str, *, tenant_map: tuple[str, ...], data_dir: str, as_json: bool) -> int:
    """Import an export."""
    settings = read_settings({"data_dir": Path(data_dir)})
    tenants = read_tenant_map(tenant_map)
    line = ProgressLine(quiet=as_json)
    done = asyncio.run(_import(settings, Path(source), tenants, line))
    line.clear()
    if as_json:
        print(json.dumps(vars(done)))
        return exits.OK
    print(f"{done.events} events taken in, {done.duplicates} were there before")
    if done.resumed:
        print(f"went on after {done.resumed} that an earlier run had done")
    if done.discarded:
        print(f"{done.discarded} left out, as somebody has discarded them")
    if done.refused_count:
        print(f"{done.refused_count} cannot be read, as where they come from:")
        for words in done.refused:
            print(f"  {words}")
    print("a Cortex that runs takes them in now: cortex status shows what waits")
    return exits.OK


async def _export(settings: Settings, target: Path, tenant: str | None, line: ProgressLine) -> ExportManifest:
    async with open_log(settings) as log:
        return await export_events(
            log,
            target,
            tenant=tenant,
            release=release(),
            now=datetime.now(UTC),
            on_progress=lambda count: line.tell(f"{count} events written"),
        )


async def _import(settings: Settings, source: Path, tenants: dict[str, str], line: ProgressLine) -> Imported:
    checked = await asyncio.to_thread(check_export, source, lambda count: line.tell(f"{count} events checked"))
    async with open_log(settings) as log:
        return await import_events(
            log,
            checked,
            imports_in(settings.data_dir),
            tenants=tenants,
            on_progress=lambda count: line.tell(f"{count} events taken in"),
        )
