"""A short schedule of the chaos run on the cluster set-up: two ingest and two query processes, Kafka, Weaviate, Redis.

Everything is killed once or more while questions are asked; the long one is ``python -m tests.chaos --store weaviate``. The
undisturbed run beside it is on SQLite: that both end equal says so of the two stores too.
"""

from pathlib import Path

import pytest

from tests.chaos.run import Options, run
from tests.chaos.schedule import KILLS, Kind

pytestmark = [pytest.mark.anyio, pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(400)]

SEED = 7


async def test_every_part_of_a_cluster_is_killed_while_questions_are_asked(tmp_path: Path):
    """Nothing is lost or done twice; no answer is an error or pretends; at the end both replicas answer alike."""
    options = Options(
        broker="kafka",
        weaviate=True,
        events=250,
        kills=4,
        partitions=4,
        seed=SEED,
        minutes=6,
        members=2,
        freezes=0,  # they take longer than a session; test_zombie.py has one of its own
        patience_s=5.0,
        beside=True,
    )
    result = await run(options, tmp_path)
    assert result.well, result.table()
    assert sum(result.done[kind] for kind in KILLS) == options.kills
    assert {Kind.STORE, Kind.REPLICA, Kind.BROKER, Kind.CACHE, Kind.FLUSH} <= result.done.keys()
    assert result.asked["complete"] > 0
    assert result.lag
    assert not any(result.lag.values())
