"""Moments: every way to write a time is read the same everywhere, or refused in words (case C25)."""

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ValidationError

from schemas.times import LAST_INSTANT, Moment


class Holder(BaseModel):
    at: Moment | None = None


def read(value):
    return Holder.model_validate({"at": value}).at


@pytest.mark.parametrize("written", ["2026-03-01", "20260301", " 2026-03-01 ", "2026-W09-7"])
def test_a_date_alone_is_a_whole_day_however_it_is_written(written):
    moment = read(written)
    assert (moment.at, moment.precision, moment.original) == (datetime(2026, 3, 1, tzinfo=UTC), "day", written)
    assert moment.end == datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    ["2026-03-01T09:00:00Z", "2026-03-01t09:00:00z", "2026-03-01 09:00:00", "2026-03-01T18:00:00+09:00", "20260301T09"],
)
def test_a_time_is_an_instant(written):
    moment = read(written)
    assert (moment.at, moment.precision) == (datetime(2026, 3, 1, 9, tzinfo=UTC), "instant")


@pytest.mark.parametrize(
    ("zoned", "utc"),
    [
        ({"at": "2026-03-29T02:30:00", "zone": "Europe/Berlin"}, "2026-03-29T01:30:00Z"),  # skipped: the offset before
        ({"at": "2026-10-25T02:30:00", "zone": "Europe/Berlin"}, "2026-10-25T00:30:00Z"),  # twice: the earlier
        ({"at": "2026-03-01", "zone": "Asia/Tokyo"}, "2026-02-28T15:00:00Z"),
        ({"at": "2011-12-30T12:00:00", "zone": "Pacific/Apia"}, "2011-12-30T22:00:00Z"),  # a day that was left out
    ],
)
def test_a_local_time_is_read_by_the_rules_of_its_zone(zoned, utc):
    assert read(zoned).model_dump(mode="json")["at"] == utc


def test_an_offset_beside_a_zone_is_refused_since_one_of_them_would_be_ignored():
    with pytest.raises(ValidationError, match="no offset of its own"):
        read({"at": "2026-03-29T02:30:00+05:00", "zone": "Europe/Berlin"})


@pytest.mark.parametrize(
    "value",
    [
        "yesterday", "", "2026-02-30", "2026-03-01T25:00:00Z", "2016-12-31T23:59:60Z", "2026-03-01T09:00:00+25:00",
        "0000-01-01", "10000-01-01", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2026-03-01\x0009:00:00",
        "9" * 5000, True, 1.5, 1e300, 10**30, -(10**30), [], ["2026-03-01"], {}, {"zone": "UTC"},
        {"at": 5, "zone": "UTC"}, {"at": "2026-03-01", "zone": "Mars/Base"}, {"at": "2026-03-01", "zone": "../etc/passwd"},
        {"at": "2026-03-01", "zone": ""}, {"at": "2026-03-01", "zone": "a\x00b"}, {"at": "0001-01-01", "zone": "Asia/Tokyo"},
        {"at": "9999-12-31T23:59:59-12:00", "original": "x"}, {"at": "0001-01-01T00:00:00+12:00", "original": "x"},
        {"at": None, "original": "x"}, {"original": "x"}, {"at": "2026-03-01", "original": "x" * 101},
    ],
)  # fmt: skip
def test_what_is_no_time_is_a_typed_error_and_never_a_crash(value):
    with pytest.raises(ValidationError):
        read(value)


@pytest.mark.parametrize(
    "value", ["9999-12-31", "9999-12-31T23:59:59.999999Z", {"at": "9999-12-31", "zone": "America/New_York"}]
)
def test_the_last_day_of_the_calendar_ends_with_the_calendar(value):
    assert read(value).end == LAST_INSTANT


@pytest.mark.parametrize(
    "value", ["2026-03-01", "2026-03-01T09:30:00+09:00", 1772357400000, "0001-01-01", "9999-12-31"]
)
def test_a_moment_reads_back_as_itself(value):
    moment = read(value)
    assert read(moment.model_dump(mode="json")) == moment
