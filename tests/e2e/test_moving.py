"""Rebuild, export and import on the running product, with the sample company in it."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from shared.fingerprints import PARTS
from tests.e2e.conftest import PATIENT
from tests.e2e.product import Product, unit, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
QUESTION = "why did we choose PostgreSQL for the ledger?"


def cortex(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command on a data folder; return (exit code, standard output, standard error)."""
    env = {**os.environ, "CORTEX_DATA_DIR": str(folder), "COLUMNS": "200"}
    command = [sys.executable, "-m", "compose", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=180, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """A Cortex with the sample company."""
    product = Product(tmp_path_factory.mktemp("moving") / "data", env=PATIENT)
    try:
        product.start("--company")
        yield product
    finally:
        product.close()


def verified(folder: Path) -> dict:
    """Compare a store with its log, tenant by tenant; it must be equal."""
    code, out, err = cortex(folder, "rebuild", "--verify", "--json")
    report = json.loads(out)
    differences = [one["differences"] for one in report["tenants"]]
    assert (code, report["equal"]) == (0, True), (differences, err)
    return {one["tenant"]: one for one in report["tenants"]}


def answer(product: Product, tenant: str = "demo") -> list[str]:
    response = product.http.post("/v1/context", json={"q": QUESTION}, headers={"Cortex-Tenant": tenant})
    assert response.status_code == 200, response.text
    return [result["unit_id"] for result in response.json()["results"]]


def test_the_store_of_the_company_is_what_its_log_says_while_it_is_written(product):
    ended = threading.Event()

    def go_on() -> None:
        with product.another() as http:
            number = 0
            while not ended.is_set():
                said = unit(f"on-{number % 20}", f"Gate {number} opens at dawn.", event_id=f"on-{number}", source="on")
                assert http.post("/v1/events", json=[said]).status_code == 202
                number += 1
                ended.wait(0.05)

    writing = threading.Thread(target=go_on)
    writing.start()
    try:
        report = verified(product.folder)["demo"]
    finally:
        ended.set()
        writing.join()
    assert report["events"] > 190
    assert report["vectors"]["borrowed"] > 150
    assert min(report["parts"][part]["things"] for part in ("units", "contradictions", "entities", "relations")) > 0


def test_what_is_exported_is_the_same_company_in_another_cortex(product, tmp_path):
    """The second one serves meanwhile, and knows it under another tenant's name."""
    code, out, err = cortex(product.folder, "export", str(tmp_path / "out"), "--tenant", "demo")
    assert code == 0, err
    assert "events of 1 tenants in 1 files" in out
    other = Product(tmp_path / "other", env=PATIENT)
    try:
        other.start()
        code, out, err = cortex(other.folder, "import", str(tmp_path / "out"), "--tenant-map", "demo=moved", "--json")
        assert code == 0, err
        assert json.loads(out)["refused_count"] == 0
        journal_end = json.loads(out)["events"]
        first, second = verified(product.folder)["demo"], None
        while second is None or second["events"] < journal_end:
            second = verified(other.folder)["moved"]
        for part in PARTS:
            assert second["parts"][part]["live"] == first["parts"][part]["live"], part
        until(lambda: answer(other, "moved") == answer(product), 30, "both answer alike once the graph is read")
    finally:
        other.close()


def test_a_served_store_is_not_replaced(product):
    code, _, err = cortex(product.folder, "rebuild", "--replace")
    assert code == 1
    assert "in use by another Cortex" in err


def test_a_damaged_store_is_told_then_replaced_by_what_the_log_says(product):
    """Exit code 6 and the unit's name; afterwards the same answer as before, and the old store is kept until dropped."""
    before = answer(product)
    assert product.stop() == 0
    with closing(sqlite3.connect(product.folder / "knowledge" / "demo.db")) as damaged:
        [(lost,)] = damaged.execute("DELETE FROM unit WHERE unit_id = ? RETURNING unit_id", (before[0],)).fetchall()
        damaged.commit()
    code, out, _ = cortex(product.folder, "rebuild", "--verify")
    assert code == 6
    assert f"units: {lost}" in out
    assert "not there" in out
    code, out, err = cortex(product.folder, "rebuild", "--replace", "--json")
    assert code == 0, err
    assert json.loads(out)["tenants"][0]["vectors"]["borrowed"] > 150
    assert len(list(product.folder.glob("knowledge.before-*/demo.db"))) == 1
    product.start()
    until(lambda: answer(product) == before, 30, "the answer is as before")
    verified(product.folder)
    assert cortex(product.folder, "rebuild", "--drop-old")[0] == 0
    assert list(product.folder.glob("knowledge.before-*")) == []


def test_the_commands_say_what_is_missing(product, tmp_path):
    for arguments, words in (
        (("rebuild",), "say what to do"),
        (("rebuild", "--verify", "--replace"), "two things"),
        (("import", str(tmp_path)), "is not an export"),
        (("migrate", "--to", "sqlite"), "is sqlite already"),
        (("export", str(tmp_path / "out"), "--tenant", "nobody"), "knows no tenant 'nobody'; it knows demo"),
        (("rebuild", "--verify", "--tenant", "nobody"), "knows no tenant 'nobody'; it knows demo"),
    ):
        code, _, err = cortex(product.folder, *arguments)
        assert code == 1
        assert words in err
    code, _, err = cortex(tmp_path / "nowhere", "export", str(tmp_path / "out"))
    assert code == 1
    assert "is not a data folder" in err
