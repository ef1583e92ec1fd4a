"""The one analyser: what both stores index and what questions ask with (design, section 7).

Terms hold letters, combining marks, digits, ``_``, ``.`` and ``-`` only, so a tokenizer that splits at white space suffices.
"""

import re
import threading
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Final, Protocol

import snowballstemmer

from shared.scripts import ACCENTED, UNSPACED, class_of, marks_class, script_of
from shared.stopwords import BY_LANGUAGE, BY_SCRIPT, ENGLISH, ENGLISH_EVIDENCE, EVIDENCE, words

__all__ = ["compatible", "fold", "language_of", "query_terms", "script_of", "sentences", "strip_accents", "terms"]

TERM_CHARS: Final = 64  # longer words are cut into pieces: nobody asks for them whole, and an index page holds few
LANGUAGE_WORDS: Final = 80  # function words come early and often: more words do not change the verdict

MARKS: Final = marks_class()
_UNSPACED: Final = class_of(UNSPACED)
_IGNORABLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]")
# Letter-like signs that have no decomposition although readers leave the stroke out.
_STROKES: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ŧ": "t"}
)
_DIGIT_FORMS: Final = re.compile(
    "[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2189\u2460-\u249b\u24ea-\u24ff]+"
)

# A token: word characters joined by single connectors, each followed by a word character (so the match is linear).
_WORD: Final = rf"(?:[^\W{_UNSPACED}]|[{MARKS}])"
_CONNECTOR: Final = r"(?:::|[-._/\\:@&'’‐‑]|(?<=\d),(?=\d))"
_TOKEN: Final = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?P<signed>[A-Za-z](?:\+\+|#)(?!\w))"
    rf"|(?P<word>{_WORD}+(?:{_CONNECTOR}{_WORD}+)*)"
)  # fmt: skip
_ASCII_TOKEN: Final = re.compile(
    r"(?P<unspaced>(?!))|(?P<signed>[A-Za-z](?:\+\+|#)(?!\w))"
    r"|(?P<word>\w+(?:(?:::|[-./\\:@&']|(?<=\d),(?=\d))\w+)*)",
    re.ASCII,
)
_SIGNED: Final = {"++": "plusplus", "#": "sharp"}
_SEGMENT: Final = re.compile(r"::|[/\\:@&]")
_PART: Final = re.compile(r"[-._,‐‑]+")
_CAMEL: Final = re.compile(r"[^\W\d_]+|\d+")
_HUMP: Final = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NUMBER: Final = re.compile(r"\d+(?:[-.,:/]\d+)*")
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_HEXADECIMAL: Final = re.compile(r"(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{7,}")
_ELISION: Final = re.compile(r"(?:[ldjnsmtc]|qu|dell|all|nell|sull|un)['’](?=\w\w)", re.IGNORECASE)
_ELIDING: Final = frozenset({"french", "italian"})
_SCRIPT_LANGUAGE: Final = {"cyrillic": "russian", "greek": "greek", "arabic": "arabic", "armenian": "armenian"}


def compatible(text: str) -> str:
    """Normalise to NFKC without letting a raised, lowered, circled or fractional digit run into a plain one beside it.

    ``10²`` must not become ``102`` (invariant 4); it becomes ``10^2``. Invisible format characters are dropped.
    """
    if text.isascii():
        return text
    text = _DIGIT_FORMS.sub(_apart, text)
    return unicodedata.normalize("NFKC", _IGNORABLE.sub("", text))


def _apart(match: re.Match[str]) -> str:
    text = match.string
    before = match.start() > 0 and text[match.start() - 1].isnumeric()
    after = match.end() < len(text) and text[match.end()].isnumeric()
    return f"{'^' if before else ''}{match[0]}{'^' if after else ''}"


def fold(text: str) -> str:
    """Fold what a reader does not tell apart: compatibility forms (NFKC), case, white space. Accents stay. Idempotent."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = compatible(unicodedata.normalize("NFKC", compatible(text)).casefold())
    return " ".join(_lower_i(folded).split())


def _lower_i(folded: str) -> str:
    """Write the folded Turkish capital İ (i and a dot above) as i."""
    return unicodedata.normalize("NFC", folded.replace("i\u0307", "i"))


def strip_accents(folded: str) -> str:
    """Leave out accents where a writer may (Latin, Greek, Hebrew, Arabic); strokes and ligatures are spelled out."""
    if folded.isascii():
        return folded
    out: list[str] = []
    accented = False
    for char in unicodedata.normalize("NFD", folded.translate(_STROKES)):
        if unicodedata.category(char) == "Mn":
            if accented:
                continue
        else:
            accented = script_of(char) in ACCENTED
        out.append(char)
    return unicodedata.normalize("NFC", "".join(out)).replace("ё", "е")


def terms(text: str) -> list[str]:
    """Analyse a text into index terms, in order, repeated as they occur. Symbols alone give none."""
    text = compatible(text)
    tokens = _tokens(text)
    language = _language(tokens)
    out: list[str] = []
    for kind, token in tokens:
        out.extend(_terms_of(kind, token, language))
    return out


def query_terms(text: str) -> list[str]:
    """Analyse a question: the terms of `terms`, each once, without stop and question words unless nothing else remains.

    A capital in the middle of the question is a name, whatever its letters spell: ``IT``, or the A of ``Service A``.
    """
    text = compatible(text)
    tokens = _tokens(text)
    language = _language(tokens)
    shouting = text.isupper()
    out: dict[str, None] = {}
    for place, (kind, word) in enumerate(tokens):
        named = place > 0 and word.isupper() and word != "I" and not shouting
        if kind == "word" and not named and _is_stop_word(word, language):
            continue
        out.update(dict.fromkeys(_terms_of(kind, word, language)))
    return list(out) or list(dict.fromkeys(terms(text)))


def language_of(text: str) -> str:
    """Guess the language of a text's Latin words by its function words; ``english`` without better evidence."""
    return _language(_tokens(compatible(text)))


def _tokens(text: str) -> list[tuple[str, str]]:
    pattern = _ASCII_TOKEN if text.isascii() else _TOKEN
    return [(match.lastgroup or "word", match[0]) for match in pattern.finditer(text)]


def _language(tokens: list[tuple[str, str]]) -> str:
    votes: dict[str, int] = {}
    english = 0
    for _, token in tokens[:LANGUAGE_WORDS]:
        word = token.lower()
        if word in ENGLISH_EVIDENCE:
            english += 1
        for language in EVIDENCE.get(word, ()):
            votes[language] = votes.get(language, 0) + 1
    if not votes:
        return "english"
    best, count = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    # One foreign word is a name ("La Paz", "Los Angeles"); two that outnumber English are a language.
    return best if count >= 2 and count > english else "english"


def _is_stop_word(token: str, language: str) -> bool:
    word = _plain_word(token, language)
    if word in ENGLISH or word in BY_LANGUAGE.get(language, frozenset()):
        return True
    return any(word in listed for listed in BY_SCRIPT.values())


def _terms_of(kind: str, token: str, language: str) -> tuple[str, ...]:
    return _remembered(kind, token, language) if len(token) <= TERM_CHARS else _analyse(kind, token, language)


@lru_cache(maxsize=200_000)
def _remembered(kind: str, token: str, language: str) -> tuple[str, ...]:
    return _analyse(kind, token, language)


def _analyse(kind: str, token: str, language: str) -> tuple[str, ...]:
    """Return the terms of one token."""
    if kind == "unspaced":
        return _bigrams(token)
    if kind == "signed":
        return (token[0].lower() + _SIGNED[token[1:]],)
    token = _without_apostrophe(token, language)
    if token.isalpha() and len(token) <= TERM_CHARS and not _HUMP.search(token):
        return _word_forms(token, language)
    if _NUMBER.fullmatch(token) and token.isascii():
        return _number_terms(token)
    return _identifier_terms(token, language)


def _bigrams(run: str) -> tuple[str, ...]:
    run = unicodedata.normalize("NFC", run.casefold())
    return (run,) if len(run) == 1 else tuple(first + second for first, second in pairwise(run))


def _without_apostrophe(token: str, language: str) -> str:
    if "'" not in token and "’" not in token:
        return token
    if language in _ELIDING:
        token = _ELISION.sub("", token, count=1)
    token = re.sub(r"['’][sS]$", "", token)
    return token.replace("'", "").replace("’", "")


def _plain_word(token: str, language: str) -> str:
    return _lower_i(_without_apostrophe(token, language).casefold())


def _word_forms(word: str, language: str) -> tuple[str, ...]:
    """Return the stems of a word: in the text's language and in English, with accents and without."""
    folded = _lower_i(word.casefold())
    plain = strip_accents(folded)
    script = "latin" if folded.isascii() else script_of(folded[0])
    if script != "latin":
        stem = _stem(folded, _SCRIPT_LANGUAGE[script]) if script in _SCRIPT_LANGUAGE and _is_pure(folded) else folded
        return tuple(dict.fromkeys((stem, strip_accents(stem))))
    if not _is_pure(folded):
        return tuple(dict.fromkeys((folded, plain)))
    # The question may be in another language than the text, or too short to tell: English is the common ground.
    stems = (_stem(folded, language), _stem(plain, language), _stem(plain, "english"))
    return tuple(dict.fromkeys(stems))


def _is_pure(word: str) -> bool:
    """Say whether all letters are of one script: a look-alike from another one must not be stemmed or taken for it."""
    return word.isascii() or len({script_of(char) for char in word} - {"common"}) == 1


def _number_terms(token: str) -> tuple[str, ...]:
    if _GROUPED.fullmatch(token):
        token = token.replace(",", "")
    whole = re.sub(r"[,:/]", ".", token)
    # Years and other long parts are asked for alone; "3" and "5" of 3.5 would only be noise.
    parts = [part for part in re.split(r"[-.]", whole) if len(part) >= 3 and part != whole]
    return tuple(_cut([whole, *parts]))


def _identifier_terms(token: str, language: str) -> tuple[str, ...]:
    """Return a compound whole and in parts: paths by segment, then by separator, then by hump and digit."""
    out: dict[str, None] = {}
    whole = _whole(_SEGMENT.sub(".", token))
    if len(whole) <= TERM_CHARS:
        out[whole] = None
        out[strip_accents(whole)] = None
    for segment in _SEGMENT.split(token):
        name = _whole(segment)
        if len(name) <= TERM_CHARS and segment:
            out.update(
                dict.fromkeys(_word_forms(segment, language) if segment.isalpha() else (name, strip_accents(name)))
            )
        parts = [part for part in _PART.split(segment) if part]
        if len(parts) == 2 and all(part.isalpha() for part in parts) and "-" in segment and len(name) <= TERM_CHARS:
            out.update(dict.fromkeys(_word_forms("".join(parts), language)))  # back-end is also written backend
        for part in parts:
            out.update(dict.fromkeys(_part_terms(part, language, alone=len(parts) == 1)))
    return tuple(out)


def _whole(segment: str) -> str:
    return _lower_i(segment.casefold()).replace("‐", "-").replace("‑", "-").replace(",", ".").strip("-.")


def _part_terms(part: str, language: str, *, alone: bool) -> list[str]:
    found: list[str] = []
    if not alone or len(part) > TERM_CHARS:
        found.extend(
            _word_forms(part, language) if part.isalpha() and len(part) <= TERM_CHARS else _cut([_whole(part)])
        )
    if _HEXADECIMAL.fullmatch(part):
        return found
    for hump in _HUMP.split(part):
        pieces = _CAMEL.findall(hump)
        if len(pieces) == 1 and hump == part:
            continue
        # "v2" and "h2o" stay whole: their single letters and digits say nothing alone.
        for piece in pieces:
            if 2 <= len(piece) <= TERM_CHARS:
                found.extend(_word_forms(piece, language) if piece.isalpha() else (piece,))
    return found


def _cut(whole: list[str]) -> list[str]:
    return [word[at : at + TERM_CHARS] for word in whole for at in range(0, len(word), TERM_CHARS)]


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 -- the library's name


_stemmers = threading.local()  # a stemmer keeps the word it works on: one a thread


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    stemmer: _Stemmer | None = getattr(_stemmers, language, None)
    if stemmer is None:
        stemmer = snowballstemmer.stemmer(language)
        setattr(_stemmers, language, stemmer)
    return stemmer.stemWord(word) or word


_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？｡]++[」』”’）]*+|(?<!\s)\s*?\n\s*+", re.ASCII)
_ABBREVIATION: Final = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|etc|cf|no|fig|inc|ltd|approx|dept)\.", re.IGNORECASE
)
_LETTERED: Final = words(
    "service plan team option gate vitamin class type group section version phase part grade level point item step and or"
    " hepatitis appendix figure case building zone model variant candidate"
)


def sentences(text: str) -> list[tuple[int, int]]:
    """Return half-open spans of sentences, in order, without the white space around them; together they hold all else.

    A line break ends a sentence unless the next line goes on in lower case.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        if match[0] == "." and _is_abbreviation(text, start, match.end()):
            continue
        if match[0].isspace() and match[0].count("\n") == 1 and text[match.end() : match.end() + 1].islower():
            continue
        _add_trimmed(spans, text, start, match.end())
        start = match.end()
    _add_trimmed(spans, text, start, len(text))
    return spans


def _is_abbreviation(text: str, start: int, end: int) -> bool:
    """Say whether the full stop before ``end`` belongs to a word: "Dr.", or the T of "John T. Doe", not "Service B."."""
    near = text[max(start, end - 40) : end].split()
    last = near[-1].lstrip("(\"'“")
    if _ABBREVIATION.fullmatch(last):
        return True
    initial = len(last) == 2 and last[0].isupper()
    return initial and (len(near) < 2 or (near[-2][0].isupper() and near[-2].lower() not in _LETTERED))


def _add_trimmed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end -= len(piece) - len(piece.rstrip())
    if start < end:
        spans.append((start, end))
