"""Dead letters on the running product: found, shown, sent through again and discarded, from a terminal and over HTTP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cortex(tenant, tmp_path):
    """Run ``cortex dead-letters`` as the tenant's administrator; return (exit code, what it printed)."""
    env = {**os.environ, "CORTEX_URL": tenant.product.url, "CORTEX_TENANT": tenant.name, "COLUMNS": "160"}

    def run(*arguments):
        command = [sys.executable, "-m", "compose", "dead-letters", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def broken(tenant, name="e1"):
    """An event that names its tenant and its id, and cannot be used."""
    return json.dumps(tenant.unit(name, " ")).encode()


def test_a_letter_is_found_shown_replayed_and_discarded_from_a_terminal(tenant, cortex):
    """Case C30, and the end of it: what can never succeed is marked as seen to, with who and when."""
    ((partition, offset),) = tenant.produce(broken(tenant), partition=1, key=b"k", headers=[("trace", b"abc\xff")])
    (letter,) = tenant.eventually(tenant.letters, "it has its dead letter")
    code, printed = cortex("list")
    assert (code, letter["id"] in printed, "invalid-input" in printed) == (0, True, True)
    assert json.loads(cortex("list", "--json")[1])["letters"][0]["id"] == letter["id"]
    assert "No dead letters" in cortex("list", "--stage", "store")[1]

    code, printed = cortex("show", letter["id"])
    assert code == 0
    for words in (
        f"partition {partition}, offset {offset}",
        "embed: invalid-input, 1 attempts",
        "header trace",
        '"e1-0"',
    ):
        assert words in printed, words

    code, printed = cortex("replay", letter["id"], "--reason", "tried once more")
    assert code == 0, printed
    assert "1 of 1 sent through again" in printed
    again = tenant.eventually(
        lambda: next((one for one in tenant.letters(state="open") if one["attempts"] == 2), None), "it failed again"
    )
    assert (again["id"], again["replays"], again["body"]) == (letter["id"], 1, letter["body"])

    assert "1 of 1 discarded" in cortex("discard", "--cause", "invalid-input")[1]
    assert "nothing had to be done" in cortex("discard", letter["id"])[1]
    shown = json.loads(cortex("show", letter["id"], "--json")[1])
    assert (shown["state"], shown["resolved_by"]) == ("discarded", "trusted caller")
    assert shown["resolved_at"] is not None
    assert "No dead letters" in cortex("list")[1]
    assert tenant.status()["dead_letters"] == [], "what was seen to is not shown as something to do"


def test_the_terminal_says_which_letters_there_are_not(cortex):
    code, printed = cortex("replay", "none")
    assert (code, "there is no dead letter none" in printed) == (1, True)
    code, printed = cortex("show", "none")
    assert (code, "no dead letter" in printed) == (1, True)
    code, printed = cortex("replay")
    assert (code, "either ids, or a stage or a cause" in printed) == (1, True)


def test_a_replay_over_http_is_a_job_that_ends(tenant):
    tenant.produce(broken(tenant), partition=0, key=b"k")
    (letter,) = tenant.eventually(tenant.letters, "it has its dead letter")
    http, address = tenant.product.http, {"tenant": tenant.name}
    ordered = http.post(f"/v1/dead-letters/{letter['id']}/replay", params=address)
    assert ordered.status_code == 202
    job = ordered.json()["jobs"][0]["job"]
    done = tenant.eventually(
        lambda: next((one for one in [tenant.get(job).json()] if one.get("state") == "done"), None), "its job is done"
    )
    assert (done["kind"], done["done"], done["requested_by"]) == ("replay-letters", 1, "trusted caller")


def test_states_of_events_follow_what_becomes_of_them(tenant):
    """Superseded, retracted, stale: each by id, with its time."""
    tenant.tell(tenant.unit("port", "The port is 8420.", revision=2))
    tenant.tell(tenant.unit("port", "The port is 9000.", revision=3))
    tenant.tell(tenant.unit("port", "The port is 80.", revision=1))
    tenant.wait_state("port-2", "superseded")
    tenant.wait_state("port-1", "stale")
    stored = tenant.wait_state("port-3", "stored")
    assert stored["at"] == stored["accepted_at"]
    assert tenant.product.http.delete("/v1/units/port", params={"tenant": tenant.name}).status_code == 202
    tenant.wait_state("port-3", "retracted")
