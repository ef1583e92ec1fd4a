"""``python -m compose`` is ``cortex``."""

from compose.cli.main import run

if __name__ == "__main__":
    run()
