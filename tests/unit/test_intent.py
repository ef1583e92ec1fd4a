"""What a question is after, by rules alone."""

import json
from collections import Counter
from pathlib import Path

import pytest

from query.intent import DOUBTFUL, IntentDetector, detect_intent
from query.intent_shapes import read_comparison
from schemas.intent import AnswerFormat, Intent, Purpose
from shared.embedder import Vector
from shared.embedders.hashed import HashedEmbedder

QUESTIONS = [
    json.loads(line) for line in Path(__file__).with_name("intent_questions.jsonl").read_text().splitlines() if line
]

PROBES = (
    ("What is our policy on remote database access?", "policy"),
    ("How do I fix the flaky checkout test?", "debugging"),
    ("Why is the design of the scheduler event-driven?", "architecture"),
    ("Should we switch from REST to gRPC?", "architecture"),
    ("What issue tracker do we use?", "general"),
    ("Is this the correct way to validate JWTs?", "review"),
    ("Add a fixture for the auth tests", "how-to"),
    ("The job runs forever and never finishes", "debugging"),
    ("dependency injection setup for the worker", "how-to"),
    ("Explain the approach we took for rate limiting rules", "onboarding"),
    ("What's the standard library function for parsing dates?", "general"),
    ("Can you review whether this endpoint is vulnerable to SSRF?", "security"),
    ("the login page throws up a white screen", "debugging"),
    ("how can we improve our onboarding docs?", "review"),
    ("compare Postgres and MySQL for the ledger", "architecture"),
)


@pytest.mark.parametrize(("question", "purpose"), PROBES)
def test_the_fifteen_probes_are_read_as_their_reader_judged(question, purpose):
    assert detect_intent(question).purpose == purpose


def test_at_least_nine_in_ten_labelled_questions_are_read_right():
    misses = [(row["purpose"], detect_intent(row["q"])) for row in QUESTIONS]
    wrong = [
        (row["q"], wanted, intent.purpose.value)
        for row, (wanted, intent) in zip(QUESTIONS, misses, strict=True)
        if intent.purpose != wanted
    ]
    for question, wanted, read in wrong:
        print(f"wanted {wanted}, read {read}: {question}")
    assert len(QUESTIONS) >= 60
    assert len(wrong) <= len(QUESTIONS) / 10


def test_the_labelled_questions_cover_every_purpose():
    counts = Counter(row["purpose"] for row in QUESTIONS)
    assert set(counts) == {purpose.value for purpose in Purpose}
    assert min(counts.values()) >= 7


def test_confidence_is_calibrated_on_the_labelled_questions():
    """Where it says it is sure it is right at least that often, and the unsure half is worse than the sure half."""
    judged = [(detect_intent(row["q"]), row["purpose"]) for row in QUESTIONS]
    sure = [intent.purpose == wanted for intent, wanted in judged if intent.confidence >= 0.8]
    unsure = [intent.purpose == wanted for intent, wanted in judged if intent.confidence < DOUBTFUL]
    assert sum(sure) / len(sure) >= 0.9
    assert sum(unsure) / len(unsure) <= sum(sure) / len(sure)


@pytest.mark.parametrize(
    "question",
    [
        "rapid capital restoration",
        "the author of the same catalog",
        "Who maintains the prefix tree and its trunk?",
        "Which authors wrote the refixed suffix?",
    ],
)
def test_a_word_inside_another_word_says_nothing(question):
    assert detect_intent(question).purpose is Purpose.GENERAL


@pytest.mark.parametrize(
    "question", ["policies for visitors", "known vulnerabilities", "two crashes today", "reviews of my patch"]
)
def test_inflected_forms_count_as_their_stems_do(question):
    assert detect_intent(question).purpose is not Purpose.GENERAL


def test_nothing_recognised_is_less_sure_than_a_clear_hit():
    assert (
        detect_intent("Who is on call?").confidence
        < detect_intent("Is the login vulnerable to SSRF attacks?").confidence
    )


@pytest.mark.parametrize("text", ["", "   ", "?", "\x00\x01", "🙂" * 500, "a" * 4000, "((((" * 900, "how " * 1000])
def test_any_text_is_read_without_failing(text):
    intent = detect_intent(text)
    assert intent.purpose in Purpose
    assert 0 <= intent.confidence <= 1


@pytest.mark.parametrize(
    "question", ["Pourquoi la panne du service de paiement ?", "決済サービスの障害の原因は？", "Fehler beim Anmelden"]
)
def test_an_outage_is_one_in_other_languages_too(question):
    assert detect_intent(question).purpose is Purpose.DEBUGGING


@pytest.mark.parametrize(
    ("question", "shape", "words"),
    [
        ("Show me the incidents as a table", AnswerFormat.TABLE, "table"),
        ("Which teams own which systems, as a table", AnswerFormat.TABLE, "table"),
        ("put that in a table please", AnswerFormat.TABLE, "table"),
        ("compare Kafka and RabbitMQ side by side", AnswerFormat.TABLE, "side by side"),
        ("list deploys of the last 3 months in a chart", AnswerFormat.CHART, "chart"),
        ("plot incidents over time", AnswerFormat.CHART, "plot"),
        ("present the findings in a bar chart", AnswerFormat.CHART, "bar chart"),
        ("give me a timeline of the outage", AnswerFormat.TIMELINE, "timeline"),
        ("list the releases in chronological order", AnswerFormat.TIMELINE, "chronological order"),
        ("Draw a dependency graph of billing", AnswerFormat.GRAPH, "dependency graph"),
        ("show decisions as CSV", AnswerFormat.UNSUPPORTED, "csv"),
        ("as slides please", AnswerFormat.UNSUPPORTED, "slides"),
        ("give me a tornado chart of the risks", AnswerFormat.UNSUPPORTED, "tornado chart"),
        ("show the results as a heat map", AnswerFormat.UNSUPPORTED, "heat map"),
        ("summarize this as a poem", AnswerFormat.UNSUPPORTED, "poem"),
    ],
)
def test_a_requested_shape_is_read_with_its_words(question, shape, words):
    intent = detect_intent(question)
    assert (intent.format, intent.requested_format) == (shape, words)


@pytest.mark.parametrize(
    "question",
    [
        "alter a table in Postgres",
        "tablet launches",
        "gridlock on the database",
        "table stakes for the launch",
        "tornado warnings",
        "paragraph about charters",
        "knowledge graph startups",
        "short history of transformers",
        "How do I add rows in a table?",
        "create a table of users in Postgres",
        "Why is the orders table locked?",
        "Should we store it as a graph?",
        "How do we read the export as CSV?",
        "Who maintains the chart library?",
        "What is on the team's timeline page?",
        "vscode settings",
    ],
)
def test_the_name_of_a_shape_alone_asks_for_none(question):
    assert detect_intent(question).format is AnswerFormat.DEFAULT


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("incidents of the last 3 months", 90),
        ("last week's incidents", 7),
        ("what changed in the past year?", 365),
        ("decisions of the last two weeks", 14),
        ("what happened since yesterday?", 2),
        ("errors in the last 24 hours", 1),
        ("what did we ship this quarter?", 92),
        ("what have we decided recently?", 30),
        ("deploys in the last 99999 years", None),
        ("how long is a month?", None),
        ("the last resort", None),
        ("within the month view", None),
    ],
)
def test_a_horizon_is_read_in_days(question, days):
    assert detect_intent(question).horizon_days == days


@pytest.mark.parametrize(
    ("question", "targets"),
    [
        ("compare Postgres and MySQL for the ledger", ("Postgres", "MySQL")),
        ("Kafka vs RabbitMQ", ("Kafka", "RabbitMQ")),
        ("Redis versus Valkey for the session store", ("Redis", "Valkey")),
        ("difference between staging and production", ("staging", "production")),
        ("Should we use Kafka or RabbitMQ for events?", ("Kafka", "RabbitMQ")),
        ("Kafka or Redis for the queue?", ("Kafka", "Redis")),
        ("compare A with B and C", ("A", "B", "C")),
        ("Who is on call this week or next?", ()),
        ("vscode settings", ()),
    ],
)
def test_comparison_targets_keep_their_spelling(question, targets):
    assert read_comparison(question) == targets
    assert detect_intent(question).comparison_targets == targets


def test_reading_is_linear_in_the_worst_texts_we_know():
    """A pattern that backtracks would not come back from these at all (the test's own time limit is the bound)."""
    for text in (
        "compare " + "a " * 2000,
        "show " * 1000 + "in a",
        "in the last " * 400,
        "as a " * 800,
        "would be " * 500,
    ):
        assert isinstance(detect_intent(text[:4000]), Intent)


class TestTierTwo:
    pytestmark = pytest.mark.anyio

    async def test_until_it_is_prepared_the_rules_stand_alone(self):
        detector = IntentDetector(HashedEmbedder(256))
        assert not detector.is_needed(Intent(confidence=0.1))

    async def test_an_unsure_reading_takes_the_purpose_of_a_near_exemplar(self):
        detector = IntentDetector(HashedEmbedder(512))
        await detector.prepare()
        unsure = detect_intent("Customers of the shopping list find it blank, items were added although")
        assert detector.is_needed(unsure)
        vector: Vector = await HashedEmbedder(512).embed_query("The shopping list is blank although items were added")
        refined = detector.refine(unsure, vector)
        assert (refined.purpose, refined.tier) == (Purpose.DEBUGGING, 2)

    async def test_a_question_near_to_no_exemplar_keeps_the_rules_reading(self):
        detector = IntentDetector(HashedEmbedder(512))
        await detector.prepare()
        intent = detect_intent("zyzzyva quokka")
        vector: Vector = await HashedEmbedder(512).embed_query("zyzzyva quokka")
        assert detector.refine(intent, vector) == intent

    async def test_a_sure_reading_is_not_asked_again(self):
        detector = IntentDetector(HashedEmbedder(64))
        await detector.prepare()
        assert not detector.is_needed(detect_intent("Is the login vulnerable to SSRF attacks?"))
