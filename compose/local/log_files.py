"""Where a process of the local runtime writes what happened: JSON lines in a file, errors on the terminal too."""

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

FILE_BYTES: Final = 4 * 1024 * 1024  # with BACKUPS: at most 12 MB a process, some 40,000 lines
BACKUPS: Final = 2
# Libraries that report at INFO what our own lines say, or at ERROR that a broker went away, which epochs do on purpose.
CHATTY: Final = ("aiokafka", "faststream", "httpx", "kafka", "uvicorn.access", "uvicorn.error")
OURS_ALREADY: Final = (
    "aiokafka",
    "faststream",
)  # what they call an error is retried, and told by our own line if it lasts


def configure_logging(process: str, folder: Path | None) -> None:
    """Send this process's log lines to ``folder/process.log``, bounded in size, and errors to standard error.

    Without a folder all lines go to standard error, as JSON: there whatever runs the process collects them.
    """
    logging.raiseExceptions = False  # a full disk must not fill the terminal with tracebacks of the logger
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    file: logging.Handler = logging.StreamHandler(sys.stderr)
    if folder is not None:
        path = folder / f"{process}.log"
        file = RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=BACKUPS, encoding="utf-8")
    file.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _json,
            ],
        )
    )
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.ERROR)
    terminal.addFilter(lambda record: not record.name.startswith(OURS_ALREADY))
    terminal.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [file] if folder is None else [file, terminal]
    root.setLevel(logging.INFO)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _json(_: WrappedLogger, __: str, line: EventDict) -> str:
    return orjson.dumps(line, default=str).decode()
