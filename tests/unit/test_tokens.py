"""The token estimate and the cut to a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tokens import count_tokens, trim_to_tokens

ANY_TEXT = st.text(max_size=120)


@pytest.mark.parametrize(
    ("text", "fewest", "most"),
    [
        ("", 0, 0),
        ("The quick brown fox jumps over the lazy dog.", 10, 14),
        ("internationalization", 3, 6),
        ("订单服务的超时时间是三十秒", 13, 26),
        ("決済サービスはリトライを三回行う", 16, 32),
        ("결제 서비스는 세 번 재시도한다", 13, 30),
        ("บริการชำระเงินลองใหม่สามครั้ง", 25, 45),
        ("🚀🚀", 4, 6),
        ("2026-03-01", 6, 10),
        ("a3f5c9d0e1b2", 6, 12),
        ("Größenänderung", 4, 9),
        ("----------------", 1, 4),
    ],
)
def test_an_estimate_is_near_what_tokenizers_count(text, fewest, most):
    assert fewest <= count_tokens(text) <= most


def test_english_prose_is_about_one_and_a_third_tokens_a_word():
    prose = "We moved the service to a new cluster last week, because the old one ran out of memory at night. " * 10
    assert 1.2 <= count_tokens(prose) / len(prose.split()) <= 1.6


@given(ANY_TEXT)
def test_only_spaces_are_free(text):
    assert count_tokens(text) >= 0
    assert (count_tokens(text) == 0) == (text.replace(" ", "") == "" and "  " not in text)


@given(ANY_TEXT, ANY_TEXT)
def test_two_texts_on_two_lines_cost_at_least_the_dearer(first, second):
    assert count_tokens(f"{first}\n{second}") >= max(count_tokens(first), count_tokens(second))


@given(ANY_TEXT, st.integers(min_value=-1, max_value=40))
def test_a_trimmed_text_never_exceeds_its_budget(text, budget):
    trimmed = trim_to_tokens(text, budget)
    assert count_tokens(trimmed) <= max(budget, 0)
    assert trimmed == text or text.startswith(trimmed.removesuffix("…").rstrip())


@given(ANY_TEXT)
def test_a_text_within_its_budget_is_left_alone(text):
    assert trim_to_tokens(text, max(1, count_tokens(text))) == text


def test_a_budget_of_nothing_leaves_nothing():
    assert trim_to_tokens("Some text.", 0) == ""


def test_a_text_is_cut_after_a_sentence_where_that_keeps_most_of_it():
    assert trim_to_tokens("It is late now. We go home soon and then we sleep.", 8) == "It is late now. …"


def test_a_text_is_cut_between_words():
    assert trim_to_tokens("alpha beta gamma delta epsilon", 5) == "alpha beta gamma…"


def test_a_single_long_word_is_cut_inside():
    trimmed = trim_to_tokens("x" * 32_000 + "中" * 100, 10)
    assert trimmed == "" or trimmed.endswith("…")
    assert trim_to_tokens("中" * 100, 10).startswith("中中")
