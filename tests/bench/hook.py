"""The prompt hook as an agent runs it: the whole process, from its start to its end."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import percentiles

DEAD_URL = "http://127.0.0.1:9"
"""Nothing listens on the discard port of a machine of today."""


def hook_figures(url: str, questions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return milliseconds of whole processes: the hook with a service, the hook without one, and a bare interpreter.

    ``answered`` counts how many of the prompts got a block within the hook's own limit.
    """
    hook = str(Path(sys.executable).parent / "cortex-hook")
    with_service, answered = _run([hook, "prompt", "--url", url], questions)
    without, _ = _run([hook, "prompt", "--url", DEAD_URL], questions)
    bare, _ = _run([sys.executable, "-c", "pass"], questions)
    return {
        "hook prompt": {**percentiles(with_service), "answered": answered},
        "hook prompt, no service": percentiles(without),
        "bare interpreter": percentiles(bare),
    }


def _run(command: Sequence[str], questions: Sequence[str]) -> tuple[list[float], int]:
    taken, answered = [], 0
    for question in questions:
        given = json.dumps({"prompt": question, "hook_event_name": "UserPromptSubmit"})
        start = time.perf_counter()
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        taken.append((time.perf_counter() - start) * 1000)
        answered += bool(done.stdout)
    return taken, answered


if __name__ == "__main__":
    for name, figures in hook_figures(sys.argv[1], sys.argv[2:] * 50).items():
        print(f"{name:26} {figures}")
