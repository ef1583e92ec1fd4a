"""Mentions: the traces of entities in a text, by token rules. Pure functions of the text, in linear time."""

import re
from collections.abc import Iterator
from typing import Final

from schemas.limits import NAME_CHARS
from schemas.messages import Mention
from schemas.units import LinkRelation, Unit
from shared.grams import find_known
from shared.identity import fold_key, id_key
from shared.mention_shapes import Found, by_shape, file_type, words_of
from shared.namewords import PARTICLES
from shared.scripts import UNSPACED, script_of

__all__ = ["MENTIONS", "bare_title", "find_known", "find_mentions", "subject_key"]

MENTIONS: Final = 512  # of one text; the first ones, should there be more

_QUOTED: Final = re.compile(
    r"`([^`\n]{1,80})`|“([^”\n]{1,80})”|\"([^\"\n]{1,80})\"|「([^」\n]{1,60})」|『([^』\n]{1,60})』|《([^》\n]{1,60})》"
)
_KATAKANA: Final = re.compile(r"[ァ-ヺー・ｦ-ﾟ]{3,40}")
_SERVICE: Final = re.compile(
    r"[\u4e00-\u9fff]{2,6}(?:サービス|システム|チーム|サーバー?)"
    r"|[\u4e00-\u9fff]{2,4}?(?:服务|服務|系统|系統|团队|團隊|平台|部门|部門|项目|項目|模块|模塊|接口|网关|数据库)"
    r"|[가-힣]{2,10} ?(?:서비스|시스템|팀|서버|플랫폼)"
)
_TEAM_ENDINGS: Final = ("チーム", "团队", "團隊", "팀")
_PARTICLES_CJK: Final = frozenset("的了在是和与及把被对这那我你他她它们从到由为之或并")


def find_mentions(text: str, title: str | None = None) -> tuple[Mention, ...]:
    """Find the mentions of entities in a text by their shape, in order, at most MENTIONS of them.

    Spans are half open and index the text as given. Found: the title where it occurs, quoted names, identifiers, paths
    and file names, acronyms, runs of capitalised words (a sentence's first word only with evidence), names with a number
    or version, and in Chinese, Japanese and Korean katakana runs, bracketed names and names of services. Spans do not
    overlap, but for the bare name inside one with a version or title: "Python" in "Python 3.11".
    """
    words = words_of(text)
    found = [*_titles(text, title), *_quoted(text), *_unspaced(text), *by_shape(text, words)]
    taken = bytearray(len(text))
    chosen: list[Found] = []
    for candidate in sorted(found, key=lambda f: (f.rank, f.start, -f.end)):
        if candidate.base or not any(taken[candidate.start : candidate.end]):
            taken[candidate.start : candidate.end] = b"\x01" * (candidate.end - candidate.start)
            chosen.append(candidate)
    chosen.sort(key=lambda f: (f.start, f.end))
    return tuple(mention for each in chosen if (mention := _mention(text, each)) is not None)[:MENTIONS]


def subject_key(unit: Unit) -> str | None:
    """Return the key of what a unit is about: its title, without a distinguishing bracket, or its only about-link."""
    if unit.title is not None:
        return fold_key(bare_title(unit.title)) or None
    about = [link.entity_id for link in unit.entity_links if link.relation is LinkRelation.ABOUT]
    return id_key(about[0]) if len(about) == 1 else None


def bare_title(title: str) -> str:
    """Return a title without its last bracket, which texts leave out: "Mercury (planet)" is written "Mercury".

    A bracket with a digit stays unless it says what kind of work of which year: "Tax Return (2023)" is not another year's.
    """
    match = re.search(r"\s*\(([^()]{2,60})\)\s*$", title)
    if match is None or not title[: match.start()].strip():
        return title.strip()
    inside = match[1]
    work = re.fullmatch(r"\d{4} (?:[\w ]+ )?(?:film|novel|album|song|series|book|play|opera|game|miniseries)", inside)
    return title[: match.start()].strip() if work or not any(char.isdigit() for char in inside) else title.strip()


def _mention(text: str, found: Found) -> Mention | None:
    surface = text[found.start : found.end]
    key = fold_key(surface)
    if not any(char.isalpha() for char in key) or len(surface) > NAME_CHARS:
        return None
    return Mention(key=key, surface=surface, start=found.start, end=found.end, type_guess=found.type_guess)


def _titles(text: str, title: str | None) -> Iterator[Found]:
    bare = bare_title(title) if title else ""
    if len(bare) < 2:
        return
    lowered, wanted = text.lower(), " ".join(bare.split()).lower()
    if len(lowered) != len(text):  # a character whose lower case is two: then only the same case is found
        lowered, wanted = text, bare
    start = lowered.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        if _is_whole(text, start, end):
            yield Found(start, end, rank=0)
        start = lowered.find(wanted, end)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Say whether neither end of the span is inside a word; scripts without spaces have no such ends."""
    starts_inside = start > 0 and _is_spaced(text[start - 1]) and _is_spaced(text[start])
    ends_inside = end < len(text) and _is_spaced(text[end - 1]) and _is_spaced(text[end])
    return not starts_inside and not ends_inside


def _is_spaced(char: str) -> bool:
    return char.isalnum() and script_of(char) not in UNSPACED


def _quoted(text: str) -> Iterator[Found]:
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 1
        content = match[group]
        inner = content.strip()
        start = match.start(group) + len(content) - len(content.lstrip())
        if inner and _is_name(inner, code=group == 1, bracketed=group >= 4):
            yield Found(start, start + len(inner), rank=1, type_guess=file_type(inner))


def _is_name(inner: str, *, code: bool, bracketed: bool) -> bool:
    words = inner.split()
    if bracketed:
        return len(inner) <= 20 and inner[-1] not in "。！？"
    if inner[-1] in ".,!?;:" or len(words) > (4 if code else 5):
        return False
    # Code is a name as it stands; a quotation is one when it is written like one.
    return code or all(word[0].isupper() or word[0].isdigit() or word in PARTICLES for word in words)


def _unspaced(text: str) -> Iterator[Found]:
    if text.isascii():
        return
    for match in _SERVICE.finditer(text):
        start = match.start() + max(
            (at + 1 for at, char in enumerate(match[0][:-2]) if char in _PARTICLES_CJK), default=0
        )
        if match.end() - start >= 3:
            yield Found(start, match.end(), rank=2, type_guess="team" if match[0].endswith(_TEAM_ENDINGS) else None)
    for match in _KATAKANA.finditer(text):
        surface = match[0].strip("・")
        if len(surface) >= 3:
            start = match.start() + match[0].index(surface)
            yield Found(start, start + len(surface), rank=3)
