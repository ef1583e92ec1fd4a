"""The live feed of a running Cortex: from an accepted event to whoever listens, and nobody else."""

import json
from contextlib import contextmanager

import pytest
from httpx_sse import connect_sse

from tests.e2e.tenant import SCOPE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


class Listener:
    """The events of one feed."""

    def __init__(self, events):
        self._events = events
        self.last_id = None

    def next(self):
        event = next(self._events)
        self.last_id = event.id or self.last_id
        return event.event, json.loads(event.data)

    def after(self, kind):
        """Return the next event of another kind: what was searchable before the listener came may be told after."""
        while (event := self.next())[0] == kind:
            pass
        return event


@contextmanager
def listening(tenant, *, last_id=None, **parameters):
    headers = {"Cortex-Tenant": tenant.name, **({"Last-Event-ID": last_id} if last_id else {})}
    with connect_sse(tenant.product.http, "GET", "/v1/feed", params=parameters, headers=headers) as source:
        listener = Listener(source.iter_sse())
        kind, opened = listener.next()
        assert (kind, opened["live"]) == ("open", True)
        yield listener


def test_a_unit_is_told_when_it_comes_changes_and_goes(tenant):
    with listening(tenant) as feed:
        tenant.publish(tenant.unit("u", "The pier lamp is green.", revision=1))
        kind, news = feed.next()
        assert (kind, news["unit"]["unit_id"], news["unit"]["text"]) == ("stored", "u", "The pier lamp is green.")
        tenant.publish(tenant.unit("u", "The pier lamp is red.", revision=2))
        assert feed.next()[0] == "changed"
        tenant.product.http.delete("/v1/units/u", headers={"Cortex-Tenant": tenant.name})
        kind, news = feed.next()
        assert (kind, news["unit"]["unit_id"], news["unit"]["scope"]) == ("retracted", "u", SCOPE)
        assert "text" not in news["unit"]


def test_a_contradiction_is_told_with_both_its_sides(tenant):
    tenant.tell(tenant.unit("a", "The retry limit of the Booking Engine is 3."))
    with listening(tenant) as feed:
        tenant.publish(tenant.unit("b", "The retry limit of the Booking Engine is 5."))
        kind, news = feed.after("stored")
        assert (kind, {side["unit_id"] for side in news["sides"]}) == ("contradicted", {"a", "b"})


def test_a_new_revision_of_a_document_tells_only_the_parts_that_changed(tenant):
    tenant.tell(*tenant.document("doc", 1, ["The first part.", "The second part.", "The third part."]))
    with listening(tenant) as feed:
        tenant.publish(*tenant.document("doc", 2, ["The first part.", "The second part, better."]))
        told = [feed.after("stored") for _ in range(2)]
        assert {(kind, news["unit"]["unit_id"]) for kind, news in told} == {
            ("changed", "doc/1"),
            ("retracted", "doc/2"),
        }


def test_a_reader_goes_on_after_his_last_id(tenant):
    with listening(tenant) as feed:
        tenant.publish(tenant.unit("a", "The first swallow of spring was seen."))
        feed.next()
    tenant.tell(tenant.unit("b", "The second swallow of spring was seen."))
    with listening(tenant, last_id=feed.last_id) as feed:
        kind, news = feed.next()
        assert (kind, news["unit"]["unit_id"]) == ("stored", "b")


def test_nobody_hears_of_scopes_that_he_cannot_read(tenant):
    member = {"source_id": "ana", "relation": "member_of", "target_id": "core"}
    tenant.tell(tenant._event("member", "relation.declared", member))
    with listening(tenant, principal="ana") as feed:
        tenant.publish(tenant.unit("secret", "The safe opens at noon.", scope="team/other"))
        tenant.publish(tenant.unit("open", "The door opens at nine."))
        kind, news = feed.next()
        assert (kind, news["unit"]["unit_id"]) == ("stored", "open")
