"""``cortex-hook prompt`` and ``cortex-hook learn``: what an agent's settings name. It starts in the time of a bare
interpreter, ends in time whatever hangs, and its exit code is always 0: a hook must not stand in an agent's way.
"""

import os
import sys
import threading
import time
from typing import IO, Final

from compose.hooks.options import Options, read_options

STDIN_BYTES: Final = 8 * 1024 * 1024
LEARN_S: Final = 8.0
"""An agent gives its stop hook seconds; a laptop that is busy needs some."""
KINDS: Final = ("prompt", "learn")
USAGE: Final = (
    "usage: cortex-hook prompt | learn  [--url U] [--token T] [--tenant T] [--as PRINCIPAL] [--scope LEVEL/ENTITY]\n"
    "                                   [--tokens N] [--budget-ms N] [--plain] [--verbose]  < the agent's JSON\n"
)


def run() -> None:
    """Run the hook that the first argument names; see `run_hook`."""
    started = time.monotonic()
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    if kind not in KINDS:
        sys.stderr.write(USAGE)
        return
    run_hook(kind, read_options(sys.argv[2:], os.environ), sys.stdin.buffer, started)


def run_hook(kind: str, options: Options, given: IO[bytes], started: float) -> None:
    """Do the work in a thread and end the process at its deadline, done or not: a dead name server, a hanging pipe or a
    frozen service cannot be waited for. Prints what the work returned, all of it or nothing.
    """
    budget_s = options.budget_ms / 1000 if kind == "prompt" else LEARN_S
    said: list[str] = []

    def work() -> None:
        try:
            said.append(_work(kind, options, given, started + budget_s))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the agent goes on
            if options.verbose:
                sys.stderr.write(f"cortex-hook: {type(error).__name__}: {error}\n")

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(max(0.0, started + budget_s - time.monotonic()))
    try:
        if said and said[0]:
            sys.stdout.buffer.write(f"{said[0]}\n".encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
        elif options.verbose and worker.is_alive():
            sys.stderr.write(f"cortex-hook: nothing within {budget_s * 1000:.0f} ms\n")
    except OSError:  # the agent does not listen any more
        pass
    os._exit(0)  # the thread may hang in a call that cannot be interrupted


def _work(kind: str, options: Options, given: IO[bytes], deadline: float) -> str:
    text = _given(options, given)
    if kind == "prompt":
        from compose.hooks.prompt import answer_prompt  # noqa: PLC0415 - each hook loads its own half

        return answer_prompt(text, options, deadline)
    from compose.hooks.learn import learn_exchange  # noqa: PLC0415 - as above

    return learn_exchange(text, options, deadline)


def _given(options: Options, given: IO[bytes]) -> str:
    """Return the agent's JSON: from an argument, as Codex's ``notify`` hands it over, else from standard input."""
    for argument in options.rest:
        if argument.startswith("{"):
            return argument
    return given.read(STDIN_BYTES).decode("utf-8", "replace")


if __name__ == "__main__":
    run()
