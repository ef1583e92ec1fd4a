"""What is done to the processes of a run, drawn from its seed.

Kills come in bursts, for a group needs up to its session's time to notice a member's death: within a burst members die
while the group is still forming, join in the middle of a recovery, and die again before they have done anything.
"""

import random
from dataclasses import dataclass
from enum import StrEnum

LONGEST_BURST = 5
STRIKE_EVERY = 10  # kills of members for one of the store and one of a query process


class Kind(StrEnum):
    """A disturbance."""

    KILL = "SIGKILL"
    TERMINATE = "SIGTERM"
    LEADER = "SIGKILL with its broker"  # embedded: the process that pumps owns the broker, and both end
    JOIN = "join"
    FREEZE = "SIGSTOP, later SIGCONT"
    BROKER = "broker killed and restarted"
    FLUSH = "cache flushed"
    CACHE = "cache killed and restarted"
    STORE = "store killed and restarted"  # Weaviate
    REPLICA = "query process killed and restarted"


KILLS = frozenset({Kind.KILL, Kind.TERMINATE, Kind.LEADER})


@dataclass(frozen=True)
class Act:
    """One disturbance. ``whom``: in [0, 1), which of the members. ``back_s``: when another takes its place.

    ``pause_s``: what passes before the next act of the burst.
    """

    kind: Kind
    whom: float = 0.0
    back_s: float = 0.0
    pause_s: float = 0.0


@dataclass(frozen=True)
class Burst:
    """Acts that follow each other, once ``after`` (in [0, 1)) of the events are handled."""

    after: float
    acts: tuple[Act, ...]


def draw_schedule(
    seed: int, kills: int, *, kafka: bool, weaviate: bool = False, freezes: int | None = None
) -> list[Burst]:
    """Draw bursts with so many kills, and the other disturbances among them."""
    chance = random.Random(f"schedule {seed}")
    special = [Kind.FLUSH, Kind.CACHE, Kind.BROKER] if kafka else []
    special += [Kind.STORE, Kind.REPLICA] * max(1, kills // STRIKE_EVERY) if weaviate else []
    special += [Kind.FREEZE] * (max(1, kills // 30) if freezes is None else freezes)
    chance.shuffle(special)
    bursts: list[list[Act]] = []
    left = kills
    while left:
        count = min(left, chance.randint(1, LONGEST_BURST))
        bursts.append(_burst(chance, count, kafka=kafka))
        left -= count
    for number, kind in enumerate(special):
        bursts[(number + 1) * len(bursts) // (len(special) + 1)].append(Act(kind, chance.random(), 3.0, 0.5))
    return [Burst(0.02 + 0.9 * number / len(bursts), tuple(acts)) for number, acts in enumerate(bursts)]


def _burst(chance: random.Random, count: int, *, kafka: bool) -> list[Act]:
    acts = []
    for _ in range(count):
        kinds = (Kind.KILL, Kind.TERMINATE) if kafka else (Kind.KILL, Kind.TERMINATE, Kind.LEADER)
        kind = chance.choices(kinds, (6, 4, 2)[: len(kinds)])[0]
        back_s = 0.0 if chance.random() < 0.5 else chance.uniform(0.5, 6.0)
        acts.append(Act(kind, chance.random(), back_s, chance.uniform(0.1, 2.5)))
        if chance.random() < 0.25:
            acts.append(Act(Kind.JOIN, pause_s=chance.uniform(0.1, 1.0)))
    return acts
