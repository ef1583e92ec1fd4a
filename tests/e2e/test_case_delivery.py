"""Delivery: the same event again changes nothing, and the same fact said again is corroboration."""

import json

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

FREEZE = "Deploy freeze starts Friday."
QUESTION = "When does the deploy freeze start?"


def told(tenant, question=QUESTION, text=FREEZE):
    """Give the one result that says a text, however it is spelt."""
    folded = " ".join(text.casefold().split())
    results = [one for one in tenant.search(question) if " ".join(one["text"].casefold().split()) == folded]
    assert len(results) == 1, "one text is one result"
    return results[0]


def state_of(tenant, unit_id):
    return tenant.get(f"/v1/units/{unit_id}").json()["state"]


def test_one_event_delivered_three_times_and_said_again_by_another_source(tenant):
    """Case C10, without its webhook."""
    event = tenant.unit("e1", FREEZE, source="urn:chat")
    accepted = [tenant.publish(event)[0] for _ in range(3)]
    assert [one["duplicate"] for one in accepted] == [False, True, True]
    assert len({one["token"] for one in accepted}) == 1, "a redelivery has the place of the first"
    tenant.wait_state(event["id"], "stored", "urn:chat")
    assert told(tenant)["corroborations"] == 1
    assert tenant.units() == 1

    tenant.tell(tenant.unit("e2", FREEZE, source="urn:wiki"))
    result = told(tenant)
    assert {result["unit_id"], *result["also"]} == {"e1", "e2"}
    assert result["corroborations"] == 2
    assert state_of(tenant, "e1")["corroborations"] == state_of(tenant, "e2")["corroborations"] == 2
    assert tenant.status()["counts"]["passages"] == 1, "one text is kept once"
    context = tenant.ask(QUESTION)["context"]
    assert context.count(FREEZE) == 1
    assert "2 sources" in context


def test_a_document_delivered_again_is_indexed_once(tenant):
    """Case C10: redelivered with the same ids, and sent again under new ids with unchanged content."""
    texts = ["The freeze covers the ledger.", "The freeze does not cover the website."]
    document = tenant.document("handbook", 1, texts)
    tenant.tell(*document)
    before = tenant.status()["counts"]
    assert all(one["duplicate"] for one in tenant.publish(*document))
    tenant.tell(*({**event, "id": f"again-{event['id']}"} for event in document))
    assert tenant.status()["counts"] == before
    assert (before["units"], before["passages"], before["documents"]) == (2, 2, 1)
    assert told(tenant, "Does the freeze cover the ledger?", texts[0])["corroborations"] == 1


def test_both_doors_know_the_same_event(tenant):
    """Case C10, the kind: published over HTTP and three times over Kafka, in one batch twice, it is one unit."""
    event = tenant.unit("e1", FREEZE)
    body = json.dumps(event).encode()
    tenant.produce(body, body)
    tenant.wait_state("e1-0", "stored")
    first = state_of(tenant, "e1")
    assert [one["duplicate"] for one in tenant.publish(event, event)] == [True, True]
    tenant.produce(body, json.dumps(tenant.unit("last", "The freeze ends on Monday.")).encode(), key=b"k", partition=0)
    tenant.wait_state("last-0", "stored")
    assert state_of(tenant, "e1") == first, "the revision, the time of recording and the position are the first's"
    assert tenant.units() == 2


def test_one_batch_that_holds_an_event_twice_keeps_it_once(tenant):
    """Case C10, the kind."""
    accepted = tenant.tell(*[tenant.unit("e1", FREEZE)] * 5)
    assert [one["duplicate"] for one in accepted] == [False, True, True, True, True]
    assert tenant.units() == 1


@pytest.mark.parametrize(
    "again", ["deploy freeze  starts friday.", "Ｄeploy freeze starts Friday.", " Deploy freeze\nstarts Friday. "]
)
def test_case_width_and_white_space_do_not_make_another_fact(tenant, again):
    """Case C10, the kind: the same words otherwise set are the same text."""
    tenant.tell(tenant.unit("e1", FREEZE, source="urn:chat"), tenant.unit("e2", again, source="urn:wiki"))
    assert state_of(tenant, "e1")["corroborations"] == 2
    (result,) = tenant.search(QUESTION)
    assert {result["unit_id"], *result["also"]} == {"e1", "e2"}


@pytest.mark.parametrize(
    "other",
    ["Deploy freeze starts Monday.", "Deploy freeze does not start Friday.", "Deploy freeze v2 starts Friday."],
)
def test_a_text_that_differs_in_what_matters_is_no_corroboration(tenant, other):
    """Case C10, the kind turned round: a date, a negation, an identifier."""
    tenant.tell(tenant.unit("e1", FREEZE, source="urn:chat"), tenant.unit("e2", other, source="urn:wiki"))
    assert {one["unit_id"]: one["corroborations"] for one in tenant.search(QUESTION)} == {"e1": 1, "e2": 1}


def test_the_same_source_saying_it_often_is_one_source(tenant):
    """Case C10, the kind: twenty units of one source corroborate nothing."""
    tenant.tell(*(tenant.unit(f"e{number}", FREEZE, source="urn:chat") for number in range(20)))
    assert told(tenant)["corroborations"] == 1


def test_what_is_retracted_corroborates_no_longer_and_redelivery_does_not_bring_it_back(tenant):
    """Case C10, the kind: the count is derived from live units, and a tombstone outlives a redelivery."""
    first, second = tenant.unit("e1", FREEZE, source="urn:chat"), tenant.unit("e2", FREEZE, source="urn:wiki")
    tenant.tell(first, second)
    deleted = tenant.product.http.delete("/v1/units/e2", params={"tenant": tenant.name})
    assert deleted.status_code == 202
    tenant.eventually(lambda: tenant.get("/v1/units/e2").status_code == 404, "it is gone")
    assert tenant.publish(second)[0]["duplicate"]
    tenant.produce(
        json.dumps(second).encode(), json.dumps(tenant.unit("last", "Other.")).encode(), key=b"k", partition=0
    )
    tenant.wait_state("last-0", "stored")
    result = told(tenant)
    assert (result["unit_id"], result["also"], result["corroborations"]) == ("e1", [], 1)


def test_two_scopes_do_not_corroborate_each_other(tenant):
    """Case C10, the kind: what one team reads is not proved by what it cannot read."""
    tenant.tell(
        tenant.unit("e1", FREEZE, source="urn:chat", scope="personal/ana"),
        tenant.unit("e2", FREEZE, source="urn:wiki", scope="personal/ben"),
    )
    assert state_of(tenant, "e1")["corroborations"] == 1
    (result,) = tenant.search(QUESTION, principal="ana")
    assert (result["unit_id"], result["also"], result["corroborations"]) == ("e1", [], 1)
