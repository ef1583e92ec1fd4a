"""The query process of the local runtime: uvicorn with the query service."""

import asyncio
import signal
import sys
from typing import Final

import structlog
import uvicorn

from compose.local.log_files import configure_logging
from compose.local.notices import Notice, tell, tell_failure
from shared.errors import CortexError
from shared.settings import Settings

FAREWELL_S: Final = 10  # open streams say `closing` within 5 s of it; without a limit uvicorn would wait for ever
KEEP_ALIVE_S: Final = 30  # an agent asks again within seconds; a connection costs nothing

_log = structlog.get_logger(__name__)


def main() -> int:
    """Run the process; return its exit code."""
    settings = Settings()
    configure_logging("query", settings.data_dir / "log")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises what it caught once more at its end: not to kill us
    try:
        from query.app import create_app  # noqa: PLC0415 - seconds of imports, after the log is set up

        app = create_app(settings)
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.http_port,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=FAREWELL_S,
        )
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_serve(config))
    except CortexError as error:
        _log.exception("query.ended", error=type(error).__name__)
        return tell_failure(error)
    return 0
