"""The query process of the local runtime: uvicorn with the query service."""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Final

import structlog
import uvicorn

from compose.local.log_files import configure_logging
from compose.local.notices import Notice, tell, tell_failure
from shared.errors import CortexError
from shared.settings import Settings

FAREWELL_S: Final = 10  # open streams say `closing` within 5 s of it; without a limit uvicorn would wait for ever
KEEP_ALIVE_S: Final = 30  # an agent asks again within seconds; an idle connection costs next to nothing

_log = structlog.get_logger(__name__)


def main() -> int:
    """Run the process; return its exit code."""
    settings = Settings()
    configure_logging("query", settings.data_dir / "log")
    asked_to_stop = note_signals()
    factory = uvicorn.Config("", log_config=None).get_loop_factory()
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve(settings, lambda: asked_to_stop))
    except CortexError as error:
        _log.error("query.ended", error=type(error).__name__, detail=str(error))
        return tell_failure(error)
    return 0


def note_signals() -> list[int]:
    """Note signals instead of dying of them: uvicorn, at its end, raises again what it has caught."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: asked.append(caught))
    return asked


async def serve(settings: Settings, asked_to_stop: Callable[[], list[int]]) -> None:
    """Open the parts and serve until a signal. ``asked_to_stop``: the signals so far, asked once the parts are open."""
    from query.access import Access  # noqa: PLC0415 - a second of imports, after log and signals are set up
    from query.app import create_app  # noqa: PLC0415 - as above
    from query.parts import open_parts  # noqa: PLC0415 - as above

    Access.from_settings(settings)  # whoever may not listen should hear it before anything is opened
    # opened here and not by the lifespan, of which uvicorn would hand on no more than "it failed"
    async with open_parts(settings) as parts:
        config = uvicorn.Config(
            create_app(settings, parts),
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
        if asked_to_stop():
            return
        tell(Notice(stage="query opened its parts"))
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    sys.exit(main())
