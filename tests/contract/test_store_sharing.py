"""Which units share an entity, and which version of them: what a check between units is made with."""

import pytest

from tests.contract.knowledge_events import TENANT, asserted, retracted, unit

pytestmark = pytest.mark.anyio


async def shared_by(store, *keys, limit=10):
    """Return the units of any of the keys with their versions."""
    async with store.reader.snapshot(TENANT) as snapshot:
        (found,) = await snapshot.sharing([keys], limit)
    return {one.unit_id: one.version for one in found}


async def test_units_of_any_key_come_newest_first_whether_about_it_or_naming_it(store):
    await store.apply(
        asserted(unit("old", "It retries.", title="Payments Client", occurred_at="2024-01-01")),
        asserted(unit("tie-b", "They use Payments Client daily.", occurred_at="2025-01-01")),
        asserted(unit("tie-a", "They asked Payments Client and Orders Client.", occurred_at="2025-01-01")),
        asserted(unit("new", "They use Orders Client weekly.", occurred_at="2026-01-01")),
        asserted(unit("other", "They use Billing Client.", occurred_at="2026-02-01")),
    )
    assert list(await shared_by(store, "paymentsclient", "ordersclient")) == ["new", "tie-a", "tie-b", "old"]
    assert list(await shared_by(store, "paymentsclient", "ordersclient", limit=2)) == ["new", "tie-a"]
    assert list(await shared_by(store, "paymentsclient")) == ["tie-a", "tie-b", "old"]
    assert await shared_by(store, "nobody") == {}
    assert await shared_by(store) == {}


async def test_neither_scopes_nor_times_of_holding_leave_a_unit_out(store):
    await store.apply(
        asserted(unit("mine", "Payments Client is slow.", scope="personal/ann")),
        asserted(unit("later", "Payments Client is fast.", valid_from="2500-01-01")),
        asserted(unit("ended", "Payments Client is new.", valid_until="2001-01-01")),
        asserted(unit("next", "Payments Client is old.", supersedes="mine")),
    )
    assert set(await shared_by(store, "paymentsclient")) == {"mine", "later", "ended", "next"}


async def test_a_version_changes_with_what_is_said_and_with_nothing_else(store):
    await store.apply(asserted(unit("u", "Payments Client retries.", revision=1)))
    one = await shared_by(store, "paymentsclient")
    await store.apply(asserted(unit("v", "Payments Client waits.")))
    await store.again(1)
    assert (await shared_by(store, "paymentsclient"))["u"] == one["u"]
    await store.apply(asserted(unit("u", "Payments Client retries twice.", revision=2)))
    two = await shared_by(store, "paymentsclient")
    assert two["u"] != one["u"]
    assert two["v"] != two["u"]
    await store.apply(retracted("u", revision=3))
    assert set(await shared_by(store, "paymentsclient")) == {"v"}


async def test_another_text_of_the_same_revision_is_another_version(store):
    texts = [f"Payments Client retries {number} times." for number in range(8)]
    seen = {}
    for text in texts:  # the one with the highest digest stands, in whatever order they come
        await store.apply(asserted(unit("u", text, revision=1)))
        async with store.reader.snapshot(TENANT) as snapshot:
            ((found,),) = await snapshot.sharing([["paymentsclient"]], 1)
            standing = (await snapshot.units(["u"]))["u"].known.unit.text
        assert seen.setdefault(found.version, standing) == standing
    assert len(seen) > 1
