"""FastStream, and the only module that imports it: it polls topics and feeds lanes, and does nothing else.

Its defaults would commit before the handler runs, decode headers (one bad byte and a whole batch is gone) and start
subscribers one after another; so: manual acknowledgement, a parser that decodes nothing, and all started together.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage
from faststream.kafka.message import KafkaAckableMessage

from ingest.lanes import Lanes
from shared.errors import LogUnavailable
from shared.kafka import FETCH_BYTES, KafkaError
from shared.kafka_closing import close_consumer, settle

POLL_RECORDS = 256
POLL_MS = 20  # after a poll that found nothing FastStream sleeps as long again: 5 ms a hop on average
HEARTBEAT_MS = 1_000  # a member hears of a rebalance with its next heartbeat
SESSION_MS = 10_000
EMBEDDED_WAIT_MS = 100  # the embedded broker looks for new records only four times in a fetch's longest wait
KAFKA_WAIT_MS = 500  # Kafka answers a waiting fetch at once
START_S = 60.0  # a group forms in 5 s on the embedded broker; a rolling restart of a cluster takes longer


class Polling:
    """The consumers of one pipeline."""

    def __init__(self, bootstrap: str, on_failure: Callable[[Exception], None], *, embedded: bool) -> None:
        """``on_failure`` hears what a feed raised: FastStream would swallow it."""
        self._broker = KafkaBroker(
            bootstrap,
            client_id="cortex-ingest",
            consumer_only=True,
            logger=None,
            apply_types=False,
            graceful_timeout=1.0,
        )
        self._on_failure = on_failure
        self._lanes: list[tuple[Any, Lanes]] = []
        self._wait_ms = EMBEDDED_WAIT_MS if embedded else KAFKA_WAIT_MS
        # producers may use transactions; the embedded broker delivers aborted ones either way
        self._isolation: Literal["read_uncommitted", "read_committed"] = (
            "read_uncommitted" if embedded else "read_committed"
        )

    def add(self, topics: Sequence[str], group: str, lanes: Lanes) -> None:
        """Poll topics as one member of a group, into lanes."""

        async def parse(records: Any) -> KafkaMessage:
            consumer = subscriber.consumer
            return KafkaAckableMessage(body=[], raw_message=records, headers={}, message_id="", consumer=consumer)

        async def decode(message: Any) -> Any:
            return message  # the handler gets what this returns

        subscriber: Any = self._broker.subscriber(
            *topics,
            group_id=group,
            batch=True,
            max_records=POLL_RECORDS,
            batch_timeout_ms=POLL_MS,
            max_partition_fetch_bytes=FETCH_BYTES,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=self._wait_ms,
            isolation_level=self._isolation,
            ack_policy=AckPolicy.MANUAL,
            listener=lanes,
            parser=parse,
            decoder=decode,
        )

        self._lanes.append((subscriber, lanes))

        @subscriber  # type: ignore[untyped-decorator]
        async def poll(message: KafkaMessage) -> None:
            try:
                lanes.feed(message.consumer, message.raw_message)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not be swallowed
                self._on_failure(error)

    async def start(self) -> None:
        """Join all groups at once and begin to poll. Raises LogUnavailable."""
        try:
            async with asyncio.timeout(START_S):
                await self._broker.connect()
                await asyncio.gather(*(subscriber.start() for subscriber in self._broker.subscribers))
                for subscriber, lanes in self._lanes:
                    lanes.attach(subscriber.consumer)
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogUnavailable("The broker does not let the ingest groups form.") from error

    async def stop(self, limit_s: float) -> None:
        """Leave the groups, all at once, within about the limit; nothing polls afterwards."""
        await asyncio.gather(*(_stop(subscriber, limit_s) for subscriber in self._broker.subscribers))
        await settle(self._broker.stop(), limit_s)


async def _stop(subscriber: Any, limit_s: float) -> None:
    consumer = subscriber.consumer
    await settle(subscriber.stop(), limit_s)
    if consumer is not None:
        await close_consumer(consumer, limit_s)
