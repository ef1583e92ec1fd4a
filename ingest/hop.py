"""What the stages after embed have in common: reading a message of the hop before, and burying what cannot be used."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import orjson
from pydantic import ValidationError

from ingest.delivery import Delivery, Hopeless, Watch
from ingest.in_hand import InHand
from ingest.letters import Letters
from ingest.retry_notes import RetryNotes
from schemas.messages import MAGIC, Marker, MarkerKind, Receipt, StageMessage, decode_message, encode_message
from shared.faults import told
from shared.kafka import Outgoing, Publisher, Record
from shared.tracing import NO_TRACES, Attributes, Traces

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

    def __init__(
        self,
        delivery: Delivery,
        letters: Letters,
        publisher: Publisher,
        notes: RetryNotes | None = None,
        *,
        in_hand: InHand | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        """``notes``: where retries are told of, for the state of an event. ``in_hand``: what names slow events."""
        self.delivery = delivery
        self.letters = letters
        self._publisher = publisher
        self._notes = notes
        self._in_hand = in_hand
        self._traces = traces

    @contextmanager
    def hold(self, events: Sequence[StageMessage | Receipt]) -> Iterator[None]:
        """Have events in hand: work on them that takes long is named (`InHand`)."""
        if self._in_hand is None:
            yield
            return
        with self._in_hand.hold(self.delivery.stage, events):
            yield

    @contextmanager
    def trace(self, events: Sequence[StageMessage | Receipt]) -> Iterator[None]:
        """Add the work on events to the traces of their producers."""
        if not self._traces.on:
            yield
            return
        with self._traces.stage(self.delivery.stage, [(traceparent_of(event), _attributes(event)) for event in events]):
            yield

    async def read(self, record: Record) -> Hopped | None:
        """Decode a message of a hop. None: it was buried, and has no position that would have to be handed on."""
        body = bytes(record.value or b"")
        try:
            return Hopped(*decode_message(body))
        except (ValueError, ValidationError) as error:
            reason = Hopeless("not-a-stage-message", _reason(error, body), 1)
            stand_in = _salvage(body)
            if stand_in is None:
                await self.letters.bury_record(self.delivery, record, reason)
                return None
            return await self.bury(stand_in, reason)

    async def attempt(self, hopped: Hopped, work: Callable[[], Awaitable[Value]]) -> Value | Hopped:
        """Do one event's work; when it cannot succeed, bury it and return the marker that goes on in its place."""
        try:
            return await self.delivery.attempt(work, watch=self.watch(hopped.message))
        except Hopeless as reason:
            return await self.bury(hopped.message, reason)

    def watch(self, message: StageMessage) -> Watch | None:
        """Return who is told when an event is tried again here."""
        if self._notes is None or message.tenant is None or message.event_source is None or message.event_id is None:
            return None
        return self._notes.watch(self.delivery.stage, message.tenant, message.event_source, message.event_id)

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


def moved(message: StageMessage, stage: str) -> StageMessage:
    """Return what goes on in place of an event that was sent on to where it belongs: its position, and no identity, for
    that is handled there.
    """
    marker = Marker(kind=MarkerKind.MOVED, stage=stage)
    return message.model_copy(update={"event": None, "event_id": None, "event_source": None, "marker": marker})


def traceparent_of(event: StageMessage | Receipt) -> object:
    """Return what an event says of its producer's trace, whatever that is."""
    return event.traceparent if isinstance(event, Receipt) else (event.event or {}).get("traceparent")


def _attributes(event: StageMessage | Receipt) -> Attributes:
    position = event.position
    return {
        "cortex.tenant": event.tenant or "",
        "cortex.event.id": event.event_id or "",
        "cortex.event.source": event.event_source or "",
        "cortex.position.topic": position.topic,
        "cortex.position.partition": position.partition,
        "cortex.position.number": position.number,
    }


def _reason(error: ValueError | ValidationError, body: bytes) -> str:
    words = told(error, _header(body)) if isinstance(error, ValidationError) else str(error)
    return f"it is no message between stages: {words}"


def _header(body: bytes) -> bytes:
    """Return the bytes of a message's header, as far as there are any."""
    start = len(MAGIC) + 4
    return body[start : start + int.from_bytes(body[len(MAGIC) : start], "big")]


def _salvage(body: bytes) -> StageMessage | None:
    """Read position and identity of a message whose rest is unusable, e.g. of a later major version."""
    names = ("position", "recorded_at", "key", "tenant", "event_id", "event_source", "event")
    try:
        header = orjson.loads(_header(body))
        return StageMessage.model_validate({name: header[name] for name in names if name in header})
    except (ValueError, ValidationError, TypeError, KeyError):
        return None
