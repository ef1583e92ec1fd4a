"""What becomes of a dead letter: pure rules, which every event log applies."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.status import DeadLetter, LetterMark, LetterState

KEPT: Final = timedelta(days=30)
"""How long a dead letter is kept; its event stays in the log."""


@dataclass(frozen=True)
class LetterFilter:
    """Which dead letters are meant: all that every given field fits. ``tenant`` None: of all, and of none."""

    tenant: str | None = None
    event_id: str | None = None
    state: LetterState | None = None
    stage: str | None = None
    cause: str | None = None

    def fits(self, letter: DeadLetter) -> bool:
        """Whether a letter is meant."""
        return all(
            wanted in (None, given)
            for wanted, given in (
                (self.tenant, letter.tenant),
                (self.event_id, letter.event_id),
                (self.state, letter.state),
                (self.stage, letter.stage),
                (self.cause, letter.cause),
            )
        )


EVERY: Final = LetterFilter()


def buried(known: DeadLetter | None, fresh: DeadLetter) -> DeadLetter:
    """Return what is kept when an event fails whose letter may be known.

    A replayed one has failed again: it is open once more, and its attempts add up. Otherwise the same failure is told
    again, after a redelivery: that is no new attempt, and what was discarded stays so.
    """
    if known is None:
        return fresh
    again = {"replays": known.replays, "headers": known.headers, "key": known.key or fresh.key}
    if known.state is LetterState.REPLAYED:
        return fresh.model_copy(update=again | {"attempts": known.attempts + fresh.attempts})
    kept = {name: getattr(known, name) for name in ("state", "resolved_by", "resolved_at", "job")}
    return fresh.model_copy(update=again | kept | {"attempts": max(known.attempts, fresh.attempts)})


def marked(letter: DeadLetter, mark: LetterMark) -> DeadLetter:
    """Return the letter with what was done about it; the same letter where that changes nothing.

    An open one can be replayed or discarded, a discarded one replayed. What was replayed stays so until it fails again.
    """
    if letter.state is LetterState.REPLAYED or letter.state is mark.state:
        return letter
    done = {"state": mark.state, "resolved_by": mark.by, "resolved_at": mark.at, "job": mark.job}
    return letter.model_copy(update=done | {"replays": letter.replays + (mark.state is LetterState.REPLAYED)})


def listed(letters: Mapping[str, DeadLetter], which: LetterFilter, limit: int, after: str | None) -> list[DeadLetter]:
    """Return letters that are meant, newest failure first, ties by id; ``after``: the last one seen, unknown gives none."""
    if after is not None and after not in letters:
        return []
    before = None if after is None else _age(letters[after])
    found = [letter for letter in letters.values() if which.fits(letter) and (before is None or _age(letter) < before)]
    return sorted(found, key=_age, reverse=True)[:limit]


def _age(letter: DeadLetter) -> tuple[datetime, str]:
    return letter.failed_at, letter.id
