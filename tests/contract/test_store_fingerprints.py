"""Each thing that a store knows has a fingerprint, the same in every store, and a part's digest is over them."""

import pytest

from shared.fingerprints import PARTS, part_digest
from shared.store import FoundContradiction
from tests.contract.knowledge_events import (
    NOW,
    TENANT,
    asserted,
    completed,
    entity,
    entity_gone,
    parts,
    place,
    relation,
    retracted,
    unit,
)

pytestmark = pytest.mark.anyio

EVENTS = [
    asserted(unit("a", "The retry limit is 5.", revision=1)),
    asserted(unit("a", "The retry limit is 6.", revision=2)),
    asserted(unit("b", "The Payments Client retries.")),
    asserted(unit("gone", "This is withdrawn.", revision=1)),
    retracted("gone", 7),
    *parts("D", 1, ["alpha"]),
    completed("D", 1, ["alpha"]),
    *parts("D", 2, ["beta"]),
    entity("core", "team", "Core"),
    entity("old", "team", "Old", revision=1),
    entity_gone("old", 2),
    relation("alice", "member_of", "core"),
]


async def fill(store) -> None:
    await store.apply(*EVENTS)
    pair = FoundContradiction(("a", "b"), (2, 3), "number", "5 ≠ 6", "retry limit", 0.9)
    await store.writer.record_contradictions(TENANT, place(20), NOW, ("a", "b"), [pair])


async def test_every_part_names_its_things(store):
    await fill(store)
    found = {part: set(await store.writer.fingerprints(TENANT, part)) for part in PARTS}
    documents = found.pop("documents")
    mentions = found.pop("mentions")
    assert found == {
        "units": {"a", "b", "D#0"}, "history": {"a"}, "tombstones": {"gone"}, "entities": {"core", "old"},
        "relations": set(await store.writer.fingerprints(TENANT, "relations")), "contradictions": {"a~b"},
    }  # fmt: skip
    assert len(found["relations"]) == 1
    assert "b" in mentions
    assert {identity.partition(" ")[0] for identity in documents} == {"current", "completion", "waiting"}


async def test_a_digest_is_over_the_fingerprints_of_its_part(store):
    await fill(store)
    digest = await store.writer.digest(TENANT)
    assert digest == {part: part_digest(await store.writer.fingerprints(TENANT, part)) for part in PARTS}
    assert len(set(digest.values())) == len(PARTS)


async def test_one_change_changes_one_fingerprint(store):
    await fill(store)
    before = {part: await store.writer.fingerprints(TENANT, part) for part in PARTS}
    await store.apply(asserted(unit("b", "The Ledger retries.")))
    after = {part: await store.writer.fingerprints(TENANT, part) for part in PARTS}
    changed = {(part, one) for part in PARTS for one in after[part] if after[part][one] != before[part].get(one)}
    assert changed >= {("units", "b"), ("history", "b")}
    assert {one for _, one in changed} == {"b"}
    assert set(after["contradictions"]) == set()  # b's compared revision does not stand any more


async def test_a_tenant_that_nobody_knows_has_none(store):
    assert [await store.writer.fingerprints("nobody", part) for part in PARTS] == [{}] * len(PARTS)
