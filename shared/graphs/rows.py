"""What one contribution says, as rows between entity keys: a pure function of the contribution."""

from itertools import combinations
from typing import Final, NamedTuple

from schemas.graph import Contribution

MENTIONED_WITH: Final = "mentioned_with"
SUBJECT_WEIGHT: Final = (
    0.5  # what a text is about is tied to what it mentions: two such units tie as well as three of four
)
MENTION_WEIGHT: Final = 0.15  # two things that stand in one text may have little to do with each other
PAIRS: Final = 64  # a unit; a page that lists a hundred names says little of any two of them
RANKED_MENTIONS: Final = 12  # their 66 pairs are more than the cap lets through


class Row(NamedTuple):
    """An edge between two keys, supported by one contribution. ``MENTIONED_WITH`` has no direction; weight in (0, 1]."""

    source: str
    relation: str
    target: str
    weight: float


def edges_of(contribution: Contribution) -> list[Row]:
    """Return its stated edges and its co-mention pairs, the latter at most `PAIRS`, the strongest first, ties by key."""
    stated = [Row(edge.source, edge.relation, edge.target, edge.weight) for edge in contribution.edges]
    return stated + _co_mentions(contribution)


def keys_of(contribution: Contribution) -> set[str]:
    """Return every key that the contribution speaks of."""
    keys = {key.key for key in contribution.keys}
    for edge in contribution.edges:
        keys |= {edge.source, edge.target}
    return keys | ({contribution.subject} if contribution.subject else set())


def _co_mentions(contribution: Contribution) -> list[Row]:
    weights: dict[str, float] = {}
    for key in contribution.keys:
        weights[key.key] = max(weights.get(key.key, 0.0), key.weight)
    subject = contribution.subject
    ranked = sorted(((-weight, key) for key, weight in weights.items() if key != subject))
    rows = [_pair(subject, key, -weight * SUBJECT_WEIGHT) for weight, key in ranked[:PAIRS]] if subject else []
    pairs = [(-(left[0] * right[0]), left[1], right[1]) for left, right in combinations(ranked[:RANKED_MENTIONS], 2)]
    room = PAIRS - len(rows)
    return rows + [_pair(left, right, -weight * MENTION_WEIGHT) for weight, left, right in sorted(pairs)[:room]]


def _pair(one: str, other: str, weight: float) -> Row:
    return Row(min(one, other), MENTIONED_WITH, max(one, other), weight)
