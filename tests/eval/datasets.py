"""Evaluation sets as units and labelled questions. The data is read from beside the checkout and never copied in."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DEFAULT_FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@dataclass(frozen=True)
class Item:
    """One text to index: ``unit`` holds the unit's fields beside text, type and scope; ``where`` is its group."""

    id: str
    text: str
    where: str
    unit: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Labelled:
    """A question with the ids of what answers it, asked within its group."""

    id: str
    text: str
    where: str
    gold: frozenset[str]
    category: str = "all"


@dataclass(frozen=True)
class Dataset:
    """A set: what is indexed, what is asked, and the measure that is its headline."""

    name: str
    items: tuple[Item, ...]
    questions: tuple[Labelled, ...]
    headline: str


def folder() -> Path:
    """Return the folder of the sets: CORTEX_EVAL_DATA or the sibling of the checkout."""
    return Path(os.environ.get("CORTEX_EVAL_DATA", DEFAULT_FOLDER))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def locomo(root: Path) -> Dataset:
    """Chat turns of ten conversations; a question searches its own; adversarial ones are left out, as is usual."""
    items = []
    turns: dict[str, int] = {}
    for row in lines(root / "locomo" / "units.jsonl"):
        session = f"{row['conv']}/s{row['session']}"
        turns[session] = turns.get(session, -1) + 1
        caption = f" [shared a picture: {row['image_caption']}]" if row.get("image_caption") else ""
        at = datetime.strptime(row["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        unit = {"type": "conversation", "session_id": session, "turn": turns[session], "occurred_at": at.isoformat()}
        items.append(Item(row["id"], f"{row['speaker']}: {row['text']}{caption}", row["conv"], unit))
    questions = tuple(
        Labelled(row["id"], row["question"], row["conv"], frozenset(row["gold"]), row["category"])
        for row in lines(root / "locomo" / "queries.jsonl")
        if row["gold"] and row["category"] != "adversarial"
    )
    return Dataset("locomo", tuple(items), questions, "recall@10")


def two_wiki(root: Path) -> Dataset:
    """Passages titled by their entity; questions need two or more of them."""
    return _titled(root, "2wiki", "passages.jsonl.gz")


def stackfaq(root: Path) -> Dataset:
    """How-to threads indexed by their answers alone; people's paraphrases of the title ask for them."""
    items = tuple(
        Item(row["id"], "\n".join(row["answers"]), "all", {"type": "error_fix"})
        for row in lines(root / "stackfaq" / "threads.jsonl")
    )
    questions = tuple(
        Labelled(row["id"], row["question"], "all", frozenset(row["gold"]))
        for row in lines(root / "stackfaq" / "queries.jsonl")
    )
    return Dataset("stackfaq", items, questions, "mrr@10")


def scifact(root: Path) -> Dataset:
    """Abstracts of papers; a claim asks for those that it cites."""
    items = tuple(
        Item(row["id"], " ".join(row["sentences"]), "all", {"title": row["title"][:500], "type": "context"})
        for row in lines(root / "scifact" / "corpus.jsonl.gz")
    )
    questions = tuple(
        Labelled(row["id"], row["claim"], "all", frozenset(row["cited"]))
        for row in lines(root / "scifact" / "claims.jsonl")
        if row["cited"]
    )
    return Dataset("scifact", items, questions, "recall@10")


def hotpotqa(root: Path) -> Dataset:
    """Passages titled by their entity; questions need two of them."""
    return _titled(root, "hotpotqa", "passages.jsonl")


def musique(root: Path) -> Dataset:
    """Passages titled by their entity; questions need two to four of them."""
    return _titled(root, "musique", "passages.jsonl.gz")


def _titled(root: Path, name: str, passages: str) -> Dataset:
    items = tuple(
        Item(row["id"], row["text"], "all", {"title": row["title"][:500], "type": "context"})
        for row in lines(root / name / passages)
    )
    questions = tuple(
        Labelled(row["id"], row["question"], "all", frozenset(row["gold"]))
        for row in lines(root / name / "queries.jsonl")
    )
    return Dataset(name, items, questions, "recall@10")


SETS = {
    "locomo": locomo,
    "2wiki": two_wiki,
    "stackfaq": stackfaq,
    "scifact": scifact,
    "hotpotqa": hotpotqa,
    "musique": musique,
}
DEFAULT = ("locomo", "2wiki", "stackfaq")
"""The sets that are run where none are named: the others take another ten minutes."""
