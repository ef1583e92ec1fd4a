"""A cached result is named by everything it depends on, and by nothing that can be read."""

from hypothesis import given
from hypothesis import strategies as st

from shared.caches.keys import cache_key


def test_a_key_says_its_kind_and_nothing_of_the_question():
    key = cache_key("query-vector", "all-MiniLM-L6-v2/plain", "Who was let go in March?")
    assert key.startswith("cortex:1:query-vector:")
    assert not {"who", "march", "let", "minilm"} & set(key.lower().replace("-", ":").split(":"))


def test_parts_are_told_apart():
    assert (
        len({cache_key("k", "ab", "c"), cache_key("k", "a", "bc"), cache_key("k", "abc"), cache_key("j", "abc")}) == 4
    )


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_the_same_parts_give_the_same_key(parts):
    """Any text at all, lone surrogates included."""
    assert cache_key("k", *parts) == cache_key("k", *parts)
