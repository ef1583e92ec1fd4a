"""What the arms find: scopes, validity, time, ties, turns of a session, entities."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from schemas.units import UnitType
from shared.errors import InvalidInput
from shared.text import query_terms
from tests.contract.knowledge_events import (
    CORE,
    NOW,
    TENANT,
    asserted,
    effect_of,
    unit,
    vector_of,
    where,
)

pytestmark = pytest.mark.anyio

OPS, ANN = "department/ops", "personal/ann"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


async def both(store, question, filter_):
    """Return the units that the keyword and the vector arm find; they must agree on who may be found."""
    by_word = {unit_id for hit in await store.keyword(question, filter_) for unit_id in hit}
    by_vector = {unit_id for hit in await store.vector(question, filter_) for unit_id in hit}
    assert by_word == by_vector
    return by_word


async def test_only_readable_scopes_are_found(store):
    await store.apply(
        asserted(unit("core", "retry one")),
        asserted(unit("ops", "retry two", scope=OPS)),
        asserted(unit("ann", "retry three", scope=ANN)),
    )
    assert await both(store, "retry", where(CORE, ANN)) == {"core", "ann"}
    assert await both(store, "retry", where(CORE, OPS, ANN, "team/unknown")) == {"core", "ops", "ann"}
    assert await both(store, "retry", where("team/unknown")) == set()
    async with store.reader.snapshot(TENANT) as snapshot:
        nothing = type(where())(scopes=frozenset(), at=NOW)
        assert await snapshot.keyword(["retry"], nothing, 5) == []
        assert await snapshot.vector(vector_of("retry"), nothing, 5) == []
        assert await snapshot.latest(nothing, 5) == []


async def test_scopes_of_many_are_found_whatever_their_number(store):
    await store.apply(*(asserted(unit(f"u{n}", f"retry number {n}", scope=f"team/t{n}")) for n in range(90)))
    readable = [f"team/t{n}" for n in range(80)]
    hits = await store.keyword("retry", where(*readable), 100)
    assert {unit_id for hit in hits for unit_id in hit} == {f"u{n}" for n in range(80)}


async def test_scope_names_are_told_apart_by_case_and_sign(store):
    await store.apply(
        asserted(unit("a", "retry", scope="team/Core")), asserted(unit("b", "retry", scope="team/core-2"))
    )
    assert await both(store, "retry", where("team/core")) == set()
    assert await both(store, "retry", where("team/Core")) == {"a"}


async def test_what_is_superseded_is_hidden_from_then_on(store):
    """Cases C08 and C23: now the new one, as of then the old one, with the flag both."""
    await store.apply(
        asserted(unit("five", "The retry limit is 5", occurred_at="2026-03-01")),
        asserted(unit("six", "The retry limit is 6", occurred_at="2026-04-01", supersedes="five")),
    )
    assert await both(store, "retry limit", where()) == {"six"}
    assert await both(store, "retry limit", where(include_superseded=True)) == {"five", "six"}
    assert await both(store, "retry limit", where(at=at("2026-03-15"), past=True)) == {"five"}
    state = (await store.known("five")).known.state
    assert (state.superseded_by, state.held_until) == ("six", at("2026-04-01"))


async def test_a_narrower_scope_supersedes_nothing_of_a_wider_one(store):
    await store.apply(
        asserted(unit("team", "team rule")),
        asserted(unit("mine", "my rule", scope=ANN, supersedes="team")),
        asserted(unit("wide", "company rule", scope="organization/acme", supersedes="mine")),
    )
    assert await both(store, "rule", where(CORE, ANN, "organization/acme")) == {"team", "wide"}


async def test_what_superseded_is_forgotten_with_its_unit(store):
    await store.apply(asserted(unit("a", "rule one")), asserted(unit("b", "rule two", supersedes="a", revision=1)))
    await store.apply(asserted(unit("b", "rule two", revision=2)))
    assert await both(store, "rule", where()) == {"a", "b"}
    assert (await store.known("a")).known.state.superseded_by is None


@pytest.mark.parametrize("first", ["old", "new"])
async def test_of_two_that_supersede_each_other_the_later_stands(store, first):
    events = {
        "old": asserted(unit("old", "rule one", occurred_at="2026-03-01", supersedes="new")),
        "new": asserted(unit("new", "rule two", occurred_at="2026-04-01", supersedes="old")),
    }
    await store.apply(events.pop(first))
    await store.apply(*events.values())
    assert await both(store, "rule", where()) == {"new"}
    assert await both(store, "rule", where(at=at("2026-03-15"), past=True)) == {"old"}
    assert (await store.known("new")).known.state.superseded_by is None
    await store.apply(asserted(unit("old", "rule one", occurred_at="2026-05-01", supersedes="new")))
    assert await both(store, "rule", where()) == {"old"}


async def test_validity_is_half_open(store):
    await store.apply(asserted(unit("u", "rule", valid_from="2026-05-01", valid_until="2026-05-08T12:00:00Z")))
    day, last = timedelta(days=1), at("2026-05-08T12:00:00")
    assert await both(store, "rule", where(at=at("2026-05-01") - timedelta(microseconds=1))) == set()
    assert await both(store, "rule", where(at=at("2026-05-01"))) == {"u"}
    assert await both(store, "rule", where(at=last - timedelta(microseconds=1))) == {"u"}
    assert await both(store, "rule", where(at=last)) == set()
    assert await both(store, "rule", where(at=last + day, include_superseded=True)) == {"u"}


async def test_an_open_or_unknown_end_ends_nothing(store):
    await store.apply(asserted(unit("open", "rule one", valid_until="open")), asserted(unit("unknown", "rule two")))
    assert await both(store, "rule", where(at=at("2400-01-01"))) == {"open", "unknown"}


async def test_the_past_leaves_out_what_occurred_later_and_what_was_not_known(store):
    await store.apply(
        asserted(unit("march", "rule one", occurred_at="2026-03-01")),
        asserted(unit("may", "rule two", occurred_at="2026-05-01")),
    )
    assert await both(store, "rule", where(at=at("2026-04-01"))) == {"march", "may"}
    assert await both(store, "rule", where(at=at("2026-04-01"), past=True)) == {"march"}
    recorded = NOW - timedelta(days=10) + timedelta(seconds=1)
    assert await both(store, "rule", where(known_at=recorded)) == {"march"}
    assert await both(store, "rule", where(known_at=recorded - timedelta(microseconds=1))) == set()


async def test_types_are_told_apart(store):
    await store.apply(asserted({**unit("a", "rule one"), "type": "decision"}), asserted(unit("b", "rule two")))
    assert await both(store, "rule", where(types=frozenset({UnitType.DECISION}))) == {"a"}


MOMENTS = {
    "z": "2026-03-01T09:00:00Z",
    "offset": "2026-03-01T09:30:00+09:00",
    "naive": "2026-03-01T09:15:00",
    "day": "2026-03-01",
    "epoch": 1_772_359_200_000,  # 2026-03-01T10:00:00Z
    "gap": {"at": "2026-03-29T02:30:00", "zone": "Europe/Berlin"},
}


async def test_windows_and_order_of_time_whatever_way_it_was_written(store):
    """Case C25: a window finds the offset time and the day that overlaps; order is by instant; nothing crashes."""
    await store.apply(*(asserted(unit(name, f"rule {name}", occurred_at=moment)) for name, moment in MOMENTS.items()))
    window = where(occurred=(at("2026-03-01T00:00"), at("2026-03-01T01:00")))
    assert await both(store, "rule", window) == {"offset", "day"}
    async with store.reader.snapshot(TENANT) as snapshot:
        latest = await snapshot.latest(where(), 10)
        oldest = await snapshot.latest(where(), 3, oldest_first=True)
    assert [hit.unit_ids[0] for hit in latest] == ["gap", "epoch", "naive", "z", "offset", "day"]
    assert [hit.unit_ids[0] for hit in oldest] == ["day", "offset", "z"]
    assert (await store.known("offset")).known.unit.occurred_at.original == MOMENTS["offset"]


async def test_windows_are_half_open_and_leave_out_the_undated(store):
    await store.apply(
        asserted(unit("day", "rule one", occurred_at="2026-03-01")),
        asserted(unit("noon", "rule two", occurred_at="2026-03-01T12:00:00Z")),
        asserted(unit("undated", "rule three")),
    )
    assert await both(store, "rule", where(occurred=(at("2026-03-02"), None))) == set()
    assert await both(store, "rule", where(occurred=(at("2026-03-01T12:00"), None))) == {"day", "noon"}
    assert await both(store, "rule", where(occurred=(None, at("2026-03-01T12:00")))) == {"day"}
    assert await both(store, "rule", where(occurred=(None, None))) == {"day", "noon"}


async def test_the_last_day_of_the_calendar_is_a_day_like_any_other(store):
    await store.apply(asserted(unit("end", "rule", occurred_at="9999-12-31", valid_from="0001-01-01")))
    assert await both(store, "rule", where(occurred=(at("9999-12-31T23:00"), None))) == {"end"}


async def test_latest_takes_recorded_time_where_nothing_occurred(store):
    await store.apply(
        asserted(unit("a", "one")), asserted(unit("b", "two", occurred_at="2020-01-01")), asserted(unit("c", "three"))
    )
    async with store.reader.snapshot(TENANT) as snapshot:
        assert [hit.unit_ids for hit in await snapshot.latest(where(), 2)] == [("c",), ("a",)]


async def test_rare_words_weigh_more_and_common_ones_are_left_out(store):
    await store.apply(*(asserted(unit(f"u{n}", f"deploy service number{n}")) for n in range(201)))
    await store.apply(asserted(unit("rare", "deploy rollback")))
    assert await store.keyword("deploy rollback") == [("rare",)]
    assert len(await store.keyword("deploy", limit=300)) == 202, "unless nothing remains"


async def test_equal_scores_are_ordered_by_passage_even_at_the_limit(store):
    await store.apply(
        *(asserted(unit(f"u{n:02}", f"lonely word{n:02}")) for n in range(40)), asserted(unit("x", "else"))
    )
    async with store.reader.snapshot(TENANT) as snapshot:
        every = await snapshot.keyword(query_terms("lonely"), where(), 100)
        some = await snapshot.keyword(query_terms("lonely"), where(), 7)
    assert [hit.passage_id for hit in every] == sorted(hit.passage_id for hit in every)
    assert len(every) == 40
    assert some == every[:7]


async def test_words_with_signs_are_searched_as_they_are(store):
    await store.apply(asserted(unit("a", "Upgrade to v1.20 now")), asserted(unit("b", "Upgrade to v1.2 now")))
    assert await store.keyword("v1.2", limit=1) == [("b",)]
    for question in ('"', "a OR b", "NEAR(", "words : x", "*", "-", "(", "col:val", "' OR 1=1 --"):
        async with store.reader.snapshot(TENANT) as snapshot:
            await snapshot.keyword([question, *question.split()], where(), 5)


async def test_words_that_no_text_can_hold_find_nothing(store):
    await store.apply(asserted(unit("a", "limit")))
    async with store.reader.snapshot(TENANT) as snapshot:
        hits = await snapshot.keyword(["\ud800", "a\x00b", "", " ", "limit"], where(), 5)
    assert [hit.unit_ids for hit in hits] == [("a",)]


async def test_texts_in_scripts_without_spaces_are_found(store):
    await store.apply(
        asserted(unit("ja", "決済サービスの再試行は五回です")), asserted(unit("th", "ระบบชำระเงินลองใหม่ห้าครั้ง"))
    )
    assert await store.keyword("再試行") == [("ja",)]
    assert await store.keyword("ชำระเงิน") == [("th",)]


async def test_the_best_chunk_of_a_long_text_counts(store):
    chunks = np.stack([vector_of("intro"), vector_of("needle")])
    await store.writer.apply(
        TENANT,
        [
            effect_of(asserted(unit("long", "intro and needle")), 1, vectors=chunks),
            effect_of(asserted(unit("s", "short")), 2),
        ],
    )
    async with store.reader.snapshot(TENANT) as snapshot:
        hits = await snapshot.vector(vector_of("needle"), where(), 5)
        similarities = await snapshot.similarities(vector_of("needle"), [hit.passage_id for hit in hits] + [1])
    assert [hit.unit_ids for hit in hits] == [("long",), ("s",)]
    assert hits[0].score == pytest.approx(1.0)
    assert similarities == {hit.passage_id: hit.score for hit in hits}


async def test_a_query_of_other_dimensions_is_a_typed_error(store):
    """An empty result would pass for an answer."""
    await store.apply(asserted(unit("u", "text")))
    other = np.ones(3, dtype=np.float32)
    async with store.reader.snapshot(TENANT) as snapshot:
        (hit,) = await snapshot.latest(where(), 1)
        for search in (snapshot.vector(other, where(), 5), snapshot.similarities(other, [hit.passage_id])):
            with pytest.raises(InvalidInput, match="3 dimensions"):
                await search


async def test_exact_search_agrees_with_plain_arithmetic(store):
    texts = [f"text number {n}" for n in range(300)]
    await store.apply(*(asserted(unit(f"u{n}", text)) for n, text in enumerate(texts)))
    query = vector_of("question")
    wanted = sorted(range(300), key=lambda n: -float(vector_of(texts[n]).astype(np.float64) @ query.astype(np.float64)))
    assert await store.vector("question", limit=20) == [(f"u{n}",) for n in wanted[:20]]


def turn(number: int, text: str, **given) -> dict:
    return asserted(unit(f"t{number}", text, session_id="s", turn=number, **{"occurred_at": "2023-05-08", **given}))


async def test_a_turn_is_found_by_its_neighbours_words_and_its_date(store):
    await store.apply(turn(1, "Where did you go"), turn(2, "To the aquarium"), turn(3, "Lovely"), turn(4, "Quite"))
    assert {hit[0] for hit in await store.keyword("aquarium")} == {"t1", "t2", "t3"}
    assert {hit[0] for hit in await store.keyword("8 May 2023")} == {"t1", "t2", "t3", "t4"}
    assert (await store.vector("To the aquarium", limit=1)) == [("t2",)]


async def test_a_turns_neighbours_may_come_late_change_and_go(store):
    await store.apply(turn(3, "Lovely"), turn(1, "Where did you go"))
    await store.apply(turn(2, "To the aquarium", revision=1))
    assert {hit[0] for hit in await store.keyword("aquarium")} == {"t1", "t2", "t3"}
    await store.apply(turn(2, "To the planetarium", revision=2))
    assert await store.keyword("aquarium") == []
    assert {hit[0] for hit in await store.keyword("planetarium")} == {"t1", "t2", "t3"}
    await store.apply({"type": "unit.retracted", "data": {"id": "t2", "revision": 3}})
    assert await store.keyword("planetarium") == []


async def test_no_words_pass_between_scopes_or_sessions(store):
    await store.apply(
        turn(1, "Lovely"),
        asserted(unit("other", "To the aquarium", session_id="s", turn=2, scope=OPS)),
        asserted(unit("elsewhere", "To the aquarium", session_id="s2", turn=2)),
    )
    assert {hit[0] for hit in await store.keyword("aquarium", where(CORE))} == {"elsewhere"}


async def test_turns_of_equal_text_stay_apart(store):
    await store.apply(turn(1, "Yes"), turn(5, "Yes"))
    assert (await store.counts()).passages == 2
    assert sorted(await store.vector("Yes")) == [("t1",), ("t5",)]


async def test_units_about_an_entity_come_before_those_that_mention_it(store):
    await store.apply(
        asserted(unit("subject", "It retries.", title="Payments Client")),
        asserted(unit("old", "We asked Payments Client about it.", occurred_at="2025-01-01")),
        asserted(unit("new", "They use Payments Client daily.", occurred_at="2026-01-01")),
        asserted(unit("hidden", "They use Payments Client too.", scope=OPS)),
    )
    async with store.reader.snapshot(TENANT) as snapshot:
        found = await snapshot.about(["paymentsclient", "nobody"], where(), 5)
        fewer = await snapshot.about(["paymentsclient"], where(), 2)
        keys = dict(await snapshot.entity_keys(frozenset({CORE}), 100))
    assert [(hit.unit_ids, hit.score) for hit in found["paymentsclient"]] == [
        (("subject",), 1.0),
        (("new",), 0.5),
        (("old",), 0.5),
    ]
    assert found["nobody"] == []
    assert fewer["paymentsclient"] == found["paymentsclient"][:2]
    assert keys["paymentsclient"] == 3


async def test_entity_keys_are_read_page_by_page(store):
    await store.apply(asserted(unit("u", "Alpha Service met Beta Service, Gamma Service and Delta Service.")))
    async with store.reader.snapshot(TENANT) as snapshot:
        every = await snapshot.entity_keys(frozenset({CORE}), 10)
        page = await snapshot.entity_keys(frozenset({CORE}), 2, after=every[0][0])
        assert await snapshot.entity_keys(frozenset({OPS}), 10) == []
    assert len(every) == 4
    assert page == every[1:3]


async def test_linked_entities_are_found_by_their_id(store):
    links = [{"entity_id": "billing"}, {"entity_id": "ann", "relation": "created_by"}]
    await store.apply(asserted(unit("u", "text", entity_links=links, origin={"creator_entity_id": "bob"})))
    async with store.reader.snapshot(TENANT) as snapshot:
        found = await snapshot.about(["=billing", "=ann", "=bob"], where(), 5)
    assert {key: [hit.score for hit in hits] for key, hits in found.items()} == {
        "=billing": [1.0],
        "=ann": [0.5],
        "=bob": [],
    }
    (contribution,) = await store.writer.contributions(TENANT)
    assert {item.key: item.weight for item in contribution.keys} == {"=billing": 1.0, "=ann": 1.0, "=bob": 0.5}
    assert contribution.subject == "=billing"
