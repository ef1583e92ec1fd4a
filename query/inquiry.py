"""One question on its way: what was asked, by whom, within which time, and which filter follows from it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas import limits
from schemas.positions import Position
from schemas.questions import Question
from schemas.times import Moment
from shared.clock import Clock
from shared.errors import InvalidToken
from shared.log import LOG_TOPICS
from shared.store import SearchFilter

TRUSTED: Final = "*"
"""How an answer names the caller that reads every scope."""


@dataclass(frozen=True)
class TokenLog:
    """The log of whose places tokens are taken, and how many partitions each of its topics has."""

    log_id: str
    partitions: int


@dataclass(frozen=True)
class Inquiry:
    """The facts of one question. ``started`` is monotonic; ``at`` is the instant for which it is answered (UTC)."""

    question: Question
    text: str
    tenant: str
    principal: str | None
    wanted: Position | None
    started: float
    at: datetime

    @classmethod
    def begin(
        cls, question: Question, *, tenant: str, principal: str | None, clock: Clock, tokens: TokenLog | None
    ) -> "Inquiry":
        """Take a question in. Raises InvalidToken for a token that is malformed or of no place in the log."""
        return cls(
            question=question,
            text=question.q.strip(),
            tenant=tenant,
            principal=principal,
            wanted=_position(question.min_token, tokens),
            started=clock.monotonic(),
            at=_last_instant(question.as_of) or clock.now(),
        )

    @property
    def is_too_short(self) -> bool:
        """Whether there is too little to search for."""
        return len(self.text) < limits.QUESTION_CHARS_MIN

    @property
    def asked_as_of(self) -> datetime | None:
        """The instant that was asked for; None for the present."""
        return self.at if self.question.as_of else None

    def filter(self, scopes: frozenset[str]) -> SearchFilter:
        """Return the filter over these scopes that every query of this question carries."""
        asked = self.question
        window = (
            asked.occurred_from.at if asked.occurred_from else None,
            asked.occurred_until.at if asked.occurred_until else None,
        )
        return SearchFilter(
            scopes=scopes,
            at=self.at,
            past=asked.as_of is not None,
            known_at=_last_instant(asked.known_at),
            include_superseded=asked.include_superseded,
            types=frozenset(asked.types) if asked.types is not None else None,
            occurred=None if window == (None, None) else window,
        )


def _last_instant(moment: Moment | None) -> datetime | None:
    """The last instant of a moment: as of a day means at its end, with what happened on that day."""
    return None if moment is None else moment.end - timedelta(microseconds=1)


def _position(token: str | None, tokens: TokenLog | None) -> Position | None:
    if token is None:
        return None
    try:
        position = Position.from_token(token)
    except ValueError as error:
        raise InvalidToken(f"min_token: {error}") from error
    if tokens is not None and position.log != tokens.log_id:
        raise InvalidToken("min_token: the token belongs to another log than the one read here")
    if tokens is not None and (position.topic not in LOG_TOPICS or position.partition >= tokens.partitions):
        raise InvalidToken("min_token: the token names a place that this log does not have")
    return position
