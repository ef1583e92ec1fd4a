"""The analyser: what is found by which words."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text import fold, language_of, query_terms, script_of, sentences, strip_accents, terms

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=80)
TERM = re.compile(r"[^\s!-,/:-@\[-^`{-~]+")  # no white space and no ASCII punctuation but "-", "." and "_"


def found(question: str, text: str) -> bool:
    """Whether a question's terms all occur in a text."""
    return set(query_terms(question)) <= set(terms(text))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("retries", "The client retried the retry."),
        ("strasse", "Straße"),
        ("Straße", "STRASSE"),
        ("istanbul", "İstanbul office opened"),
        ("ISPARTA", "ısparta"),
        ("API-42", "ＡＰＩ－４２ の上限は１００件"),
        ("societe generale", "Société Générale opened a branch."),
        ("Socie\u0301te\u0301", "Société"),
        ("smorrebrod", "Smørrebrød"),
        ("user name", "getUserName()"),
        ("api 42", "see API-42"),
        ("main.py", "in src/app/main.py"),
        ("snake case", "snake_case"),
        ("backend", "our back-ends"),
        ("Maya", "Maya's team"),
        ("H2O", "H₂O"),
        ("1000", "1,000 items"),
        ("2026", "on 2026-03-01"),
        ("Zahlung", "Der Grenzwert für die Zahlungen ist nicht hoch"),
        ("库存服务 超时", "库存服务的超时时间是五秒"),
        ("決済 リトライ", "決済サービスはリトライを三回行う"),
        ("결제 재시도", "결제 서비스는 세 번 재시도한다"),
        ("ชำระเงิน ลองใหม่", "บริการชำระเงินลองใหม่สามครั้ง"),
        ("платежи", "сервис платежей"),
    ],
)
def test_a_question_finds_its_words_in_another_spelling(question, text):
    assert found(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("paypal.com", "раypal.com (Cyrillic р, а) is blocked"),
        ("C++", "written in C"),
        ("C#", "written in C++"),
        ("v1.20", "since v1.2"),
        ("102", "10² is a hundred"),
        ("API-43", "API-42"),
        ("かき", "がぎ"),
    ],
)
def test_a_question_does_not_find_what_only_looks_alike(question, text):
    assert not found(question, text)


@pytest.mark.parametrize(
    ("question", "text", "shared"),
    [
        ("src/app/main.py", "src.app.main:py", "src.app.main.py"),
        ("back-end", "the backend", "backend"),
        ("école", "L'école est fermée dans la ville", "ecol"),
    ],
)
def test_two_spellings_meet_in_one_term(question, text, shared):
    assert shared in set(query_terms(question)) & set(terms(text))


def test_identifiers_are_kept_whole_and_in_parts():
    assert terms("Payments-API v1.2") == ["payments-api", "paymentsapi", "payment", "api", "v1.2", "v1", "2"]
    assert terms("snake_case") == ["snake_case", "snake", "case"]
    assert terms("1,000 3.5 10.0.0.1") == ["1000", "3.5", "10.0.0.1"]
    assert terms("C++, C#") == ["cplusplus", "csharp"]


def test_words_are_stemmed_and_their_full_form_left_out():
    assert terms("connections connected") == ["connect", "connect"]


def test_a_single_character_of_an_unspaced_script_is_its_own_term():
    assert terms("猫") == ["猫"]
    assert terms("三毛猫") == ["三毛", "毛猫"]


def test_symbols_alone_give_no_terms():
    assert terms("→ 🚀 !? …") == []


def test_stop_words_stay_in_the_index_and_leave_questions():
    assert terms("Who is on call?") == ["who", "is", "on", "call"]
    assert query_terms("Who is on call?") == ["call"]


def test_a_question_of_stop_words_only_keeps_them():
    assert query_terms("who is it?") == ["who", "is", "it"]


def test_a_capital_inside_a_question_is_a_name_and_no_stop_word():
    assert query_terms("What does Service A use?") == ["servic", "a", "use"]
    assert query_terms("Who leads the IT team?") == ["lead", "it", "team"]


def test_each_query_term_occurs_once():
    assert query_terms("retry retries RETRY") == ["retri"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Grenzwert ist nicht hoch", "german"),
        ("La limite est dans le fichier", "french"),
        ("El límite no es para los pagos", "spanish"),
        ("De limiet is niet voor het team", "dutch"),
        ("The limit for Los Angeles", "english"),
        ("La Paz", "english"),
        ("", "english"),
    ],
)
def test_language_is_guessed_by_function_words(text, language):
    assert language_of(text) == language


def test_scripts_are_named():
    assert [script_of(char) for char in "aЖ中カ한ไ1 é"] == [
        "latin", "cyrillic", "han", "kana", "hangul", "thai", "common", "common", "latin",
    ]  # fmt: skip


def test_accents_are_left_out_only_where_a_writer_may():
    assert strip_accents("société") == "societe"
    assert strip_accents("й") == "й"
    assert strip_accents("が") == "が"


def test_folding_keeps_a_raised_digit_apart_from_a_plain_one():
    assert fold("10²") != fold("102")
    assert fold("1½") != fold("11/2")
    assert fold("  Hello \n World ") == "hello world"


def test_long_words_are_cut_and_their_end_is_still_found():
    text = "x" * 20_000 + "-MARK-17"
    assert {"mark", "17"} <= set(terms(text))
    assert max(map(len, terms(text))) <= 64


@given(ANY_TEXT)
def test_terms_survive_a_tokenizer_that_splits_at_white_space(text):
    for term in terms(text) + query_terms(text):
        assert TERM.fullmatch(term), term


@given(ANY_TEXT)
def test_every_query_term_is_a_term_of_the_same_text(text):
    assert set(query_terms(text)) <= set(terms(text))
    assert bool(query_terms(text)) == bool(terms(text))


@given(ANY_TEXT)
def test_folding_twice_is_folding_once(text):
    assert fold(fold(text)) == fold(text)
    assert strip_accents(strip_accents(fold(text))) == strip_accents(fold(text))


@given(st.text(alphabet="Ab .!?。\n\t\"'…中", max_size=60))
def test_sentences_hold_all_but_white_space_in_order(text):
    spans = sentences(text)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Ada met John T. Doe. He left.", ["Dr. Ada met John T. Doe.", "He left."]),
        ("A uses Service B. Service B uses C.", ["A uses Service B.", "Service B uses C."]),
        ("Version 1.2 is out, e.g. here.", ["Version 1.2 is out, e.g. here."]),
        ("一つ目。二つ目。", ["一つ目。", "二つ目。"]),
        ("a line that\ngoes on\n- an item\n\nA paragraph", ["a line that\ngoes on", "- an item", "A paragraph"]),
        ('He said "stop." Then left.', ['He said "stop."', "Then left."]),
    ],
)
def test_sentences_end_where_readers_end_them(text, parts):
    assert [text[start:end] for start, end in sentences(text)] == parts


@pytest.mark.parametrize("piece", ["x", "aB", "a.", "a1", "'", "1,", ".", "\n", " ", "\n ", "中", "é", "A. ", "/a"])
def test_effort_grows_with_the_length_of_a_text_alone(piece):
    text = (piece * 32_000)[:32_000]
    started = time.process_time()
    terms(text)
    sentences(text)
    assert time.process_time() - started < 5  # quadratic ones take minutes; the bound is no latency target
