"""A guard runs one command and ends it when whoever started the guard is gone.

    python -I -S guard.py GRACE_S COMMAND...

Its standard input is a pipe whose other end only the parent holds: when that ends, however the parent died, the command
gets SIGTERM and, after a grace, SIGKILL. SIGTERM and SIGINT to the guard do the same. It exits with the command's code,
128 + n after signal n, 127 when there is no such command. Standard library only, and little of it: it starts in 20 ms.
"""

import contextlib
import os
import select
import signal
import sys
import time

ORPHAN_GRACE_S = 2.0  # nobody waits for an orderly end any more, and a successor may want the ports
NOT_FOUND = 127  # the shell's code for a command that cannot be started
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def main(arguments: list[str]) -> int:
    """Run the command until it ends or has to; return the exit code."""
    grace_s, command = float(arguments[0]), arguments[1:]
    with contextlib.suppress(PermissionError):  # already a leader
        os.setsid()  # Ctrl-C in the terminal is the parent's business: it ends things in order
    wake = _wake_on_signals()
    child = os.fork()
    if child == 0:
        _become(command)
    status, orphaned = _watch(child, wake, grace_s)
    if orphaned:
        # what the command left behind in its group, and this process: nobody asks its code
        os.killpg(0, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _wake_on_signals() -> int:
    """Make signals readable from the returned descriptor, so that one select waits for everything."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # it only has to have a handler
    return reading


def _become(command: list[str]) -> None:
    """Turn the forked process into the command."""
    try:
        _die_with_guard()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and that would be inherited
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # the pipe to the parent stays the guard's alone
        os.execvp(command[0], command)  # noqa: S606 - a fixed argument list, no shell
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    finally:
        os._exit(NOT_FOUND)


def _die_with_guard() -> None:
    """Linux only: end the command too when the guard itself is killed (elsewhere the parent clears the guard's group)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # noqa: PLC0415 - 5 ms, and of use here alone

    guard = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:  # it died before the call
        os._exit(NOT_FOUND)


def _watch(child: int, wake: int, grace_s: float) -> tuple[int, bool]:
    """Wait for the command's end, seeing to it when asked or orphaned; return its wait status and whether orphaned."""
    parent: list[int] = [0]
    kill_at: float | None = None
    orphaned = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, orphaned
        left = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        ready = select.select([wake, *parent], [], [], left)[0]
        asked = wake in ready and bool(set(os.read(wake, 64)) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
        if 0 in ready and not os.read(0, 64):
            parent, orphaned = [], True
            grace_s = min(grace_s, ORPHAN_GRACE_S)
        if asked or (orphaned and 0 in ready):
            os.kill(child, signal.SIGTERM)
            kill_at = min(kill_at or float("inf"), time.monotonic() + grace_s)
        if kill_at is not None and time.monotonic() >= kill_at:
            os.kill(child, signal.SIGKILL)
            kill_at = None


if __name__ == "__main__":
    # at once: a shutting-down interpreter takes its handlers away, and a late SIGTERM would then forge the exit code
    os._exit(main(sys.argv[1:]))
