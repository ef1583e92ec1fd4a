"""Exit codes that scripts can rely on."""

from typing import Final

OK: Final = 0
REFUSED: Final = 1  # a problem with the input, or the service refused it
USAGE: Final = 2  # what Typer itself says for wrong options
UNREACHABLE: Final = 3
TIMEOUT: Final = 4
NOT_KNOWN: Final = 5  # an answer came, and it says that nothing good enough is known
DIFFERENT: Final = 6  # a store is not what the log says, a topic not what it should be
HELP: Final = (
    "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 service unreachable, 4 timed out, 5 nothing good enough is known, "
    "6 something differs from what it should be."
)
