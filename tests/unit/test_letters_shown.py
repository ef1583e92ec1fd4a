"""Dead letters on a terminal: each says in words what was wrong, whatever that is made of."""

import io

from rich.console import Console

from compose.cli.letters import DETAIL_CHARS, table_of


def letter(**changes: object) -> dict:
    return {
        "id": "l1", "failed_at": "2026-03-01T10:00:00Z", "event_id": "e1", "topic": "cortex.events", "partition": 1,
        "offset": 9, "stage": "embed", "cause": "invalid-input", "detail": "", "attempts": 1, "state": "open", **changes,
    }  # fmt: skip


def printed(*letters: dict, width: int = 400) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table_of(letters))
    return console.file.getvalue()  # type: ignore[attr-defined] # the one above


def test_the_list_says_field_and_limit_beside_the_cause():
    shown = printed(letter(detail="/data/text: the text is empty (limit: at least 1 long)"))
    assert "invalid-input" in shown
    assert "/data/text: the text is empty (limit: at least 1 long)" in shown


def test_what_has_no_id_is_named_by_its_place_and_a_long_reason_is_cut_with_a_hint():
    shown = printed(letter(event_id=None, detail="a" * (DETAIL_CHARS + 1)))
    assert "cortex.events-1-9" in shown
    assert "a" * DETAIL_CHARS + " …" in shown
    assert "a" * (DETAIL_CHARS + 1) not in shown


def test_square_brackets_in_a_reason_are_no_markup():
    assert "[bold]loud[/bold]" in printed(letter(detail="[bold]loud[/bold]"))


def test_an_id_stands_whole_in_a_narrow_terminal():
    """It is what `show`, `replay` and `discard` are given."""
    ids = [f"{number:032x}" for number in (1, 2)]
    shown = printed(*(letter(id=one, detail="the text is empty") for one in ids), width=80)
    assert all(one in shown for one in ids)
