"""``cortex rebuild`` and ``cortex migrate``."""

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from compose.cli import exits
from compose.cli.progress_line import ProgressLine
from compose.cli.read_settings import read_settings
from compose.moving.rebuilding import Rebuilt, drop_old, replace_store, verify_store
from ingest.verify import Difference
from shared.errors import InvalidInput

NICENESS: Final = 10  # beside a Cortex that serves, questions go first
MENDED_SHOWN: Final = 10


def run_rebuild(
    *, verify: bool, replace: bool, drop_old: bool, keep: str | None, tenant: str | None, data_dir: str, as_json: bool
) -> int:
    """Verify, replace, or delete what was replaced."""
    if verify and replace:
        raise InvalidInput("--verify and --replace are two things: verify while Cortex runs, replace while it is down.")
    if not (verify or replace or drop_old):
        raise InvalidInput("say what to do with the rebuilt store: --verify, --replace or --drop-old.")
    if not verify and keep is not None:
        raise InvalidInput("--keep goes with --verify: a store that is replaced is kept anyway.")
    if replace and tenant is not None:
        raise InvalidInput("--replace takes every tenant: all of them are in the folder that is replaced.")
    settings = read_settings({"data_dir": Path(data_dir)})
    line = ProgressLine(quiet=as_json)
    code = exits.OK
    if verify:
        os.nice(NICENESS)
        kept = None if keep is None else Path(keep)
        rebuilt = asyncio.run(verify_store(settings, tenant=tenant, keep=kept, on_progress=line.tell))
        line.clear()
        code = tell_rebuilt(rebuilt, "rebuilt", as_json=as_json)
    elif replace:
        rebuilt = asyncio.run(replace_store(settings, datetime.now(UTC), line.tell))
        line.clear()
        code = tell_rebuilt(rebuilt, "rebuilt", as_json=as_json)
    if drop_old:
        _drop_old(Path(data_dir), as_json=as_json)
    return code


def run_migrate(to: str, *, tenant: str | None, data_dir: str, as_json: bool) -> int:
    """Build the other store and compare."""
    from compose.moving.migrating import migrate_store  # noqa: PLC0415 - as wanted

    settings = read_settings({"data_dir": Path(data_dir)})
    os.nice(NICENESS)
    line = ProgressLine(quiet=as_json)
    migrated = asyncio.run(migrate_store(settings, to, tenant=tenant, on_progress=line.tell))
    line.clear()
    code = tell_rebuilt(migrated, to, as_json=as_json)
    if not as_json and code == exits.OK:
        print(
            f"\nto switch: 1. end every ingest process; 2. cortex migrate --to {to} once more, which takes what came since;\n"
            f"3. start ingest and query with CORTEX_STORE={to}. The present store is left as it is."
        )
    return code


def tell_rebuilt(rebuilt: Sequence[Rebuilt], name: str, *, as_json: bool) -> int:
    """Tell what came of it; return the exit code."""
    differing = sum(one.verdict.differing for one in rebuilt if one.verdict is not None)
    code = exits.DIFFERENT if differing else exits.OK
    if as_json:
        print(json.dumps({"equal": not differing, "tenants": [_as_json(one) for one in rebuilt]}))
        return code
    for one in rebuilt:
        _tell_one(one, name)
    if not rebuilt:
        print("no tenant has anything")
    return code


def _tell_one(one: Rebuilt, name: str) -> None:
    tally = one.tally
    print(
        f"{one.tenant}: {tally.events} events in {one.seconds:.1f} s ({one.rate:.0f} a second); "
        f"{tally.borrowed} texts' vectors borrowed, {tally.computed} computed"
    )
    if tally.failed:
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(tally.failed.items()))
        print(f"  without effect, as they cannot be used: {causes}")
    if tally.mended:
        print(f"  left out, as the live store buried them; they would succeed now: {len(tally.mended)}")
        for event in tally.mended[:MENDED_SHOWN]:
            print(f"    {event}")
    if one.verdict is None:
        return
    for part, compared in one.verdict.parts.items():
        state = "equal" if not compared.differing else f"{compared.differing} DIFFER"
        print(f"  {part:<15} {compared.things:>9}  {compared.live[:12]}  {state}")
    for difference in one.verdict.differences:
        _tell_difference(difference, name)
    if not one.verdict.settled:
        print(f"  the live store was written all the time: told is what differed in each of {one.verdict.rounds} looks")
    if one.verdict.moving:
        print(
            f"  not judged, as events told of them during each look: {one.verdict.moving}; verify again when it is quieter"
        )


def _tell_difference(difference: Difference, name: str) -> None:
    print(f"  {difference.part}: {difference.identity}")
    print(f"    {'live':<9} {difference.live or 'not there'}")
    print(f"    {name:<9} {difference.rebuilt or 'not there'}")


def _as_json(one: Rebuilt) -> dict[str, Any]:
    tally = one.tally
    said: dict[str, Any] = {
        "tenant": one.tenant,
        "events": tally.events,
        "seconds": round(one.seconds, 3),
        "events_per_s": round(one.rate, 1),
        "vectors": {"borrowed": tally.borrowed, "computed": tally.computed},
        "failed": dict(tally.failed),
        "mended": tally.mended,
    }
    if one.verdict is not None:
        verdict = one.verdict
        said |= {
            "equal": not verdict.differing,
            "settled": verdict.settled,
            "rounds": verdict.rounds,
            "moving": verdict.moving,
            "watermarks": {f"{topic}/{partition}": n for (topic, partition), n in sorted(verdict.watermarks.items())},
            "parts": {part: vars(compared) for part, compared in verdict.parts.items()},
            "differences": [vars(difference) for difference in verdict.differences],
        }
    return said


def _drop_old(data_dir: Path, *, as_json: bool) -> None:
    for name in drop_old(data_dir):
        if not as_json:
            print(f"deleted {name}")
