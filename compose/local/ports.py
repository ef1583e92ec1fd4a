"""Ports: found free before anything is started on them."""

import errno
import socket
import time
from typing import Final

from shared.errors import PortInUse

LOOK_EVERY_S: Final = 0.1


def free_port(host: str, port: int, setting: str, wait_s: float = 0.0) -> int:
    """Return the port when it is free (0: any free one), waiting for it for at most ``wait_s``.

    Raises PortInUse, which names the port and the setting that changes it.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return _bindable(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY_S)
                continue
            raise PortInUse(
                f"Port {port} on {host} cannot be used ({error.strerror}): stop the program that has it, "
                f"or set CORTEX_{setting.upper()} to another."
            ) from error


def _bindable(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # connections that linger in TIME_WAIT do not matter
        probe.bind((host, port))
        bound: int = probe.getsockname()[1]
    return bound


def distinct_ports(wanted: dict[str, tuple[str, int]], wait_s: float = 0.0) -> dict[str, int]:
    """Return a free port for each setting, given as (host, port), no two the same. Raises PortInUse."""
    found: dict[str, int] = {}
    for setting, (host, port) in wanted.items():
        chosen = free_port(host, port, setting, wait_s)
        while port == 0 and chosen in found.values():
            chosen = free_port(host, port, setting)
        twin = next((other for other, taken in found.items() if taken == chosen), None)
        if twin is not None:
            raise PortInUse(
                f"CORTEX_{twin.upper()} and CORTEX_{setting.upper()} are both {chosen}: change one of them."
            )
        found[setting] = chosen
    return found
