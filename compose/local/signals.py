"""SIGINT, SIGTERM and SIGHUP as something that can be awaited."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(again: Callable[[], None] | None = None) -> Iterator[asyncio.Event]:
    """Set the event at the first of these signals, and call ``again`` at every later one."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def heard() -> None:
        if stop.is_set() and again is not None:
            again()
        stop.set()

    for number in ENDING:
        loop.add_signal_handler(number, heard)
    try:
        yield stop
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
