"""``cortex migrate``: another store built from the log beside the one that serves, compared with it, ready to take over.

The log is what both are made of. Where it no longer holds what the serving store was made from, the comparison says so:
the units that only the old store has are named, and nothing has been switched.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack

from compose.moving.parts import Parts, open_parts, open_side, tenants_of
from compose.moving.rebuilding import Rebuilt, carry_jobs, compare_tenant
from ingest.verify import Side
from shared.errors import InvalidInput
from shared.settings import Settings


async def migrate_store(
    settings: Settings, to: str, *, tenant: str | None = None, on_progress: Callable[[str], None] = lambda _: None
) -> list[Rebuilt]:
    """Bring the other store up to the serving one, compare every part, then take in what the log has beyond that.

    Done again it goes on from the other store's watermarks: so what came in until ingest was ended is moved as well. What
    ingest has had in hand it hands to the new store again, where that changes nothing. Raises InvalidInput (it is the
    store that serves, or an index of another embedding model), StoreUnavailable, LogUnavailable, EmbedderUnavailable,
    DiskFull.
    """
    if to == settings.store:
        raise InvalidInput(f"the store is {to} already: CORTEX_STORE names the one that serves.")
    other = settings.model_copy(update={"store": to})
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        target = await stack.enter_async_context(open_side(other))
        tenants = await tenants_of(parts.log, parts.live, tenant)
        for name in tenants:
            await _check_models(name, parts.live, target)
        return [await _migrate(name, parts, target, on_progress) for name in tenants]


async def _check_models(tenant: str, live: Side, target: Side) -> None:
    """Refuse a target that was left behind before the model was changed: no event would fit into its index."""
    searched = [known[0].name for side in (live, target) if (known := await side.writer.models(tenant))]
    if len(set(searched)) > 1:
        raise InvalidInput(
            f"what the other store has of tenant {tenant!r} is indexed by {searched[1]}, what serves by {searched[0]}: "
            "change the model of one of them (cortex model change), or put the other store's data away."
        )


async def _migrate(tenant: str, parts: Parts, target: Side, on_progress: Callable[[str], None]) -> Rebuilt:
    compared = await compare_tenant(tenant, parts, target, on_progress, to_the_end=True)
    await carry_jobs(tenant, parts.live, target)
    return compared
