"""The command line as a person and a script use it, against a running Cortex."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.product import running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    with running(tmp_path_factory.mktemp("cli") / "data") as product:
        yield product


@pytest.fixture
def cortex(product, tmp_path):
    """Run a command and return (exit code, standard output, standard error)."""
    env = {**os.environ, "CORTEX_URL": product.url, "CORTEX_DATA_DIR": str(product.folder), "COLUMNS": "120"}

    def run(*arguments, given=None):
        command = [sys.executable, "-m", "compose", *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, env=env, cwd=ROOT, timeout=120, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_publish_then_ask(cortex):
    lines = '{"text": "The ferry Alca carries 212 passengers.", "scope": "team/team-fleet"}\n# a comment\n\n'
    code, out, _ = cortex("publish", "-", "--wait", given=lines)
    assert (code, out) == (0, "1 accepted, 0 known before, 0 refused; all searchable\n")
    assert cortex("publish", "-", "--wait", given=lines)[1].startswith("0 accepted, 1 known before")
    code, out, _ = cortex("ask", "how many passengers does the ferry Alca carry?")
    assert code == 0
    assert "intent" in out
    assert "context" in out
    assert "[1]" in out
    assert "212 passengers" in out
    code, out, _ = cortex("ask", "how many passengers does the ferry Alca carry?", "--json")
    assert json.loads(out)["results"][0]["text"] == "The ferry Alca carries 212 passengers."
    code, out, _ = cortex("ask", "how many passengers does the ferry Alca carry?", "--context")
    assert out.startswith("<cortex-context")
    assert out.rstrip().endswith("</cortex-context>")


def test_refused_lines_are_named_and_the_others_published(cortex):
    lines = '{"text": "Good line about the Alca."}\nnot json\n{"text": "  "}\n{"text": "x", "type": "rumour"}\n'
    code, out, err = cortex("publish", "-", given=lines)
    assert code == 1
    assert out.startswith("1 accepted, 0 known before, 3 refused")
    assert "line 2: not JSON" in err
    assert "line 3 data/text: the text is empty" in err
    assert "line 4 data/type" in err


def test_a_line_with_several_faults_or_with_bytes_that_are_no_text_is_one_refused_line(cortex, tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'{"text": "", "type": "rumour"}\n{"text": "\xff"}\n{"text": "Good line about the Uria."}\n')
    for arguments in (("publish", str(file)), ("publish", str(file), "--scope", "nowhere/x")):
        code, out, _ = cortex(*arguments)
        assert code == 1
        assert out.endswith(f"{3 if '--scope' in arguments else 2} refused\n")


def test_what_no_header_and_no_request_can_carry_is_one_clear_line(cortex):
    for arguments in (
        ("status", "--tenant", "ä"),
        ("status", "--token", "a\nb"),
        ("jobs", b"\xff"),
        ("ask", b"what \xff"),
    ):
        code, _, err = cortex(*arguments)
        assert code in {1, 2}
        assert "Traceback" not in err
        assert err.strip()


def test_a_question_that_nothing_answers_has_an_exit_code_of_its_own(cortex):
    assert cortex("ask", "who wrote the opera about the glass mountain of Tyrol?")[0] == 5


def test_no_service_is_one_clear_line(cortex):
    code, out, err = cortex("ask", "anything", "--url", "http://127.0.0.1:9")
    assert (code, out) == (3, "")
    assert "no Cortex answers at http://127.0.0.1:9" in err
    assert "Traceback" not in err


def test_a_runtime_needs_ports_that_can_be_named(cortex):
    for port in ("0", "-1", "65536"):
        code, _, err = cortex("up", "--port", port)
        assert code in {1, 2}
        assert "Traceback" not in err


def test_a_missing_file_is_wrong_usage(cortex):
    code, _, err = cortex("publish", "nowhere.jsonl")
    assert code == 2
    assert "cannot read nowhere.jsonl" in err


def test_a_problem_names_field_and_limit(cortex):
    code, _, err = cortex("ask", "x" * 4_001)
    assert code == 1
    assert "q" in err
    assert "4000" in err.replace(",", "")


def test_status_as_json(cortex):
    code, out, _ = cortex("status", "--json")
    status = json.loads(out)
    assert code == 0
    assert status["ready"] is True
    assert status["counts"]["units"] >= 1
    assert "ready" in cortex("status")[1]


def test_feed_docs_publishes_a_folder_of_real_documents_and_then_only_changes(cortex, product, tmp_path):
    """Cases C14 and C65 through the front door: this project's own README is what is fed."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    shutil.copy(ROOT / "README.md", folder / "README.md")
    (folder / "deploy.md").write_text("# Deploying\n\nTo deploy the lighthouse lamp, run `lampctl release`.\n")
    feed = ("feed", "docs", str(folder), "--scope", "team/team-docs", "--wait", "--json")

    first = json.loads(cortex(*feed)[1])
    assert first["published"] == ["README.md", "deploy.md"]
    assert first["searchable"] is True
    answer = product.ask("which partitioner does librdkafka need?")
    assert answer["results"][0]["source_ref"] == "README.md"
    assert "murmur2_random" in answer["results"][0]["text"]

    again = json.loads(cortex(*feed)[1])
    assert (again["published"], again["unchanged"]) == ([], 2)

    (folder / "deploy.md").write_text("# Deploying\n\nTo deploy the lighthouse lamp, press the brass button.\n")
    (folder / "README.md").unlink()
    changed = json.loads(cortex(*feed)[1])
    assert (changed["published"], changed["retracted"]) == (["deploy.md"], ["README.md"])
    answer = product.ask("how do we deploy the lighthouse lamp?")
    assert "brass button" in answer["results"][0]["text"]
    assert not any("lampctl" in result["text"] or result["source_ref"] == "README.md" for result in answer["results"])
