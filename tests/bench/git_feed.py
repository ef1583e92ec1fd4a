"""``python -m tests.bench.git_feed``: a history of 10,000 commits made here, fed into a running Cortex, twice."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.figures import Report
from tests.e2e.product import Product, until
from tests.git_history import synthesize

COMMITS = 10_000
STORED_S = 3_600.0  # until all is searchable: embedding is the floor, some 100 texts a second on two cores


def feed(product: Product, folder: Path, state: Path) -> tuple[dict[str, Any], float, float]:
    """Feed once by the command line; return what it says, its seconds, and the most memory it held in MB."""
    command = [sys.executable, "-m", "compose", "feed", "git", str(folder), "--scope", "team/team-core", "--json"]
    env = {**os.environ, "CORTEX_URL": product.url, "CORTEX_DATA_DIR": str(state)}
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(said), time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    """Make the history, feed it, wait until it is searchable, feed it again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--wait", action="store_true", help="also measure until everything is searchable")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as work:
        start = time.perf_counter()
        repository = synthesize(Path(work, "large"), options.commits)
        report.add("repository made, s", round(time.perf_counter() - start, 2))
        product = Product(Path(work, "data"))
        try:
            product.start()
            said, seconds, memory = feed(product, repository.folder, Path(work, "state"))
            report.add("first run", {"commits": options.commits, "units": said["published"], "events": said["events"],
                "s": round(seconds, 2), "commits/s": round(options.commits / seconds), "peak MB": round(memory)})  # fmt: skip
            said, seconds, memory = feed(product, repository.folder, Path(work, "state"))
            report.add("second run", {"units": said["published"], "events": said["events"], "s": round(seconds, 2),
                                      "peak MB": round(memory)})  # fmt: skip
            said, seconds, memory = feed(product, repository.folder, Path(work, "lost"))
            report.add("without its memory", {"units": said["published"], "events": said["events"], "s": round(seconds, 2),
                                              "peak MB": round(memory)})  # fmt: skip
            if options.wait:
                start = time.perf_counter()
                until(lambda: _waiting(product) == 0, STORED_S, "everything is searchable")
                report.add("searchable after another, s", round(time.perf_counter() - start, 1))
                counts = product.http.get("/v1/status").json()["counts"]
                report.add("counts", {name: value for name, value in counts.items() if isinstance(value, int)})
        finally:
            product.close()
    report.add("this process, peak MB", round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def _waiting(product: Product) -> int:
    return sum(int(mark["lag"]) for mark in product.http.get("/v1/status").json()["watermarks"])


if __name__ == "__main__":
    main()
