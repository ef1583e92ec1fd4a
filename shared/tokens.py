"""An estimate of how many tokens a language model will count: per script, on the careful side, without a model's files."""

import re
from bisect import bisect_right
from itertools import accumulate
from string import punctuation
from typing import Final

from shared.scripts import class_of, marks_class, script_of

ELLIPSIS: Final = "…"

_QUARTERS_A_CHAR: Final[dict[str, int]] = {
    # Quarters of a token a character: what older byte-pair vocabularies need (newer ones need less, never more).
    "greek": 3,
    "cyrillic": 2,
    "armenian": 5,
    "georgian": 6,
    "hebrew": 5,
    "arabic": 4,
    "devanagari": 6,
    "indic": 8,
    "thai": 5,
    "lao": 8,
    "khmer": 8,
    "myanmar": 8,
    "tibetan": 8,
    "han": 5,
    "kana": 5,
    "hangul": 6,
    "bopomofo": 8,
    "other": 8,
}
_REPEATS_A_TOKEN: Final = 4  # "-----" and indentation are in every vocabulary, at least in fours
_CHARS_A_TOKEN: Final = {
    "lower": 5,  # an English word of up to five letters is one token, one of six to ten is two
    "upper": 2,  # acronyms and constants are rare words: they fall into pieces
    "digit": 1,  # some vocabularies know no number but the ten digits
    "newline": 1,
    "latin": 1,  # an accented letter breaks its word
    "repeat": _REPEATS_A_TOKEN,
}
PIECES_KEPT: Final = 50_000  # a few MB
PIECE_CHARS: Final = 40  # what is longer is no word, and hardly comes again
_EMOJI_FROM: Final = 0x1F000
_EMOJI_QUARTERS: Final = 12  # three tokens: most emoji are written in bytes
_SYMBOL_QUARTERS: Final = 8  # arrows, box drawing, mathematical signs: one to three bytes' tokens

_OTHER_SCRIPTS: Final = class_of(frozenset(_QUARTERS_A_CHAR))
_PIECE: Final = re.compile(
    rf"(?P<lower>[A-Z]?[a-z]+)|(?P<upper>[A-Z]+)|(?P<digit>\d)|(?P<newline>\n)|(?P<space>[ \t\r\f\v]+)"
    rf"|(?P<latin>[^\W\d_A-Za-z{_OTHER_SCRIPTS}]|[{marks_class()}])"
    rf"|(?P<script>[{_OTHER_SCRIPTS}])"
    rf"|(?P<repeat>(?P<mark>[!-/:-@\[-`{{-~])(?P=mark)*)"
    rf"|(?P<symbol>.)",
    re.DOTALL,
)
_REPEATS: Final = "|".join(f"{re.escape(mark)}+" for mark in punctuation)
_PLAIN_PIECE: Final = re.compile(rf"[A-Z]?[a-z]+|[A-Z]+|\d|\n|[ \t\r\f\v]+|{_REPEATS}|.", re.DOTALL)
"""The same pieces without their names, which costs a quarter of the time: a piece's kind follows from the piece alone."""

_BOUNDARY: Final = re.compile(r"[.!?…。！？]['\"”’)\]」』]*\s+|[。！？]|\n+")


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text; 0 for the empty text, at least 1 for any other. Meant to err upwards."""
    return -(-sum(map(_COSTS.__getitem__, _PLAIN_PIECE.findall(text))) // 4)


def _pieces(text: str) -> tuple[list[int], list[int]]:
    """Return where each piece ends, and its quarters of a token; pieces stand side by side and cost what they cost alone."""
    pieces = _PLAIN_PIECE.findall(text)
    return list(accumulate(map(len, pieces))), [_COSTS[piece] for piece in pieces]


class _Costs(dict[str, int]):
    """Quarters of a token by piece, remembered: a text's pieces are words, and words repeat."""

    def __missing__(self, piece: str) -> int:
        match = _PIECE.match(piece)
        cost = _quarters(match.lastgroup or "symbol", match[0]) if match else 0
        if len(piece) <= PIECE_CHARS:
            if len(self) >= PIECES_KEPT:
                self.clear()
            self[piece] = cost
        return cost


def _quarters(kind: str, piece: str) -> int:
    if kind == "script":
        return _QUARTERS_A_CHAR[script_of(piece)]
    if kind == "symbol":
        return _EMOJI_QUARTERS if ord(piece) >= _EMOJI_FROM else _SYMBOL_QUARTERS
    if kind == "space":
        # A single space belongs to the word after it.
        return 0 if piece == " " else 4 * (1 + len(piece) // _REPEATS_A_TOKEN)
    return 4 * -(-len(piece) // _CHARS_A_TOKEN[kind])


_COSTS: Final = _Costs()


def trim_to_tokens(text: str, budget: int) -> str:
    """Cut a text to at most ``budget`` tokens by `count_tokens`: at the end of a sentence where that keeps most of it,
    else between words, else within one; with an ellipsis. Too small a budget for any of it gives the empty text.
    """
    if budget <= 0:
        return ""
    ends, quarters = _pieces(text)
    totals = list(accumulate(quarters))
    if not totals or totals[-1] <= 4 * budget:
        return text
    room = 4 * (budget - count_tokens(ELLIPSIS))
    fitting = bisect_right(totals, room)
    return _cut(text, ends[fitting - 1]) if fitting else ""


def _cut(text: str, longest: int) -> str:
    head = text[:longest]
    sentence = max((match.end() for match in _BOUNDARY.finditer(head)), default=0)
    if sentence >= longest * 0.6:  # a whole sentence is worth more than the words after it, up to a point
        return f"{head[:sentence].rstrip()} {ELLIPSIS}" if head[:sentence].strip() else ""
    if not _between_words(text, longest):
        space = max(head.rfind(" "), head.rfind("\n"))
        head = head[:space] if space > longest // 2 else head
    head = head.rstrip()
    return head + ELLIPSIS if head else ""


def _between_words(text: str, at: int) -> bool:
    return not (text[at - 1].isalnum() and text[at : at + 1].isalnum())
