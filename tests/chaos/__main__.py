"""``python -m tests.chaos``: the long run, from a terminal."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from shared.errors import CortexError
from tests.chaos.run import Options, run

FAILED, NOT_RUN = 1, 3


def main(arguments: list[str]) -> int:
    """Run on each broker that is asked for; return 0 when nothing was lost, doubled or different."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--broker", choices=("embedded", "kafka", "both"), default="both")
    parser.add_argument("--store", choices=("sqlite", "weaviate"), default="sqlite", help="weaviate: on Kafka alone")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=100, help="SIGKILL and SIGTERM of consumers, together")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run: the same events and disturbances")
    parser.add_argument("--minutes", type=float, default=60.0, help="deadline of each broker's run")
    parser.add_argument("--keep", type=Path, default=None, help="an empty folder for data and logs, which stay there")
    given = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a broker that is killed is no error here
    code = 0
    for broker in ("embedded", "kafka") if given.broker == "both" else (given.broker,):
        options = Options(
            broker=broker,
            events=given.events,
            kills=given.kills,
            partitions=given.partitions,
            seed=seed,
            weaviate=given.store == "weaviate" and broker == "kafka",
            minutes=given.minutes,
        )
        print(f"{broker}: seed {seed}, {given.events} events, {given.kills} kills", flush=True)
        code = max(code, _one(options, given.keep))
    return code


def _one(options: Options, keep: Path | None) -> int:
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"  {time.monotonic() - began:6.0f} s  {what}", flush=True)

    with tempfile.TemporaryDirectory(prefix="cortex-chaos-") as made:
        folder = Path(made) if keep is None else keep / options.broker
        folder.mkdir(parents=True, exist_ok=True)
        result = asyncio.run(run(options, folder, tell))
    print(result.table(), flush=True)
    return 0 if result.well else FAILED


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except (CortexError, TimeoutError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(NOT_RUN)
