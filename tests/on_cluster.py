"""Run pytest beside the servers of the cluster set-up: ``python -m tests.on_cluster PYTEST-ARGUMENTS``.

A Weaviate for all tests is started here, with its data in a temporary folder; Kafka is started by the fixtures, which give
some tests one of their own. The exit code is pytest's.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compose.native.weaviate import WeaviatePorts, start_weaviate
from shared.errors import CortexError

FAILED = 3  # pytest's code for an error of its own: nothing was tested


async def run(arguments: Sequence[str]) -> int:
    """Start the server, run pytest, end the server."""
    with tempfile.TemporaryDirectory(prefix="cortex-test-") as folder:
        server = await start_weaviate(Path(folder) / "weaviate", WeaviatePorts.free(), print)
        try:
            env = {**os.environ, "CORTEX_TEST_BROKER": "kafka", "CORTEX_TEST_WEAVIATE": f"{server.url},{server.grpc}"}
            tests = await asyncio.create_subprocess_exec(sys.executable, "-m", "pytest", *arguments, env=env)
            try:
                return await tests.wait()
            except asyncio.CancelledError:  # Ctrl-C, which pytest has heard too
                await tests.wait()
                raise
        finally:
            await server.stop()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(run(sys.argv[1:])))
    except KeyboardInterrupt:
        sys.exit(130)
    except CortexError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(FAILED)
