"""Documents: every part is kept, and a new version leaves nothing of the old one behind."""

import random

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def sections(count, *, of="manual", edited=()):
    """Write sections, each with a marker of its own; edited ones say something new beside it."""
    return [
        f"Section {n} of the {of}. Its marker is MARK-{n:02d}. "
        + (f"It was rewritten and is about harbour seals now, {n}." if n in edited else f"It is about valve {n}.")
        for n in range(1, count + 1)
    ]


def marked(tenant, count):
    """Search each marker; give, by number, the unit that is found first and really holds it."""
    found = {}
    for n in range(1, count + 1):
        marker = f"MARK-{n:02d}"
        holding = [(place, one) for place, one in enumerate(tenant.search(marker)) if marker in one["text"]]
        assert len(holding) < 2, f"{marker} is found once"
        if holding:
            assert holding[0][0] == 0, f"the section of {marker} comes first"
            found[n] = holding[0][1]
    return found


def counted(tenant):
    return tenant.status()["counts"]


def test_forty_sections_are_all_found_and_a_version_of_six_leaves_no_tail(tenant, shared_product):
    """Case C14."""
    tenant.tell(*tenant.document("manual", 1, sections(40)))
    assert set(marked(tenant, 40)) == set(range(1, 41))
    assert counted(tenant)["units"] == 40

    second = tenant.document("manual", 2, sections(6, edited={3}))
    tenant.tell(*second)
    found = marked(tenant, 40)
    assert set(found) == set(range(1, 7))
    assert "harbour seals" in found[3]["text"]
    assert not any("valve 3." in one["text"] for one in tenant.search("valve 3"))
    assert tenant.get("/v1/units/manual/39").status_code == 404

    fresh = type(tenant)(shared_product, f"{tenant.name}-fresh")
    fresh.tell(*fresh.document("manual", 2, sections(6, edited={3})))
    tenant.eventually(lambda: counted(tenant) == counted(fresh), "all counts are those of a fresh index of version 2")
    before = tenant.status()
    assert all(one["duplicate"] for one in tenant.publish(*second))
    tenant.tell(*({**event, "id": f"again-{event['id']}"} for event in second))
    assert counted(tenant) == before["counts"]
    assert {n: one["unit_id"] for n, one in marked(tenant, 8).items()} == {n: found[n]["unit_id"] for n in found}


def test_until_the_new_version_is_whole_the_old_one_answers(tenant):
    """Case C14, the kind: half a version is never seen, whatever its parts say."""
    tenant.tell(*tenant.document("manual", 1, sections(3)))
    *parts, completion = tenant.document("manual", 2, sections(3, edited={1, 2, 3}))
    tenant.tell(*parts[:2], completion)
    assert counted(tenant)["units"] == 3
    assert not any("harbour seals" in one["text"] for one in tenant.search("harbour seals"))
    assert set(marked(tenant, 3)) == {1, 2, 3}
    tenant.tell(parts[2])
    assert sum("harbour seals" in one["text"] for one in tenant.search("harbour seals")) == 3
    assert not any("valve" in one["text"] for one in tenant.search("valve"))


@pytest.mark.parametrize("seed", range(3))
def test_the_order_in_which_parts_and_versions_arrive_does_not_matter(tenant, seed):
    """Case C14, the kind: three versions shuffled, some events twice; the third stands."""
    versions = [
        tenant.document("manual", n, texts)
        for n, texts in enumerate((sections(5), sections(9), sections(4, edited={2})))
    ]
    events = [event for version in versions for event in version]
    random.Random(seed).shuffle(events)
    tenant.tell(*events, *events[::3])
    assert set(marked(tenant, 9)) == {1, 2, 3, 4}
    assert counted(tenant) == counted(tenant) | {"units": 4, "passages": 4, "documents": 1}


def test_a_late_old_version_changes_nothing(tenant):
    """Case C14, the kind."""
    tenant.tell(*tenant.document("manual", 7, sections(2, edited={1})))
    tenant.tell(*tenant.document("manual", 6, sections(5)))
    assert set(marked(tenant, 5)) == {1, 2}
    assert counted(tenant)["units"] == 2


def test_equal_sections_are_kept_each_and_documents_do_not_overwrite_each_other(tenant):
    """Case C14, the kind: parts of the same text, and two documents with the same sections."""
    texts = ["Wear a helmet.", "Wear a helmet.", "Check the valve.", "Wear a helmet."]
    tenant.tell(*tenant.document("a", 1, texts), *tenant.document("b", 1, texts))
    assert counted(tenant) == counted(tenant) | {"units": 8, "documents": 2, "passages": 2}
    said = {unit_id for unit_id in tenant.found("wear a helmet") if unit_id[-1] != "2"}
    assert said == {f"{document}/{part}" for document in "ab" for part in (0, 1, 3)}
    tenant.tell(*tenant.document("a", 2, ["Check the valve."]))
    assert set(tenant.found("wear a helmet or check the valve")) == {"a/0", "b/0", "b/1", "b/2", "b/3"}


def test_a_document_that_shrinks_to_nothing_and_comes_back(tenant):
    """Case C14, the kind: no parts retract it, and an older version does not revive it."""
    tenant.tell(*tenant.document("manual", 1, sections(4)))
    tenant.tell(tenant.completion("manual", 2, []))
    assert counted(tenant)["units"] == 0
    assert marked(tenant, 4) == {}
    tenant.tell(*({**event, "id": f"again-{event['id']}"} for event in tenant.document("manual", 1, sections(4))))
    assert counted(tenant)["units"] == 0
    tenant.tell(*tenant.document("manual", 3, sections(2)))
    assert set(marked(tenant, 4)) == {1, 2}


def test_a_long_section_is_found_by_its_last_sentence(tenant):
    """Case C14, the kind: no part of a part is lost to the embedder's window either."""
    filler = "The corridor is painted in a calm colour and leads past the archive. " * 60
    tenant.tell(*tenant.document("manual", 1, [f"{filler}The spare key hangs behind the walrus portrait."]))
    assert tenant.found("Where does the spare key hang?") == ["manual/0"]


def test_a_completion_that_does_not_match_its_parts_never_becomes_the_version(tenant):
    """Case C14, the kind: a wrong hash is a broken upload, and the old version goes on answering."""
    tenant.tell(*tenant.document("manual", 1, sections(2)))
    *parts, _ = tenant.document("manual", 2, sections(2, edited={1, 2}))
    tenant.tell(*parts, tenant.completion("manual", 2, ["another text", "altogether"]))
    assert counted(tenant)["units"] == 2
    assert not any("harbour seals" in one["text"] for one in tenant.search("harbour seals"))
