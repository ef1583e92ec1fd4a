"""Explanations: a unit's way through a question, and changes that truly let it in."""

import pytest

from query.remedies import Inquest
from schemas.questions import Question
from shared.errors import UnknownThing
from tests.integration.knowledge import Knowledge, entity, relation, unit

pytestmark = [pytest.mark.anyio, pytest.mark.integration]
MOONS = ("red", "blue", "green", "white", "black", "grey", "amber", "violet", "silver", "copper", "golden", "pale")


@pytest.fixture
async def known(tmp_path):
    """Ana is in Platform; HR is none of her business. Twelve moons fill the first places of a question about moons."""
    knowledge = Knowledge(tmp_path)
    await knowledge.teach(
        entity("ana", "person", "Ana Silva"),
        entity("platform", "team", "Platform"),
        entity("hr", "team", "HR"),
        relation("ana", "member_of", "platform"),
        unit("pool", "The connection pool of the ledger has 50 connections at most.", occurred_at="2026-01-05"),
        unit("pool-2", "The connection pool of the ledger has 50 connections at most.", source="test://chat"),
        unit("old-host", "The ledger is deployed on host Osprey.", occurred_at="2026-01-01"),
        unit("new-host", "The ledger is deployed on host Kestrel.", occurred_at="2026-02-01", supersedes="old-host"),
        unit("summer", "The ledger freezes on Fridays in summer.", valid_from="2026-06-01"),
        unit("salaries", "The salaries of the ledger team are listed in the vault.", "team/hr"),
        unit("note", "My notes: the ledger takes four minutes.", "personal/ana"),
        *(unit(f"moon-{name}", f"The {name} moon of the harbour festival rises late.") for name in MOONS),
        unit("lamp", "Wicks for the beacon lantern are kept in the oak chest."),
    )
    yield knowledge
    await knowledge.close()


async def explain(known, unit_id, *, principal="ana", **question):
    """Explain a unit in a question."""
    inquest = await Inquest.open(
        known.assembly(), known.reader, Question(**question), unit_id, tenant="demo", principal=principal
    )
    return await inquest.explain()


async def answer_with(known, change, *, principal="ana", **question):
    """Ask the changed question through the front of the assembly, as a caller would."""
    given = {name: value for name, value in {**question, **change.parameters}.items() if value is not None}
    answer = await known.assembly().answer(Question.model_validate(given), tenant="demo", principal=principal)
    return [unit_id for result in answer.results for unit_id in (result.unit_id, *result.also)]


def outcome(found, stage):
    """Return the outcome of a stage."""
    return next(one.outcome for one in found.stages if one.stage == stage)


async def test_a_unit_in_the_answer_has_its_rank_its_terms_and_nothing_to_change(known):
    found = await explain(known, "new-host", q="on which host is the ledger deployed?")
    assert found.answered
    assert found.rank == 1
    assert found.cited
    assert found.fell_at is None
    assert found.changes == ()
    assert {"rrf.keyword", "rrf.vector"} <= {term.name for term in found.terms}
    answer = await known.assembly().answer(
        Question(q="on which host is the ledger deployed?", explain=True), tenant="demo", principal="ana"
    )
    assert answer.results[0].terms == found.terms
    assert answer.results[0].score == found.score


async def test_a_superseded_unit_falls_at_the_filter_and_one_flag_lets_it_in(known):
    question = {"q": "on which host is the ledger deployed?"}
    found = await explain(known, "old-host", **question)
    assert not found.answered
    assert found.fell_at == "filter"
    assert "superseded since 2026-02-01" in found.reason
    assert found.changes[0].parameters == {"include_superseded": True}
    assert "old-host" in await answer_with(known, found.changes[0], **question)


async def test_what_holds_only_later_needs_a_later_as_of(known):
    question = {"q": "when does the ledger freeze in summer?"}
    found = await explain(known, "summer", **question)
    assert found.fell_at == "filter"
    assert found.changes[0].parameters["as_of"].startswith("2026-06-01")
    assert "summer" in await answer_with(known, found.changes[0], **question)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"types": ["decision"]}, {"types": ["context", "decision"]}),
        ({"levels": ["personal"]}, {"levels": None}),
        ({"scopes": ["personal/ana"]}, {"scopes": None}),
        ({"known_at": "2026-01-01"}, {"known_at": None}),
        ({"occurred_from": "2026-02-20"}, {"occurred_from": None, "occurred_until": None}),
        ({"as_of": "2026-01-15"}, {"as_of": "2026-02-01T00:00:00+00:00"}),
    ],
    ids=",".join,
)
async def test_each_narrowing_of_the_question_is_named_and_its_removal_tried(known, options, changed):
    question = {"q": "on which host is the ledger deployed?", **options}
    found = await explain(known, "new-host", **question)
    assert found.fell_at in {"filter", "scope"}
    assert found.changes[0].parameters == changed
    assert "new-host" in await answer_with(known, found.changes[0], **question)


async def test_several_obstacles_are_removed_together(known):
    question = {"q": "on which host is the ledger deployed?", "types": ["decision"], "known_at": "2026-01-01"}
    found = await explain(known, "old-host", **question)
    assert found.changes[0].parameters == {
        "types": ["context", "decision"],
        "known_at": None,
        "include_superseded": True,
    }
    assert "old-host" in await answer_with(known, found.changes[0], **question)


async def test_a_unit_below_the_limit_says_which_score_it_had_to_beat_and_the_smallest_limit(known):
    question = {"q": "which moon of the harbour festival rises late?", "limit": 2}
    answer = await known.assembly().answer(Question(q=question["q"], limit=50), tenant="demo", principal="ana")
    sixth = answer.results[5].unit_id
    found = await explain(known, sixth, **question)
    assert found.fell_at == "limit"
    assert found.score < found.needed
    (limit,) = [change.parameters["limit"] for change in found.changes if "limit" in change.parameters]
    assert limit <= 6
    assert sixth in await answer_with(known, found.changes[0], **question)


async def test_a_unit_without_a_word_of_the_question_is_reached_by_naming_its_own(known):
    question = {"q": "which moon of the harbour festival rises late?", "limit": 3}
    found = await explain(known, "lamp", **question)
    assert not found.answered
    assert outcome(found, "keyword") == "missed"
    named = [change for change in found.changes if "q" in change.parameters]
    assert named
    assert named[0].parameters["q"].startswith(question["q"])
    assert "lamp" in await answer_with(known, named[0], **question)


async def test_an_equal_text_is_told_to_stand_in_anothers_place(known):
    found = await explain(known, "pool", q="how many connections has the pool of the ledger?")
    assert found.answered
    assert found.merged_into == "pool-2"


async def test_a_unit_that_the_budget_leaves_out_gets_a_budget_that_holds_it(known):
    question = {"q": "which moon of the harbour festival rises late?", "limit": 12, "budget_tokens": 120}
    answer = await known.assembly().answer(Question(**question), tenant="demo", principal="ana")
    cited = {citation.unit_id for citation in answer.citations}
    left_out = next(result.unit_id for result in answer.results if result.unit_id not in cited)
    found = await explain(known, left_out, **question)
    assert found.answered
    assert not found.cited
    assert outcome(found, "context") == "fell"
    roomy = Question.model_validate({**question, **found.changes[0].parameters})
    answer = await known.assembly().answer(roomy, tenant="demo", principal="ana")
    assert left_out in {citation.unit_id for citation in answer.citations}


@pytest.mark.parametrize("unit_id", ["salaries", "no-such-unit"])
async def test_a_unit_out_of_scope_is_as_unknown_as_one_that_does_not_exist(known, unit_id):
    with pytest.raises(UnknownThing, match="there is no such unit, or you may not see it"):
        await explain(known, unit_id, q="where are the salaries of the ledger team?")


async def test_a_question_that_is_too_short_says_so(known):
    found = await explain(known, "pool", q="po")
    assert found.fell_at == "question"
    assert "fewer than 3 characters" in found.reason
