"""Background jobs on the running product: ordered by a webhook and by hand, through the end of a process."""

import base64
import json
import os
import secrets
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.e2e.product import Product, unit, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
UNITS = 300  # some seconds of embedding
SECRET = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "webhooks").write_text(json.dumps({"tenant": "demo", "secret": SECRET}))
    named_from_here = os.path.relpath(folder / "webhooks")  # the processes that read it run in another folder
    product = Product(folder / "data", env={"CORTEX_WEBHOOK_SECRETS_FILE": named_from_here})
    try:
        product.start()
        yield product
    finally:
        product.close()


def webhook(product, message_id: str, body: dict):
    content, at = json.dumps(body), datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(message_id, at, content),
    }
    return product.http.post("/v1/webhooks/reindex", content=content, headers=headers)


def cortex(product, *arguments: str) -> tuple[int, str]:
    env = {**os.environ, "CORTEX_URL": product.url, "COLUMNS": "160"}
    command = [sys.executable, "-m", "compose", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False)
    return done.returncode, done.stdout


def job_of(product, address: str) -> dict:
    return dict(product.http.get(address).json())


def test_a_webhooks_job_goes_on_after_its_process_was_killed_and_comes_to_an_end(product):
    """Case C67, inbound, and a kill in the middle of the job that it ordered."""
    product.wait_stored(product.publish(*(unit(f"u{n}", f"The berth {n} is {n} metres long.") for n in range(UNITS))))
    taken = webhook(product, "m-1", {"stage": "embed", "select": {"scope": "team/team-core"}, "reason": "tuned"})
    assert taken.status_code == 202
    address = taken.json()["address"]
    until(lambda: job_of(product, address)["done"] > 0, 60, "the job has begun")
    begun = job_of(product, address)
    assert (begun["state"], begun["total"]) == ("running", UNITS), "it has not ended yet"
    ingest = [one for one in product.tree() if "compose.local.ingest_process" in " ".join(one.cmdline())]
    assert ingest
    for process in ingest:
        process.kill()
    live = product.publish(unit("live", "The berth of the ferry Alca is free."))
    code, out = cortex(product, "jobs", address.rpartition("/")[2], "--follow")
    assert code == 0
    assert f"done  {UNITS} of {UNITS} done" in out
    assert job_of(product, address)["done"] == UNITS, "each unit once"
    product.wait_stored(live)
    again = webhook(product, "m-1", {"stage": "embed", "select": {"scope": "team/team-core"}, "reason": "tuned"})
    assert (again.status_code, again.json()["duplicate"], again.json()["address"]) == (200, True, address)
    assert product.ask("how long is berth 217?")["results"][0]["unit_id"] == "u217"


def test_the_command_line_orders_follows_lists_and_cancels(product):
    product.wait_stored(product.publish(unit("a", "The harbour master is Ida.")))
    code, out = cortex(product, "reindex", "--stage", "resolve", "--unit", "a", "--reason", "by hand", "--wait")
    assert code == 0
    assert "done  1 of 1 done" in out
    code, out = cortex(product, "replay", "--scope", "team/team-core", "--source", "urn:test", "--wait", "--json")
    assert code == 0
    replayed = json.loads(out)["job"]
    assert (replayed["state"], replayed["kind"]) == ("done", "replay")
    code, out = cortex(product, "jobs", replayed["id"], "--cancel")
    assert code == 0
    assert "done" in out, "what is over stays as it ended"
    code, out = cortex(product, "jobs")
    assert code == 0
    assert "by hand" in out
    assert replayed["id"] in out
    assert cortex(product, "jobs", "no-such-job")[0] == 1
    assert cortex(product, "reindex", "--scope", "nowhere")[0] == 1
