"""What each stage has in hand at this moment, so that an event that takes long is named while it still does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from schemas.messages import Receipt, StageMessage


@dataclass(frozen=True)
class Held:
    """Work in hand: its first event, how many share the work, and since when (monotonic seconds)."""

    stage: str
    event: StageMessage | Receipt
    events: int
    since_s: float

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition of the log."""
        return self.event.position.topic, self.event.position.partition


class InHand:
    """Everything that one process's stages have in hand."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._held: dict[int, Held] = {}
        self._numbers = count()

    @contextmanager
    def hold(self, stage: str, events: Sequence[StageMessage | Receipt]) -> Iterator[None]:
        """Note that a stage works on events, until the block is left."""
        if not events:
            yield
            return
        number = next(self._numbers)
        self._held[number] = Held(stage, events[0], len(events), self._now_s())
        try:
            yield
        finally:
            del self._held[number]

    def slow(self, limit_s: float) -> dict[int, Held]:
        """Return what is in hand for longer than the limit, oldest first; each keeps its key as long as it is."""
        began = self._now_s() - limit_s
        return {number: held for number, held in self._held.items() if held.since_s < began}
