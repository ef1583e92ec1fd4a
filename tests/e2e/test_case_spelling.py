"""Spelling: variants that are one thing, said again and again, and look-alikes that are not."""

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SAID = {
    "e1": "System Admin resets passwords.",
    "e2": "We know that system admin approves VPN access.",
    "e3": "SystemAdmin rotates keys.",
    "e4": "System-Admin owns the runbook.",
}


def test_spelling_variants_are_one_entity_and_repeats_add_provenance_not_facts(tenant):
    """Case C03: twenty repeats with new ids are eighty statements of four facts."""
    tenant.tell(
        tenant.entity("sys-admin", "topic", "System Admin"), *(tenant.unit(key, text) for key, text in SAID.items())
    )
    repeats = [
        tenant.unit(f"{key}-{turn}", text, source=f"urn:repeat:{turn}")
        for turn in range(20)
        for key, text in SAID.items()
    ]
    tenant.tell(*repeats)
    tenant.eventually(lambda: tenant.about("System Admin"), "the graph has them")
    for spelling in ("system admin", "SystemAdmin", "System-Admin"):
        assert tenant.about(spelling) == tenant.about("System Admin"), spelling
    assert len([one for one in tenant.entities("system admin")["entities"] if one["id"] == "sys-admin"]) == 1
    answer = tenant.ask("what does the system admin do?", limit=10)
    texts = [result["text"] for result in answer["results"]]
    assert len(texts) == len(set(texts)), "a repeat is not another result"
    keys = next(result for result in answer["results"] if result["text"] == SAID["e3"])
    assert keys["corroborations"] == 21


def test_width_case_and_sharp_s_are_found_and_look_alikes_are_kept_apart(tenant):
    """Case C44."""
    tenant.tell(
        tenant.entity("real", "system", "paypal.com"),
        tenant.unit("e1", "ＡＰＩ－４２ の上限は１００件"),
        tenant.unit("e2", "API-42 limit is 100 records."),
        tenant.unit("e3", "Straße and STRASSE"),
        tenant.unit("e4", "İstanbul office opened"),
        tenant.unit("e5", "раypal.com (Cyrillic р, а) is blocked"),
    )
    tenant.eventually(lambda: tenant.about("API-42") == {"e1", "e2"}, "both widths are one entity")
    assert set(tenant.found("API-42")[:2]) == {"e1", "e2"}
    assert tenant.found("strasse")[0] == "e3"
    assert tenant.found("istanbul")[0] == "e4"
    assert "e5" not in tenant.about("paypal.com")
