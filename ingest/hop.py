"""What the stages after embed have in common: reading a message of the hop before, and burying what cannot be used."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import orjson
from pydantic import ValidationError

from ingest.delivery import Delivery, Hopeless
from ingest.letters import Letters
from schemas.messages import MAGIC, Marker, MarkerKind, StageMessage, decode_message, encode_message
from shared.kafka import Outgoing, Publisher, Record

Value = TypeVar("Value")


@dataclass(frozen=True)
class Hopped:
    """A message on its way, with the bytes of its vectors."""

    message: StageMessage
    vectors: bytes = b""

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done but to hand it on."""
        return self.message.marker is not None or self.message.event is None

    def record(self) -> Outgoing:
        """Write it for the next hop."""
        return Outgoing(self.message.key.encode(), encode_message(self.message, self.vectors))


class Hop:
    """A stage's means: its delivery rules, its dead letters, and its way on."""

    def __init__(self, delivery: Delivery, letters: Letters, publisher: Publisher) -> None:
        self.delivery = delivery
        self.letters = letters
        self._publisher = publisher

    async def read(self, record: Record) -> Hopped | None:
        """Decode a message of a hop. None: it was buried, and has no position that would have to be handed on."""
        try:
            return Hopped(*decode_message(bytes(record.value or b"")))
        except (ValueError, ValidationError) as error:
            reason = Hopeless("not-a-stage-message", f"{type(error).__name__} in {record.topic}", 1)
            stand_in = _salvage(bytes(record.value or b""))
            if stand_in is None:
                await self.letters.bury_record(self.delivery, record, reason)
                return None
            return await self.bury(stand_in, reason)

    async def attempt(self, hopped: Hopped, work: Callable[[], Awaitable[Value]]) -> Value | Hopped:
        """Do one event's work; when it cannot succeed, bury it and return the marker that goes on in its place."""
        try:
            return await self.delivery.attempt(work)
        except Hopeless as reason:
            return await self.bury(hopped.message, reason)

    async def bury(self, message: StageMessage, reason: Hopeless) -> Hopped:
        """Bury an event, and return its marker."""
        await self.letters.bury_message(self.delivery, message, reason)
        return Hopped(dead(message, self.delivery.stage, reason.cause))

    async def publish(self, topic: str, partition: int, messages: Sequence[Outgoing]) -> None:
        """Publish in order, however long the broker is away."""
        if messages:
            await self.delivery.insist(lambda: self._publisher.publish(topic, partition, messages))


def dead(message: StageMessage, stage: str, cause: str) -> StageMessage:
    """Return what goes on in place of an event that has died: its position and identity, without content."""
    marker = Marker(kind=MarkerKind.DEAD, stage=stage, reason=cause)
    return message.model_copy(update={"event": None, "embedding": None, "resolution": None, "marker": marker})


def _salvage(body: bytes) -> StageMessage | None:
    """Read position and identity of a message whose rest is unusable, e.g. of a later major version."""
    names = ("position", "recorded_at", "key", "tenant", "event_id", "event_source", "event")
    try:
        start = len(MAGIC) + 4
        length = int.from_bytes(body[len(MAGIC) : start], "big")
        header = orjson.loads(body[start : start + length])
        return StageMessage.model_validate({name: header[name] for name in names if name in header})
    except (ValueError, ValidationError, TypeError, KeyError):
        return None
