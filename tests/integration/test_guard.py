"""The guard: nothing that was started through it outlives the one who started it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from compose.local.children import Child, Command, broker_command, cache_command, listening
from compose.local.ports import free_port
from shared.errors import NotReady

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "compose" / "local" / "guard.py"
BOUND_S = 15.0  # what is tested takes well under 3 s; a loaded machine may be slower
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("asked", flush=True), sys.exit(7)))
print("up", flush=True)
time.sleep(600)
"""
WITH_GRANDCHILD = """
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(inner.pid, flush=True)
time.sleep(600)
"""
PARENT = """
import subprocess, sys, time
guard = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
time.sleep(600)
"""


def guarded(*command: str, grace_s: float = 1.0) -> list[str]:
    return [sys.executable, "-I", "-S", str(GUARD), str(grace_s), *command]


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def start(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def tree() -> Iterator[list[int]]:
    """Process ids that a test started; whatever is left of them ends with it."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def start_with_parent(code: str, tree: list[int]) -> tuple["subprocess.Popen[str]", int, int]:
    """Start parent → guard → command; return the parent and the other two's process ids, once the command is up."""
    parent = start([*python(PARENT), *guarded(*python(code))])
    line(parent)
    [guard] = psutil.Process(parent.pid).children()
    [command] = guard.children()
    tree += [parent.pid, guard.pid, command.pid]
    return parent, guard.pid, command.pid


@pytest.mark.parametrize("code", [SLEEP, STUBBORN], ids=["ordinary command", "command that ignores SIGTERM"])
def test_when_the_parent_is_killed_the_command_is_gone_soon(code: str, tree: list[int]) -> None:
    parent, guard, command = start_with_parent(code, tree)
    parent.kill()
    parent.communicate(timeout=BOUND_S)
    assert soon(lambda: gone(command) and gone(guard))


def test_when_the_guard_is_killed_the_command_ends_too(tree: list[int]) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("needs prctl; elsewhere the supervisor clears the guard's group")
    parent, guard, command = start_with_parent(STUBBORN, tree)
    os.kill(guard, signal.SIGKILL)
    assert soon(lambda: gone(command))
    parent.kill()
    parent.communicate(timeout=BOUND_S)


def test_what_the_command_started_itself_goes_with_it(tree: list[int]) -> None:
    parent = start([*python(PARENT), *guarded(*python(WITH_GRANDCHILD))])
    tree += [parent.pid, int(line(parent))]
    grandchild = tree[-1]
    parent.kill()
    parent.communicate(timeout=BOUND_S)
    assert soon(lambda: gone(grandchild))


def test_it_exits_with_the_commands_code() -> None:
    with start(guarded(*python("raise SystemExit(7)"))) as guard:
        assert guard.wait(BOUND_S) == 7


def test_a_command_that_a_signal_ended_gives_128_and_the_signal() -> None:
    with start(guarded(*python("import os; os.kill(os.getpid(), 11)"))) as guard:
        assert guard.wait(BOUND_S) == 128 + 11


def test_a_command_that_does_not_exist_gives_127() -> None:
    with start(guarded("/nonexistent/command")) as guard:
        assert guard.wait(BOUND_S) == 127
        assert line(guard) == "/nonexistent/command: No such file or directory"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_to_the_guard_asks_the_command_to_end(number: signal.Signals) -> None:
    with start(guarded(*python(POLITE), grace_s=BOUND_S)) as guard:
        assert line(guard) == "up"
        guard.send_signal(number)
        assert line(guard) == "asked"
        assert guard.wait(BOUND_S) == 7


def test_a_command_that_does_not_end_when_asked_is_ended_after_the_grace() -> None:
    with start(guarded(*python(STUBBORN), grace_s=0.2)) as guard:
        assert line(guard) == "up"
        guard.send_signal(signal.SIGTERM)
        assert guard.wait(BOUND_S) == 128 + signal.SIGKILL


def test_asking_again_does_not_prolong_the_grace() -> None:
    with start(guarded(*python(STUBBORN), grace_s=0.5)) as guard:
        assert line(guard) == "up"

        def ended() -> bool:
            if guard.poll() is None:
                guard.send_signal(signal.SIGTERM)
            return guard.poll() is not None

        assert soon(ended)
        assert guard.returncode == 128 + signal.SIGKILL


def test_what_the_parent_writes_to_the_pipe_is_ignored() -> None:
    with start(guarded(*python("import sys; sys.exit(3 if sys.stdin.read() == '' else 4)"))) as guard:
        assert guard.stdin is not None
        guard.stdin.write("hello")
        guard.stdin.flush()
        assert guard.wait(BOUND_S) == 3


def test_broker_and_cache_start_listen_and_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        for make in (broker_command, cache_command):
            port = free_port("127.0.0.1", 0, "kafka_port")
            child = await Child.start(make(port, tmp_path), output=asyncio.subprocess.DEVNULL)
            await listening(child, port, BOUND_S)
            assert 1 < child.memory_mb() < 200
            assert await child.stop() in (0, 128 + signal.SIGTERM)
            assert child.memory_mb() == 0
            assert free_port("127.0.0.1", port, "kafka_port") == port

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_ends_at_its_start_is_reported_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await Child.start(Command("broker", python("raise SystemExit(1)"), tmp_path, dict(os.environ)))
        with pytest.raises(NotReady, match="broker ended at its start"):
            await listening(child, free_port("127.0.0.1", 0, "kafka_port"), BOUND_S)
        assert await child.wait() == 1

    asyncio.run(scenario())


def test_a_child_that_never_listens_is_reported_when_time_is_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        child = await Child.start(Command("cache", python(SLEEP), tmp_path, dict(os.environ), grace_s=0.5))
        with pytest.raises(NotReady, match="does not listen"):
            await listening(child, free_port("127.0.0.1", 0, "cache_port"), 0.1)
        await child.stop()
        assert child.ended

    asyncio.run(scenario())
