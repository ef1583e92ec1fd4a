"""More than the door takes: who is sent away, with which status, and for how long."""

import orjson
import pytest

from schemas.positions import Position
from shared.log import BULK, EVENTS
from shared.settings import Settings
from tests.integration.http_service import in_process, make_parts, until
from tests.integration.test_http_events import event

pytestmark = [pytest.mark.integration, pytest.mark.anyio]


async def post(client, numbers, tenant="demo", **parameters):
    body = orjson.dumps([event(number, tenant=tenant) for number in numbers])
    headers = {"content-type": "application/cloudevents-batch+json"}
    return await client.post("/v1/events", content=body, headers=headers, params=parameters)


async def test_over_its_rate_a_tenant_gets_429_and_the_seconds_after_which_the_same_is_taken():
    parts = make_parts()
    async with in_process(Settings(tenant_events_per_s=2), parts) as client:
        assert (await post(client, range(20))).status_code == 202
        refused = await post(client, range(20, 30))
        assert refused.status_code == 429
        assert refused.json()["type"] == "/problems/rate-limited"
        assert refused.headers["retry-after"] == "5"
        assert len(await parts.log.read(0, 100)) == 20, "nothing of a refused batch is kept"
        assert (await post(client, range(3), tenant="other")).status_code == 202
        parts.clock.advance(5)
        assert (await post(client, range(20, 30))).status_code == 202
        figures = (await client.get("/metrics")).text
    assert 'cortex_events_refused_total{reason="rate"} 10.0' in figures


async def test_with_too_much_unstored_bulk_is_sent_away_first_and_then_everything_until_it_is_stored():
    parts = make_parts()
    async with in_process(Settings(backlog_events=20), parts) as client:
        assert (await post(client, range(12))).status_code == 202
        bulk = await post(client, [100], topic="bulk")
        assert (bulk.status_code, bulk.json()["type"]) == (503, "/problems/overloaded")
        assert int(bulk.headers["retry-after"]) >= 1
        assert (await post(client, range(12, 20))).status_code == 202
        assert (await post(client, [200])).status_code == 503
        parts.reader.marks = {(EVENTS, partition): 10_000 for partition in range(4)}  # all of it is stored

        async def taken():
            return (await post(client, [200])).status_code == 202

        await until(taken)
        assert (await post(client, [100], topic="bulk")).status_code == 202


async def test_live_events_beyond_a_tenant_s_share_of_the_waiting_are_kept_as_bulk():
    parts = make_parts()
    async with in_process(Settings(tenant_live_events=10), parts) as client:
        topics = []
        for first in (0, 6, 12):
            response = await post(client, range(first, first + 6))
            topics.append(Position.from_token(response.json()["token"]).topic)
        assert topics == [EVENTS, EVENTS, BULK]
        other = await post(client, range(3), tenant="other")
        assert Position.from_token(other.json()["token"]).topic == EVENTS


async def test_a_request_s_traceparent_is_kept_with_events_that_have_none():
    given, own = (f"00-{'a' * 31}{digit}-{'b' * 16}-01" for digit in "12")
    parts = make_parts()
    events = [event(1), {**event(2), "traceparent": own}]
    async with in_process(Settings(), parts) as client:
        for traceparent, batch in ((given, events), ("nonsense", [event(3)])):
            headers = {"content-type": "application/cloudevents-batch+json", "traceparent": traceparent}
            response = await client.post("/v1/events", content=orjson.dumps(batch), headers=headers)
            assert response.status_code == 202
    kept = [orjson.loads(record.body).get("traceparent") for record in await parts.log.read(0, 10)]
    assert kept == [given, own, None]
