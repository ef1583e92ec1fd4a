"""The embedded broker dies or hangs under a running Cortex: what was answered 202 is kept, and all is well by itself again."""

import contextlib
import signal
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.e2e.product import Product, running, unit, until

pytestmark = pytest.mark.e2e

TURNS_S = 30.0  # what is promised


@pytest.fixture(scope="module")
def cortex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running(tmp_path_factory.mktemp("broker-down") / "data", "--no-company") as product:
        yield product


def broker_of(product: Product) -> psutil.Process:
    """The broker itself, not the guard in front of it."""
    (found,) = [
        process for process in product.tree() if process.cmdline()[1:2] == ["broker"] and "python" not in process.name()
    ]
    return found


def readiness(product: Product) -> tuple[int, dict[str, str]]:
    """What ingest says of itself."""
    response = httpx.get(f"http://127.0.0.1:{product.port + 4}/readyz", timeout=10, trust_env=False)
    return response.status_code, response.json()["reasons"]


def is_ready(product: Product) -> bool:
    return readiness(product)[0] == 200


def test_events_posted_while_the_broker_is_dead_are_kept_and_become_searchable(cortex: Product):
    until(lambda: is_ready(cortex), TURNS_S, "ingest is ready")
    dead = broker_of(cortex)
    dead.send_signal(signal.SIGKILL)
    accepted = cortex.publish(*(unit(f"dead-{n}", f"Fact {n} from while the broker was dead.") for n in range(50)))
    assert not any(event["duplicate"] for event in accepted)
    cortex.wait_stored(accepted)
    until(lambda: is_ready(cortex), TURNS_S, "ingest is ready again")
    assert broker_of(cortex).pid != dead.pid
    assert cortex.http.get("/readyz").status_code == 200


def test_readiness_turns_while_the_broker_hangs_and_comes_back_without_a_restart(cortex: Product):
    until(lambda: is_ready(cortex), TURNS_S, "ingest is ready")
    hanging = broker_of(cortex)
    hanging.suspend()
    try:
        until(lambda: readiness(cortex)[0] == 503, TURNS_S, "readiness has turned")
        assert readiness(cortex)[1].keys() & {"broker", "pipeline"}
        accepted = cortex.publish(*(unit(f"hung-{n}", f"Fact {n} from while the broker hung.") for n in range(20)))
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):  # its owner may have replaced it
            hanging.resume()
    cortex.wait_stored(accepted)
    until(lambda: is_ready(cortex), TURNS_S, "ingest is ready again")


def test_the_figures_of_ingest_go_on_counting_whatever_happens_to_the_broker(cortex: Product):
    figures = httpx.get(f"http://127.0.0.1:{cortex.port + 4}/metrics", timeout=10, trust_env=False).text
    assert "cortex_ingest_searchable_seconds_count 70.0" in figures
    assert "cortex_ingest_slow_events{" not in figures


def test_what_came_while_it_was_away_is_there_once(cortex: Product):
    assert cortex.http.get("/v1/status").json()["counts"]["units"] == 50 + 20
