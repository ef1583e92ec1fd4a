"""Scripts of characters: which words are cut into bigrams, which marks are accents and which are letters."""

import unicodedata
from bisect import bisect_right
from functools import lru_cache
from typing import Final

# (first code point, script) of every block that the analyser or the token estimate treats in a way of its own;
# a block ends where the next begins. Unassigned gaps belong to the block before them.
_BLOCKS: Final[tuple[tuple[int, str], ...]] = (
    (0x0000, "common"), (0x0041, "latin"), (0x005B, "common"), (0x0061, "latin"), (0x007B, "common"),
    (0x00AA, "latin"), (0x00AB, "common"), (0x00BA, "latin"), (0x00BB, "common"), (0x00C0, "latin"),
    (0x00D7, "common"), (0x00D8, "latin"), (0x00F7, "common"), (0x00F8, "latin"), (0x02B0, "common"),
    (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "armenian"), (0x0590, "hebrew"), (0x0600, "arabic"),
    (0x0700, "other"), (0x0750, "arabic"), (0x0780, "other"), (0x0870, "arabic"), (0x0900, "devanagari"),
    (0x0980, "indic"), (0x0E00, "thai"), (0x0E80, "lao"), (0x0F00, "tibetan"), (0x1000, "myanmar"),
    (0x10A0, "georgian"), (0x1100, "hangul"), (0x1200, "other"), (0x1780, "khmer"), (0x1800, "other"),
    (0x1C80, "cyrillic"), (0x1C90, "georgian"), (0x1CC0, "other"), (0x1D00, "latin"), (0x1DC0, "common"),
    (0x1E00, "latin"), (0x1F00, "greek"), (0x2000, "common"), (0x2C60, "latin"), (0x2C80, "other"),
    (0x2DE0, "cyrillic"), (0x2E00, "common"), (0x2E80, "han"), (0x2FE0, "common"), (0x3005, "han"),
    (0x3008, "common"), (0x3021, "han"), (0x302A, "common"), (0x3041, "kana"), (0x3100, "bopomofo"),
    (0x3130, "hangul"), (0x3190, "common"), (0x31A0, "bopomofo"), (0x31C0, "common"), (0x31F0, "kana"),
    (0x3200, "common"), (0x3400, "han"), (0x4DC0, "common"), (0x4E00, "han"), (0xA000, "other"),
    (0xA640, "cyrillic"), (0xA6A0, "other"), (0xA720, "latin"), (0xA800, "other"), (0xA8E0, "devanagari"),
    (0xA900, "other"), (0xA960, "hangul"), (0xA980, "other"), (0xA9E0, "myanmar"), (0xAA00, "other"),
    (0xAB30, "latin"), (0xAB70, "other"), (0xAC00, "hangul"), (0xD800, "other"), (0xF900, "han"),
    (0xFB00, "latin"), (0xFB13, "armenian"), (0xFB1D, "hebrew"), (0xFB50, "arabic"), (0xFE00, "common"),
    (0xFE70, "arabic"), (0xFEFF, "common"), (0xFF21, "latin"), (0xFF3B, "common"), (0xFF41, "latin"),
    (0xFF5B, "common"), (0xFF66, "kana"), (0xFFA0, "hangul"), (0xFFE0, "common"), (0x10000, "other"),
    (0x1AFF0, "kana"), (0x1B170, "other"), (0x1D400, "common"), (0x1E000, "other"), (0x1F000, "common"),
    (0x20000, "han"), (0x323B0, "other"), (0xE0000, "common"),
)  # fmt: skip
_STARTS: Final = tuple(start for start, _ in _BLOCKS)

UNSPACED: Final = frozenset({"han", "kana", "hangul", "bopomofo", "thai", "lao", "khmer", "myanmar"})
"""Scripts that are written without spaces between words, or (Hangul) glue particles to them: cut into bigrams."""

ACCENTED: Final = frozenset({"latin", "greek", "hebrew", "arabic"})
"""Scripts in which a mark may be left out by a writer who means the same word. In Cyrillic й and и differ, in kana
が and か, and in Indic scripts a mark is a vowel."""


@lru_cache(maxsize=8192)
def script_of(char: str) -> str:
    """Name the script of one character, in lower case; ``common`` for digits, punctuation, symbols and shared marks."""
    return _BLOCKS[bisect_right(_STARTS, ord(char)) - 1][1]


def class_of(scripts: frozenset[str]) -> str:
    """Return the inside of a regular expression's character class that holds the blocks of these scripts."""
    parts = []
    for index, (start, script) in enumerate(_BLOCKS):
        if script in scripts:
            end = _BLOCKS[index + 1][0] - 1
            parts.append(f"{_escape(start)}-{_escape(end)}")
    return "".join(parts)


def marks_class() -> str:
    """Return the inside of a character class of all combining marks: in a word, but no word characters to `re`."""
    parts: list[str] = []
    start: int | None = None
    for point in range(0x0300, 0x12000):  # marks of living scripts; variation selectors and tags are no letters
        is_mark = unicodedata.category(chr(point)).startswith("M") and not 0xFE00 <= point <= 0xFE0F
        if is_mark and start is None:
            start = point
        elif not is_mark and start is not None:
            parts.append(f"{_escape(start)}-{_escape(point - 1)}")
            start = None
    return "".join(parts)


def _escape(point: int) -> str:
    return f"\\U{point:08x}"
