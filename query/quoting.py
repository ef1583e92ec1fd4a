"""Quoting: unit text inside a context is data. It cannot close the block, open another, or pass for an entry of its own."""

import re
import unicodedata
from typing import Final

INDENT: Final = "    "
FIELD_CHARS: Final = 80
"""Longest name, id or source in an entry's heading; the whole value is in the citation."""

_BRACKETS: Final = {
    "<": "&lt;",
    "\uff1c": "&lt;",
    "\ufe64": "&lt;",
    "\u2039": "&lt;",
    "\u3008": "&lt;",
    "\u27e8": "&lt;",
    "\u276e": "&lt;",
}
"""Whatever a reader, or a reader after normalisation, may take for the beginning of a tag."""

_SUSPECT: Final = re.compile(r"[^ -~\n]")
"""Whatever is not printable ASCII is looked at one by one."""

_ENTITY: Final = re.compile(r"&(?=(?:amp|lt|gt|#)\w*;?)")
_BREAKS: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n)+")


def quote_text(text: str) -> str:
    """Return a text as it stands in a context: tags escaped (``&lt;``, and ``&amp;`` where it stood for itself), later
    lines indented so that only headings begin a line, and no invisible or direction-changing characters.
    """
    visible = _SUSPECT.sub(_visible, _BREAKS.sub("\n", text))
    lines = _BLANK_LINES.sub("\n", _escape(visible).strip())
    return lines.replace("\n", f"\n{INDENT}")


def quote_field(text: str) -> str:
    """Return a name for a heading: one line, no separator of ours, at most ``FIELD_CHARS`` characters."""
    line = " ".join(quote_text(text).split()).replace("·", "-").replace('"', "'").replace(": ", " - ")
    return line if len(line) <= FIELD_CHARS else line[: FIELD_CHARS - 1] + "…"


def _escape(text: str) -> str:
    escaped = _ENTITY.sub("&amp;", text)
    for bracket, entity in _BRACKETS.items():
        escaped = escaped.replace(bracket, entity)
    return escaped


def _visible(match: re.Match[str]) -> str:
    """Tab and all but control and format characters stay; joiners too, since scripts and emoji need them."""
    char = match[0]
    kept = char in "\t\u200c\u200d" or unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cs")
    return char if kept else ""
