"""Closing aiokafka's clients for certain, also when their broker is gone.

aiokafka 0.14 stops half way then: a fetcher lets the cancellation of its own tasks out of ``close``, a producer waits for an
answer that cannot come; and what is left goes on connecting. Once a new broker listens on the same address, it would make up
topics there and deliver batches of the old one. So whatever ``stop`` did, the parts are ended one by one.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog

from shared.errors import LogUnavailable

_log = structlog.get_logger(__name__)


async def close_consumer(consumer: Any, limit_s: float) -> None:
    """Stop a consumer within about ``limit_s``; nothing of it runs afterwards."""
    if await settle(consumer.stop(), limit_s):
        return
    coordinator, fetcher, client = (getattr(consumer, name, None) for name in ("_coordinator", "_fetcher", "_client"))
    tasks: list[Any] = list(getattr(fetcher, "_pending_tasks", ()))
    tasks.append(getattr(fetcher, "_fetch_task", None))
    tasks += [
        getattr(coordinator, name, None)
        for name in ("_coordination_task", "_heartbeat_task", "_commit_refresh_task", "_reset_committed_task")
    ]
    await _end(tasks, limit_s)
    if client is not None:
        await settle(client.close(), limit_s)


async def close_producer(producer: Any, limit_s: float) -> None:
    """Stop a producer within about ``limit_s``: what it has not delivered by then fails, and is never sent."""
    stopping = asyncio.create_task(producer.stop())
    await asyncio.wait([stopping], timeout=limit_s)
    if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
        return
    await _end([getattr(producer, "_sender", None) and producer._sender.sender_task], limit_s)  # noqa: SLF001 - see above
    accumulator = getattr(producer, "_message_accumulator", None)
    if accumulator is not None:
        _fail(accumulator)
    await _end([stopping], limit_s)
    await settle(producer.client.close(), limit_s)


def _fail(accumulator: Any) -> None:
    """Fail what was not delivered. A batch that waits for its next attempt counts as pending, or aiokafka stumbles over it."""
    pending = accumulator._pending_batches  # noqa: SLF001 - see above
    queued = accumulator._batches  # noqa: SLF001
    pending.update(batch for batches in queued.values() for batch in batches)
    failed = list(pending)
    accumulator.fail_all(LogUnavailable("The broker is gone."))
    for batch in failed:
        if batch.future.done() and not batch.future.cancelled():
            batch.future.exception()  # whoever waited for it has been cancelled before


async def settle(closing: Coroutine[Any, Any, Any], limit_s: float) -> bool:
    """Run something that closes, in a task of its own, so that no cancellation but our own comes out of it.

    Returns whether it ended well and in time; otherwise it is cancelled.
    """
    task = asyncio.create_task(closing)
    await asyncio.wait([task], timeout=limit_s)
    if not task.done():
        await _end([task], limit_s)
        return False
    if task.cancelled():
        return False
    error = task.exception()
    if error is not None:
        _log.info("kafka.closing", error=type(error).__name__)
    return error is None


async def _end(tasks: Iterable[Any], limit_s: float) -> None:
    running = [task for task in tasks if isinstance(task, asyncio.Task) and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=limit_s)
        for task in running:
            if task.done() and not task.cancelled():
                task.exception()  # asked for, so that nobody is told that it never was
