"""Split a document into parts by headings, then paragraphs, each with the path of its headings as its title."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PART_CHARS = 1_800  # about 400 tokens: a part is one answer's worth and fits the embedder's window in two chunks
TITLE_PARTS = 4  # of a deep heading path, the outermost and the innermost say the most
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
SETEXT = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
HEADED = re.compile(r"\S")
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
FRONT_TITLE = re.compile(r"^title:[ \t]*[\"']?(.+?)[\"']?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A part's heading path and its text; joined in order, the texts are the document but for blank lines."""

    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class _Block:
    """Lines that belong together: a paragraph or a whole fenced block."""

    headings: tuple[str, ...]
    text: str


def split_document(text: str, limit: int = PART_CHARS) -> list[Part]:
    """Split a text into parts of at most ``limit`` characters.

    A fenced block stays whole unless it alone is longer; a paragraph that is too long is cut at sentences, then words,
    and a word that is too long is cut where the limit falls. A text of only white space has no parts.
    """
    parts: list[Part] = []
    for block in _blocks(FRONT_MATTER.sub(r"\1\n\n", text, count=1)):
        for piece in _pieces(block.text, limit):
            last = parts[-1] if parts else None
            if last and last.headings == block.headings and len(last.text) + 2 + len(piece) <= limit:
                parts[-1] = Part(last.headings, f"{last.text}\n\n{piece}")
            else:
                parts.append(Part(block.headings, piece))
    return parts


def document_title(text: str, name: str) -> str:
    """Return a document's title: its front matter's, else its one top heading, else its file's name."""
    front = FRONT_MATTER.match(text)
    titled = FRONT_TITLE.search(front[1]) if front else None
    if titled:
        return titled[1]
    roots = {block.headings[:1] for block in _blocks(text)}
    return next(iter(roots))[0] if len(roots) == 1 and () not in roots else name


def title_of(part: Part, document: str) -> str:
    """Return a part's title: the document's and the headings that lead to it, ``npm-audit › Examples``."""
    path = part.headings if part.headings[:1] == (document,) else (document, *part.headings)
    if len(path) > TITLE_PARTS:
        path = (path[0], "…", *path[-2:])
    return " › ".join(path)[:480]


def _blocks(text: str) -> Iterator[_Block]:
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fence: str | None = None

    def close() -> Iterator[_Block]:
        block = "\n".join(lines).strip("\n")
        if HEADED.search(block):
            yield _Block(tuple(name for _, name in path), block)
        lines.clear()

    for line in text.splitlines():
        marker = FENCE.match(line)
        if fence is not None:
            lines.append(line)
            if marker and marker[1][0] == fence[0] and len(marker[1]) >= len(fence):
                fence = None
                yield from close()
            continue
        if marker:
            yield from close()
            fence = marker[1]
            lines.append(line)
            continue
        heading = _heading(line, lines)
        if heading:
            yield from close()
            level, name = heading
            path[:] = [(above, title) for above, title in path if above < level] + [(level, name)]
        elif not line.strip():
            yield from close()
        else:
            lines.append(line)
    yield from close()


def _heading(line: str, before: list[str]) -> tuple[int, str] | None:
    """Return level and name when the line makes a heading; a setext underline takes its one line out of ``before``."""
    atx = ATX.match(line)
    if atx and atx[2]:
        return len(atx[1]), atx[2]
    setext = SETEXT.match(line)
    if setext and len(before) == 1 and len(setext[1]) > 1:
        return (1 if setext[1][0] == "=" else 2), before.pop().strip()
    return None


def _pieces(text: str, limit: int) -> Iterator[str]:
    rest = text
    while len(rest) > limit:
        cut = _cut(rest, limit)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip("\n ")
    if rest.strip():
        yield rest


def _cut(text: str, limit: int) -> int:
    """Return where to cut: the last line, sentence or word that ends in the second half of the limit."""
    for mark in ("\n", ". ", "。", " "):
        at = text.rfind(mark, limit // 2, limit)
        if at > 0:
            return at + len(mark)
    return limit
