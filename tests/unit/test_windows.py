"""A long text is cut into windows that cover it from the first token to the last."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shared.embedders.windows import windows


def test_a_text_that_fits_is_one_window():
    assert [windows(count, 254, 32, 64) for count in (0, 1, 254)] == [[(0, 0)], [(0, 1)], [(0, 254)]]


def test_one_token_more_is_a_second_window():
    assert windows(255, 254, 32, 64) == [(0, 254), (1, 255)]


def test_windows_overlap_by_as_much_as_was_asked():
    """10 + 2 x (10 - 3) = 24 tokens need exactly three."""
    assert windows(24, 10, 3, 64) == [(0, 10), (7, 17), (14, 24)]


def test_beyond_the_most_they_lie_further_apart_and_still_reach_the_end():
    assert windows(100, 10, 3, 3) == [(0, 10), (45, 55), (90, 100)]


def test_a_single_window_is_the_beginning():
    assert windows(100, 10, 3, 1) == [(0, 10)]


@given(st.integers(0, 40_000), st.integers(2, 300), st.data(), st.integers(2, 64))
def test_first_and_last_token_are_always_covered(count, size, data, most):
    overlap = data.draw(st.integers(0, size - 1))
    cut = windows(count, size, overlap, most)
    assert 1 <= len(cut) <= most
    assert (cut[0][0], cut[-1][1]) == (0, count)
    assert all(end - start == min(size, count) for start, end in cut)
    steps = [later[0] - earlier[0] for earlier, later in pairwise(cut)]
    assert all(step > 0 for step in steps)
    if len(cut) < most:
        assert all(step <= size - overlap for step in steps), "no gap, and the overlap that was asked for"
