"""Asked-for shapes: from stored evidence alone, and honest where they cannot be made."""

from datetime import UTC, datetime

import pytest

from query.gate import Verdict
from query.structured import _within_horizon, structure
from schemas.answers import EntityMatch
from schemas.graph import Contribution, EdgeContribution
from schemas.intent import AnswerFormat, Intent
from schemas.times import Moment
from schemas.units import UnitType
from shared.graphs.memory import MemoryGraph
from shared.identity import id_key
from tests.unit.answering import NOW, result

FINE = Verdict(low=False, reason="", similarity=0.8, coverage=1.0)
WEAK = Verdict(low=True, reason="far", similarity=0.1, coverage=0.0)


def match(entity_id, **given):
    return EntityMatch(
        surface=entity_id,
        start=0,
        end=1,
        key=entity_id,
        entity_id=entity_id,
        name=entity_id,
        method="exact",
        confidence=1.0,
        **given,
    )


def shapes(form, results, *, question="what do we know?", verdict=FINE, entities=(), graph=None, **intent):
    empty = MemoryGraph().snapshot("demo")
    return structure(
        question,
        Intent(format=form, **intent),
        results,
        verdict=verdict,
        graph=graph or empty,
        entities=entities,
        scopes=frozenset({"team/platform"}),
        at=NOW,
    )


def test_nothing_asked_for_is_nothing_made():
    assert shapes(AnswerFormat.DEFAULT, [result(1)]) == ()


def test_a_weak_answer_says_so_in_a_shape_of_its_own():
    (shape,) = shapes(AnswerFormat.DEFAULT, [result(1)], verdict=WEAK)
    assert (shape.kind, shape.reason, shape.best_similarity) == ("low-confidence", "far", 0.1)


def test_each_row_of_a_table_cites_its_unit():
    (table,) = shapes(AnswerFormat.TABLE, [result(1), result(2, "Other.\nLine.")])
    assert table.unit_ids == ("u1", "u2")
    assert table.columns[-1] == "unit"
    assert [row[-1] for row in table.rows] == ["u1", "u2"]
    assert table.rows[1][2] == "Other. Line."


def test_a_comparison_says_which_target_a_row_is_about():
    rows = [result(1, "Kafka keeps the log."), result(2, "RabbitMQ has queues."), result(3, "Kafka and RabbitMQ.")]
    (table,) = shapes(AnswerFormat.TABLE, rows, comparison_targets=("Kafka", "RabbitMQ"))
    assert table.columns[0] == "about"
    assert [row[0] for row in table.rows] == ["Kafka", "RabbitMQ", "Kafka, RabbitMQ"]


def test_a_chart_counts_units_by_what_the_question_names_largest_first():
    rows = [result(1, scope="team/a"), result(2, scope="team/b"), result(3, scope="team/b")]
    (chart,) = shapes(AnswerFormat.CHART, rows, question="incidents by team")
    assert (chart.subtype, chart.series) == ("ranked-bar", (("team/b", 2.0), ("team/a", 1.0)))
    assert chart.unit_ids == (("u2", "u3"), ("u1",))


def test_a_chart_over_time_runs_from_old_to_new():
    rows = [result(i, occurred_at=Moment.model_validate(day)) for i, day in enumerate(["2026-02-01", "2025-12-01"], 1)]
    (chart,) = shapes(AnswerFormat.CHART, rows, question="plot incidents over time")
    assert (chart.subtype, [bar for bar, _ in chart.series]) == ("line", ["2025-12", "2026-02"])


def test_a_timeline_is_oldest_first_and_names_what_is_undated():
    rows = [
        result(1, occurred_at=Moment.model_validate("2026-02-01")),
        result(2, occurred_at=None),
        result(3, occurred_at=Moment.model_validate("2025-02-01")),
    ]
    (timeline,) = shapes(AnswerFormat.TIMELINE, rows)
    assert [event.unit_id for event in timeline.events] == ["u3", "u1"]
    assert timeline.undated == ("u2",)


def test_a_horizon_bounds_the_rows():
    rows = [
        result(1, occurred_at=Moment.model_validate("2026-02-20")),
        result(2, occurred_at=Moment.model_validate("2025-02-01")),
    ]
    (table,) = shapes(AnswerFormat.TABLE, rows, horizon_days=30)
    assert table.unit_ids == ("u1",)


def test_a_graph_shows_the_relations_of_the_questions_entities():
    held = MemoryGraph()
    held.apply(
        [
            Contribution(
                tenant="demo",
                id="relation:billing depends_on ledger",
                revision=1,
                edges=(
                    EdgeContribution(
                        source=id_key("billing"), relation="depends_on", target=id_key("ledger"), weight=1
                    ),
                ),
            ),
            Contribution(
                tenant="demo",
                id="entity:billing",
                revision=1,
                entity_id="billing",
                entity_type="system",
                entity_name="Billing",
            ),
            Contribution(
                tenant="demo",
                id="entity:ledger",
                revision=1,
                entity_id="ledger",
                entity_type="system",
                entity_name="Ledger",
            ),
        ]
    )
    held.refresh()
    (graph,) = shapes(AnswerFormat.GRAPH, [], entities=[match("billing")], graph=held.snapshot("demo"))
    assert [(edge.source, edge.relation, edge.target) for edge in graph.edges] == [("billing", "depends_on", "ledger")]
    assert {node.name for node in graph.nodes} == {"Billing", "Ledger"}


def test_a_graph_without_known_relations_is_refused_and_a_table_given():
    refusal, table = shapes(AnswerFormat.GRAPH, [result(1)])
    assert (refusal.kind, refusal.fallback, table.kind) == ("unsupported-format", "table", "table")


@pytest.mark.parametrize(
    ("asked", "fallback", "kinds"),
    [
        ("csv", "table", ["unsupported-format", "table"]),
        ("tornado chart", "chart", ["unsupported-format", "chart"]),
        ("gantt chart", "timeline", ["unsupported-format", "timeline"]),
        ("calendar", "timeline", ["unsupported-format", "timeline"]),
        ("poem", "default", ["unsupported-format"]),
    ],
)
def test_a_form_that_cannot_be_made_is_named_with_what_comes_in_its_place(asked, fallback, kinds):
    made = shapes(AnswerFormat.UNSUPPORTED, [result(1)], requested_format=asked)
    assert [shape.kind for shape in made] == kinds
    assert (made[0].requested, made[0].fallback) == (asked, fallback)
    assert made[0].reason


def test_the_default_grouping_of_a_chart_is_the_type():
    (chart,) = shapes(AnswerFormat.CHART, [result(1, type=UnitType.DECISION)])
    assert chart.series == (("decision", 1.0),)


def test_no_results_give_empty_shapes_not_errors():
    for form in (
        AnswerFormat.TABLE,
        AnswerFormat.CHART,
        AnswerFormat.TIMELINE,
        AnswerFormat.GRAPH,
        AnswerFormat.UNSUPPORTED,
    ):
        assert shapes(form, [])


def test_the_span_before_the_beginning_of_the_calendar_is_what_there_is():
    """Case C25: asked as of the year 1 for the last week."""
    since = datetime(1, 1, 3, tzinfo=UTC)
    rows = [result(1, occurred_at=Moment.model_validate("0001-01-01")), result(2)]
    assert _within_horizon(rows, 7, since) == rows
    assert _within_horizon(rows, None, since) == rows
