"""The page in a browser: what a person does with it, and what it says when something is wrong (`make test-page`)."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaProducer

from compose.company.loader import company_events
from schemas.events import dump_event
from tests.e2e.product import Product, unit

pytestmark = [pytest.mark.page, pytest.mark.timeout(300)]
HERE = Path(__file__).parent
GONE_S = 10.0


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    """A Cortex that holds the sample company."""
    for tool in ("node", "chromium"):
        assert shutil.which(tool), f"{tool} is not installed: apt-get install chromium nodejs npm"
    assert (HERE / "node_modules").is_dir(), "the drivers are not installed: npm ci --prefix tests/page"
    product = Product(tmp_path_factory.mktemp("page") / "data")
    try:
        product.start()
        product.wait_stored(product.publish(*[dump_event(event) for event in company_events("demo")]))
        yield product
    finally:
        product.close()


def end_query_process(product: Product) -> None:
    """End the process that answers; the runtime starts another."""
    (query,) = [one for one in product.tree() if one.cmdline()[1:3] == ["-m", "compose.local.query_process"]]
    query.kill()
    psutil.wait_procs([query], timeout=GONE_S)


def board_of(product: Product) -> psutil.Process:
    """Return the process that keeps the news."""
    (board,) = [one for one in product.tree() if "valkey-server" in one.name()]
    return board


def publish_over_kafka(product: Product) -> None:
    """Publish without the query process."""
    event = unit("page-kafka", "The winter timetable has one sailing less.", scope="team/team-payments")

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=product.kafka, acks="all")
        await producer.start()
        try:
            await producer.send_and_wait("cortex.events", json.dumps(event).encode(), key=b"demo/page-kafka")
        finally:
            await producer.stop()

    asyncio.run(produce())


def serve(product: Product, need: str) -> None:
    """Do what the driver cannot."""
    if need == "end the query process":
        end_query_process(product)
    elif need == "publish over Kafka":
        publish_over_kafka(product)
    elif need == "hold the board":
        board_of(product).suspend()
    elif need == "release the board":
        board_of(product).resume()
    elif need == "stop":
        product.stop()
    elif need == "start":
        product.start()
    else:
        raise AssertionError(need)


SCENARIOS = (
    "asks, and each stage lights up in order",
    "opens a citation by keyboard",
    "shows a unit's history",
    "shows a conflict side by side",
    "follows the live feed",
    "asks as somebody else",
    "fits a narrow window",
    "can be read by everybody",
    "says how it is",
    "says that news is away while the board is",
    "paints early",
    "goes on where it was when the service comes back",
    "survives a restart of everything",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_page(company, scenario, tmp_path_factory, record_property):
    pictures = tmp_path_factory.mktemp("pictures", numbered=True)
    driver = subprocess.Popen(
        ["node", str(HERE / "drive.mjs"), company.url, scenario, str(pictures)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    checks = []
    try:
        for line in driver.stdout:
            said = json.loads(line)
            if "need" in said:
                serve(company, said["need"])
                driver.stdin.write("done\n")
                driver.stdin.flush()
            elif "figure" in said:
                record_property(said["figure"], said["value"])
                print(f"{said['figure']}: {said['value']}")
            else:
                checks.append(said)
    finally:
        driver.kill()
        driver.wait(GONE_S)
        driver.stdin.close()
        driver.stdout.close()
    print(f"pictures: {pictures}")
    assert checks
    assert [f"{one['check']}: {one['detail']}" for one in checks if not one["ok"]] == []


def test_every_scenario_is_driven():
    written = (HERE / "drive.mjs").read_text(encoding="utf-8")
    assert set(re.findall(r'^  async "(.+?)"', written, re.MULTILINE)) == set(SCENARIOS)
