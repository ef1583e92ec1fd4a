"""The README's programs for producers work as they are typed (but for the ports)."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.e2e.product import Product, until

pytestmark = pytest.mark.e2e

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
PROGRAMS = {
    client: textwrap.dedent(found.group(0))
    for client, found in (
        (
            client,
            re.search(
                rf"^    import [^\n]+\n    from {client}(?:\n|.)*?^    asyncio\.run\(main\(\)\)$", README, re.MULTILINE
            ),
        )
        for client in (r"aiokafka", r"faststream\.kafka")
    )
    if found
}


@pytest.mark.parametrize(("client", "unit"), [("aiokafka", "invoices"), (r"faststream\.kafka", "refunds")])
def test_a_program_of_the_guide_publishes_a_unit(client: str, unit: str, shared_product: Product, tmp_path: Path):
    program = tmp_path / "producer.py"
    program.write_text(PROGRAMS[client].replace("127.0.0.1:8421", shared_product.kafka))
    subprocess.run([sys.executable, str(program)], check=True, timeout=60, cwd=tmp_path)
    until(
        lambda: (shared_product.status(f"{unit}-1", "urn:billing") or {}).get("state") == "stored",
        60,
        f"{unit} is stored",
    )
    assert shared_product.http.get(f"/v1/units/{unit}").json()["unit"]["id"] == unit
