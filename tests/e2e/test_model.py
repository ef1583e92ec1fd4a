"""`cortex model` on a running Cortex: the index is changed to a model behind an endpoint, and back (C61)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENT
from tests.e2e.product import Product, unit
from tests.endpoint_server import EndpointServer, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND = "hashed-terms/64", "words/96"


@pytest.fixture(scope="module")
def endpoint():
    with running(EndpointServer({"words": 96}, turned=frozenset({"words"}))) as server:
        yield server


@pytest.fixture
def product(tmp_path, endpoint):
    others = json.dumps([{"url": endpoint.url, "model": "words", "dims": 96}])
    product = Product(tmp_path / "data", env={**PATIENT, "CORTEX_EMBEDDER": "hashed", "CORTEX_OTHER_EMBEDDERS": others})
    try:
        product.start()
        said = [unit(f"u{n}", f"Team {n} restarts the gateway of region {n}.") for n in range(40)]
        product.wait_stored(product.publish(*said))
        yield product
    finally:
        product.close()


def cortex(product, *arguments):
    """Run a command and return (exit code, standard output, standard error)."""
    env = {**os.environ, "CORTEX_URL": product.url, "COLUMNS": "200"}
    command = [sys.executable, "-m", "compose", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def models(product):
    code, out, _ = cortex(product, "model", "show", "--json")
    assert code == 0
    return json.loads(out)


def first(product, question="who restarts the gateway of region 7?"):
    answer = product.ask(question)
    assert answer["lost"] == []
    return answer["results"][0]["unit_id"]


def test_the_model_is_changed_gone_back_from_and_dropped(product, endpoint):
    shown = models(product)
    searched = {"name": FIRST, "dims": 64, "active": True, "state": "searched", "done": None, "total": None}
    assert shown["models"] == [searched]
    assert (shown["wanted"], SECOND in shown["configured"]) == (FIRST, True)
    assert first(product) == "u7"

    code, out, _ = cortex(product, "model", "change", SECOND, "--wait", "--json")
    job = json.loads(out)["job"]
    assert (code, job["state"], job["done"], job["total"]) == (0, "done", 40, 40)
    assert [(one["name"], one["active"]) for one in models(product)["models"]] == [(SECOND, True), (FIRST, False)]
    asked = endpoint.served["words"]
    assert first(product) == "u7"
    assert endpoint.served["words"] == asked + 1, "the question is embedded by the index's model"

    product.wait_stored(product.publish(unit("late", "Team Umber restarts the lantern of region ninety.")))
    code, out, _ = cortex(product, "model", "change", FIRST, "--wait", "--json")
    job = json.loads(out)["job"]
    assert (code, job["state"], job["done"]) == (0, "done", 0), "nothing had to be computed"
    assert first(product, "who restarts the lantern of region ninety?") == "late"

    code, out, _ = cortex(product, "model", "drop", SECOND, "--wait", "--json")
    assert (code, json.loads(out)["job"]["done"]) == (0, 41)
    assert [one["name"] for one in models(product)["models"]] == [FIRST]


def test_what_cannot_be_is_refused_in_words(product):
    code, _, told = cortex(product, "model", "change", "nobody/3")
    assert code == 1
    assert "/model" in told
    assert SECOND in told
    code, _, told = cortex(product, "model", "drop", FIRST)
    assert code == 1
    assert "change to another one first" in told


def test_a_start_without_the_indexs_model_says_what_to_do(product, tmp_path, endpoint):
    """Both models and the way out are named; nothing is added to the index by another model."""
    assert cortex(product, "model", "change", SECOND, "--wait")[0] == 0
    product.stop()
    command = [sys.executable, "-m", "compose", "up", "--json", "--data-dir", str(product.folder)]
    env = {**os.environ, **PATIENT, "CORTEX_EMBEDDER": "hashed"}
    env.pop("CORTEX_OTHER_EMBEDDERS", None)
    done = subprocess.run(
        [*command, "--port", str(product.port)],
        capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert SECOND in told
    assert f"cortex model change {FIRST}" in told
    assert "Traceback" not in told
