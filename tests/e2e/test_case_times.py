"""Times: every form is read as UTC by one rule, at every door, and what is no time is refused in words."""

import json

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

WRITTEN = {
    "e1": ("2026-03-01T09:00:00Z", "2026-03-01T09:00:00Z", "instant"),
    "e2": ("2026-03-01T09:30:00+09:00", "2026-03-01T00:30:00Z", "instant"),
    "e3": ("2026-03-01T09:15:00", "2026-03-01T09:15:00Z", "instant"),
    "e4": ("2026-03-01", "2026-03-01T00:00:00Z", "day"),
    "e5": (1772357400000, "2026-03-01T09:30:00Z", "instant"),
    "e6": ({"at": "2026-03-29T02:30:00", "zone": "Europe/Berlin"}, "2026-03-29T01:30:00Z", "instant"),
}
QUESTION = "planning meeting note"


def notes(tenant, times):
    return [
        tenant.unit(unit_id, f"Planning meeting, note {unit_id}.", occurred_at=time) for unit_id, time in times.items()
    ]


def found(tenant, **parameters):
    return tenant.found(QUESTION, **parameters)


@pytest.mark.parametrize("door", ["http", "kafka"])
def test_naive_offset_and_z_times_are_read_by_one_rule(tenant, door):
    """Case C25: naive is UTC, a date is the whole day, a local time that was skipped has the offset before the gap."""
    events = notes(tenant, {unit_id: time for unit_id, (time, _, _) in WRITTEN.items()})
    if door == "http":
        tenant.publish(*events)
    else:
        tenant.produce(*(json.dumps(event).encode() for event in events))
    for event in events:
        tenant.wait_state(event["id"], "stored")
    for unit_id, (written, utc, precision) in WRITTEN.items():
        moment = tenant.get(f"/v1/units/{unit_id}").json()["unit"]["occurred_at"]
        words = f"{written['at']} {written['zone']}" if isinstance(written, dict) else str(written)
        assert (moment["at"], moment["precision"], moment["original"]) == (utc, precision, words)
    assert found(tenant, order="time") == ["e6", "e5", "e3", "e1", "e2", "e4"]
    window = {"occurred_from": "2026-03-01T00:00Z", "occurred_until": "2026-03-01T01:00Z"}
    assert set(found(tenant, **window)) == {"e2", "e4"}


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z"),
        ("2026-03-01T09:00:00+09:00", "2026-03-01T10:00:00+09:00"),
        ("2026-03-01T00:00:00", "2026-03-01T01:00:00"),
        ("1772323200000", "1772326800000"),
        (
            '{"at": "2026-03-01T01:00:00", "zone": "Europe/Berlin"}',
            '{"at": "2026-03-01T02:00:00", "zone": "Europe/Berlin"}',
        ),
    ],
)
def test_a_window_means_the_same_however_it_is_written(tenant, since, until):
    """Case C25, the kind: the question's times are read as the event's are. The window is half open."""
    times = {
        "before": "2026-02-28T23:59:59.999999Z",
        "first": "2026-03-01T00:00:00Z",
        "last": "2026-03-01T00:59:59.999Z",
        "after": "2026-03-01T01:00:00Z",
    }
    tenant.tell(*notes(tenant, times))
    assert set(found(tenant, occurred_from=since, occurred_until=until)) == {"first", "last"}


@pytest.mark.parametrize(
    ("zoned", "utc"),
    [
        ({"at": "2026-10-25T02:30:00", "zone": "Europe/Berlin"}, "2026-10-25T00:30:00Z"),
        ({"at": "2026-03-08T02:30:00", "zone": "America/New_York"}, "2026-03-08T07:30:00Z"),
        ({"at": "2026-03-01", "zone": "Asia/Tokyo"}, "2026-02-28T15:00:00Z"),
        ({"at": "2026-07-01T12:00:00", "zone": "Asia/Kathmandu"}, "2026-07-01T06:15:00Z"),
    ],
)
def test_zones_with_their_gaps_and_doubled_hours(tenant, zoned, utc):
    """Case C25, the kind."""
    tenant.tell(*notes(tenant, {"u": zoned}))
    assert tenant.get("/v1/units/u").json()["unit"]["occurred_at"]["at"] == utc


@pytest.mark.parametrize(
    "bad",
    [
        "yesterday", "2026-02-30", "2026-03-01T25:00:00Z", "2026-03-01T09:00:00+25:00", "9999-12-31T23:59:59-12:00",
        True, 1.5, 10**30, [], {"at": "2026-03-01", "zone": "Mars/Base"}, {"at": "2026-03-01T00:00:00+05:00", "zone": "UTC"},
        {"at": "9999-12-31T23:59:59-12:00", "original": "x"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["occurred_at", "valid_until"])
def test_what_is_no_time_is_refused_with_its_field(tenant, field, bad):
    """Case C25, the kind: never a crash, never a guess."""
    response = tenant.product.http.post("/v1/events", json=tenant.unit("u", "A note.", **{field: bad}))
    assert response.status_code == 400, response.text
    assert response.json()["errors"][0]["field"].startswith(f"/data/{field}")
    assert tenant.get("/v1/units/u").status_code == 404


def test_the_ends_of_the_calendar_are_times_like_others(tenant):
    """Case C25, the kind: "for ever" is often written as the last day there is."""
    tenant.tell(
        tenant.unit("ever", "The planning meeting rule holds.", valid_from="0001-01-01", valid_until="9999-12-31"),
        *notes(tenant, {"first": "0001-01-01", "last": "9999-12-31T23:59:59.999999Z", "epoch": 0}),
    )
    assert found(tenant, order="time")[0] == "last"
    assert found(tenant, occurred_from="9999-12-31") == ["last"]
    assert found(tenant, occurred_until="0001-01-02") == ["first"]
    for name in ("as_of", "known_at", "occurred_from", "occurred_until"):
        for moment in ("0001-01-01", "9999-12-31", "9999-12-31T23:59:59.999999Z", "-1"):
            for question in (QUESTION, "planning meeting notes of the last 7 days as a timeline"):
                response = tenant.get("/v1/context", q=question, **{name: moment})
                assert response.status_code == 200, (name, moment, response.text)
