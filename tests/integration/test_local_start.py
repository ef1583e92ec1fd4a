"""Small parts of the local start: readiness, and where log lines go."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from compose.local.ports import free_port
from compose.local.readiness import ready
from shared.errors import NotReady

pytestmark = [pytest.mark.integration, pytest.mark.anyio]

ROOT = Path(__file__).parents[2]
NOT_YET = b'HTTP/1.1 503 x\r\n\r\n{"ready":false,"reasons":{"graph":"still reading"}}'
BROKEN = b"\r\n"
OK = b'HTTP/1.1 200 OK\r\n\r\n{"ready":true,"reasons":{}}'
SPEAK = """
import sys, structlog
from pathlib import Path
from compose.local import log_files
log_files.FILE_BYTES = 20_000
log_files.configure_logging("speaker", Path(sys.argv[1]))
log = structlog.get_logger("cortex.test")
for number in range(1_000):
    log.info("unit.stored", number=number)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("unit.failed", unit="u1")
import logging
logging.getLogger("aiokafka").error("broker away")
"""


async def serve(answers: list[bytes], port: int) -> asyncio.Server:
    """A server that gives each of the answers once and the last one for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0) if len(answers) > 1 else answers[0])
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", port)


async def test_it_asks_until_the_service_says_that_it_is_ready() -> None:
    port = free_port("127.0.0.1", 0, "http_port")
    asking = asyncio.create_task(ready("127.0.0.1", port, timeout_s=30))
    answers = [BROKEN, NOT_YET, OK]
    async with await serve(answers, port):
        await asyncio.wait_for(asking, 30)
    assert answers == [OK]


async def test_when_time_is_up_it_gives_the_reasons_last_heard() -> None:
    port = free_port("127.0.0.1", 0, "http_port")
    async with await serve([NOT_YET], port):
        with pytest.raises(NotReady, match="graph: still reading"):
            await ready("127.0.0.1", port, timeout_s=0.3)


async def test_a_service_that_does_not_listen_is_said_to_not_answer() -> None:
    with pytest.raises(NotReady, match="does not answer"):
        await ready("127.0.0.1", free_port("127.0.0.1", 0, "http_port"), timeout_s=0.2)


def test_log_lines_are_json_in_bounded_files_and_only_errors_reach_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPEAK, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["speaker.log", "speaker.log.1", "speaker.log.2"]
    assert all(file.stat().st_size <= 20_000 for file in files)
    lines = [json.loads(line) for line in (tmp_path / "speaker.log").read_text().splitlines()]
    failed, foreign = lines[-2:]
    assert (failed["event"], failed["unit"], failed["level"]) == ("unit.failed", "u1", "error")
    assert "ZeroDivisionError" in failed["exception"]
    assert (foreign["event"], foreign["logger"]) == ("broker away", "aiokafka")
    assert done.stdout == ""
    assert "unit.failed" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "unit.stored" not in done.stderr
    assert "broker away" not in done.stderr
