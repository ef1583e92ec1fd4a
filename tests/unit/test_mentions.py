"""Mentions by token rules: what is a name, where it stands, and what it is keyed by."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.units import EntityLink, LinkRelation, Scope, ScopeLevel, Unit, UnitType
from shared.identity import AliasView, fold_key
from shared.mentions import MENTIONS, bare_title, find_known, find_mentions, subject_key


def surfaces(text, title=None):
    return [mention.surface for mention in find_mentions(text, title)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Room 101 has a projector. Room 102 has a whiteboard.", ["Room 101", "Room 102"]),
        ("Flight UA123 leaves from gate B4.", ["UA123", "B4"]),
        ("System Admin resets passwords.", ["System Admin"]),
        ("SystemAdmin rotates keys.", ["SystemAdmin"]),
        ("System-Admin owns the runbook.", ["System-Admin"]),
        ("SOCIETE GENERALE hired a CTO.", ["SOCIETE GENERALE", "CTO"]),
        ("John T. Doe paid the deposit.", ["John T. Doe"]),
        ("Maya administers Orion's GitHub organisation.", ["Maya", "Orion", "GitHub"]),
        ("Service A uses Service B. Service B uses Service C.", ["Service A", "Service B", "Service B", "Service C"]),
        ("Kiran moved from Whitefield to Electronic City.", ["Kiran", "Whitefield", "Electronic City"]),
        ("Ticket 88 is owned by Sam; see ticket 89.", ["Ticket 88", "Sam", "ticket 89"]),
        ("It runs on Python 3.11 and Windows 11.", ["Python", "Python 3.11", "Windows", "Windows 11"]),
        ("Since v1.2 it raises ReadTimeout in src/app/main.py.", ["v1.2", "ReadTimeout", "src/app/main.py"]),
        ("Use `redis-py` and snake_case, ask @ops or a.b@c.org", ["redis-py", "snake_case", "@ops", "a.b@c.org"]),
        ("The Platform team owns the Payments API.", ["Platform team", "Payments API"]),
        ("The Bank of America called it the Lord of the Rings.", ["Bank of America", "Lord of the Rings"]),
        ("We met Dr. Ada Lovelace.", ["Dr. Ada Lovelace", "Ada Lovelace"]),
        ("Caroline: Hey Mel! Good to see you!", ["Caroline", "Mel"]),
        ("When Maya asked, we left.", ["Maya"]),
        ("Restart Kafka now.", ["Kafka"]),
        ("Ｕｓｅ ＡＰＩ－４２", ["ＡＰＩ－４２"]),
        ("订单服务的超时时间是三十秒", ["订单服务"]),
        ("決済サービスはリトライを三回行う", ["決済サービス", "リトライ"]),
        ("결제 서비스는 세 번", ["결제 서비스"]),
        ("次は「星空計画」です", ["星空計画"]),
    ],
)
def test_names_are_found_by_their_shape(text, names):
    assert surfaces(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "rapid capital restoration",
        "the author of the same catalog",
        "premonitory samples",
        "Everything works. Today we tested. Retrying helps.",
        "On Friday, in March 2024, at 10:30am, 24 hours later",
        "It took 50ms, the 3rd time, e.g. twice",
        "Whenever I think of it I smile.",
        "THIS WHOLE LINE IS VERY LOUD",
        'He said "we should go now".',
        "and/or done.Then",
        "!? ... →",
        "",
    ],
)
def test_common_words_dates_and_measures_are_no_names(text):
    assert surfaces(text) == []


def test_a_sentences_first_word_is_a_name_where_the_text_says_so():
    assert surfaces("Backups failed twice.") == []
    assert surfaces("Kafka") == []
    assert surfaces("Kafka broke. We restarted Kafka.") == ["Kafka", "Kafka"]
    assert surfaces("Redis stores sessions.") == ["Redis"]


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("see main.py", "module"),
        ("a ValueError", "topic"),
        ("the Data Team", "team"),
        ("our Orion squad", "team"),
        ("on Node.js", None),
    ],
)
def test_a_type_is_guessed_only_from_the_shape(text, guess):
    assert [mention.type_guess for mention in find_mentions(text)] == [guess]


def test_the_title_is_a_mention_where_it_occurs():
    assert surfaces("how the retry policy works", "Retry policy (client)") == ["retry policy"]
    assert surfaces("the retry policyholder", "Retry policy") == []
    assert surfaces("İstanbul: the retry policy", "retry policy") == ["İstanbul", "retry policy"]


def test_a_long_title_and_many_mentions_are_bounded():
    assert len(find_mentions("Ab1 " * 5_000)) == MENTIONS


@pytest.mark.parametrize(
    ("title", "bare"),
    [
        ("Mercury (planet)", "Mercury"),
        ("Sameer (2017 film)", "Sameer"),
        ("Tax Return (2023)", "Tax Return (2023)"),
        ("Client (v2)", "Client (v2)"),
        ("(all)", "(all)"),
        ("Plain ", "Plain"),
    ],
)
def test_a_title_is_keyed_without_the_bracket_that_texts_leave_out(title, bare):
    assert bare_title(title) == bare


def unit(title=None, links=()):
    return Unit(
        id="u", text="t", type=UnitType.CONTEXT, scope=Scope(level=ScopeLevel.TEAM, entity_id="core"), title=title,
        entity_links=tuple(EntityLink(entity_id=entity, relation=relation) for entity, relation in links),
    )  # fmt: skip


def test_the_subject_is_the_title_or_the_only_about_link():
    about, creator = ("sys-pay", LinkRelation.ABOUT), ("p-ana", LinkRelation.CREATED_BY)
    assert subject_key(unit("Retry Policy", [about])) == "retrypolicy"
    assert subject_key(unit(links=[about, creator])) == "=sys-pay"
    assert subject_key(unit(links=[about, ("sys-x", LinkRelation.ABOUT)])) is None
    assert subject_key(unit()) is None


TEXTS = st.text(alphabet="Aab1 .'@/_-:`\"\nÉ中ア\u0301👍", max_size=60)


@given(TEXTS, st.none() | st.text(alphabet="Aab ", max_size=5))
def test_spans_index_the_text_as_given_and_keys_are_folded_surfaces(text, title):
    mentions = find_mentions(text, title)
    for mention in mentions:
        assert text[mention.start : mention.end] == mention.surface
        assert mention.key == fold_key(mention.surface) != ""
    assert list(mentions) == sorted(mentions, key=lambda mention: (mention.start, mention.end))
    assert find_mentions(text, title) == mentions


@pytest.mark.parametrize(
    ("text", "keys", "names"),
    [
        ("restart the payments service today", {"paymentsservice", "payments"}, ["payments service"]),
        ("rapid capital restoration", {"api", "rest"}, []),
        ("who is it?", {"who", "it"}, []),
        ("the IT team", {"it"}, ["IT"]),
        ("rate limited calls", {"rate"}, ["rate"]),
        ("on call today", {"oncall"}, ["on call"]),
        ("john t. doe left", {"johntdoe"}, ["john t. doe"]),
        ("payments. service", {"paymentsservice"}, []),
        ("请重启订单服务吧", {"订单服务"}, ["订单服务"]),
    ],
)
def test_known_names_are_found_by_whole_words_longest_first(text, keys, names):
    assert [mention.surface for mention in find_known(text, keys)] == names


def test_an_alias_view_is_a_set_of_known_names():
    assert find_known("ask kafka", AliasView()) == ()


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "aB",
        "a.",
        "a1",
        "'",
        "a/",
        "ab-",
        "中",
        "Ab ",
        "/",
        '"a',
        "`",
        "A. ",
        "ア",
        "a@",
        "サービス",
        "of ",
        "A of ",
        ".",
        "\n",
        "中サ",
    ],
)
def test_effort_grows_with_the_length_of_a_text_alone(piece):
    text = (piece * 32_000)[:32_000]
    started = time.process_time()
    find_mentions(text, "a b")
    assert time.process_time() - started < 10  # quadratic ones take minutes; the bound is no latency target
