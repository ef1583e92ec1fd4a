"""Lines of a file as events: a line that cannot be one is refused, whatever is in it, and stops no other."""

import pytest

from compose.cli.lines import Refused, read_lines

GOOD = '{"text": "The ferry Alca carries 212 passengers."}'


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[" * 100_000,
        '{"text": "a lone surrogate \\ud800"}',
        '{"text": "bytes that are no text \udcff"}',
        '{"text": "no number", "metadata": {"share": NaN}}',
        '{"text": "endless", "metadata": {"share": Infinity}}',
        '{"text": 5}',
        '{"text": "more than a number holds", "revision": ' + "9" * 5_000 + "}",
        '{"text": "below", "revision": -1}',
        "[]",
    ],
    ids=lambda line: line[:30].encode("ascii", "backslashreplace").decode(),
)
def test_a_line_that_is_no_event_is_refused_and_the_next_is_read(line):
    read = list(read_lines([line, GOOD], tenant="acme", source="tests", scope="team/fleet"))
    assert [one.line for one in read[:-1] if isinstance(one, Refused)] == [1]
    assert not isinstance(read[-1], Refused)
    assert read[-1][1]["data"]["text"] == "The ferry Alca carries 212 passengers."
