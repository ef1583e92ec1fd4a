"""One line on the terminal that says how far a command is; nothing where nobody looks."""

import sys


class ProgressLine:
    """Rewrites its line on standard error; ``quiet``, or where that is no terminal, it writes nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()

    def tell(self, what: str) -> None:
        """Say how far it is."""
        self._write(f"\r· {what}\x1b[K")

    def clear(self) -> None:
        """Take the line away, before the result is printed."""
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(text)
            sys.stderr.flush()
