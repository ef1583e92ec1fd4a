"""Ports of servers on loopback, found free before anything is started on them."""

import socket
from contextlib import ExitStack
from typing import Final

from shared.errors import PortInUse

LOOPBACK: Final = "127.0.0.1"
HIGHEST: Final = 65_535
TRIES: Final = 100


def free_ports(*runs: int) -> tuple[int, ...]:
    """Return the first of each run of so many ports in a row, all different, that nobody uses now."""
    with ExitStack() as stack:
        return tuple(_free_run(stack, length) for length in runs)


def _free_run(stack: ExitStack, length: int) -> int:
    for _ in range(TRIES):
        with ExitStack() as trial:
            try:
                first = _bind(trial, 0)
                for port in range(first + 1, first + length):
                    _bind(trial, port)
            except (OSError, OverflowError):  # a neighbour is taken, or there is none
                continue
            stack.push(trial.pop_all())
            return first
    raise PortInUse(f"No {length} free ports in a row were found.")


def ports_from(first: int, count: int) -> tuple[int, ...]:
    """Return ``count`` ports in a row. Raises PortInUse, which names the one that is taken."""
    if not 0 < first <= HIGHEST - count + 1:
        raise PortInUse(f"Ports {first} to {first + count - 1} are not ports: choose a first one below {HIGHEST}.")
    with ExitStack() as stack:
        for port in range(first, first + count):
            try:
                _bind(stack, port)
            except OSError as error:
                raise PortInUse(f"Port {port} cannot be used ({error.strerror}): choose others with --port.") from error
    return tuple(range(first, first + count))


def _bind(stack: ExitStack, port: int) -> int:
    probe = stack.enter_context(socket.socket())
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not matter
    probe.bind((LOOPBACK, port))
    bound: int = probe.getsockname()[1]
    return bound
