"""``cortex feed git`` against a running Cortex: this project's own history answers questions about its decisions."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.product import SEARCHABLE_S, running, until
from tests.git_history import BEN, Repository

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
AWS = "AKIA" + "Q3EGRIPZ7XK2M5LD"

README = "README.md"
QUESTIONS = [
    # question, where the answer stands (a document, or a commit by its subject), a word of the answer
    ("why is no word too common for a small store?", "Leave no word out of a small store's keyword search", "tenth"),
    ("why is a unit's title embedded with its text?", "Embed a unit's title with its text", "heading"),
    ("which modules may import third-party clients?", "Hold each third-party client to its one module", "client"),
    ("what are a document's parts titled by?", "Title a document's parts by the document", "document"),
    ("what does everything else stand on: schemas, protocols and typed errors?", "Lay the frame", "CloudEvents"),
    ("does the graph vote in the fusion, or does it lift?", README, "lifts"),
    ("what does a contradiction need to be flagged?", README, "checkable"),
    ("do vectors depend on their neighbours in a batch?", README, "neighbours"),
    ("which partitioner does librdkafka need?", README, "murmur2_random"),
    ("what is kept on disk, and which is the record of truth?", README, "journal.db"),
    ("what wins when a retraction and an assertion have the same revision?", README, "tombstone"),
    ("under which licence is python-igraph, and what follows for a distribution?", README, "GPL"),
    ("how do I publish a folder of Markdown documents?", README, "feed docs"),
    ("in which order are effect, outputs and offset committed?", README, "offset"),
]


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    with running(tmp_path_factory.mktemp("git") / "data") as product:
        yield product


@pytest.fixture(scope="module")
def environment(product):
    return {**os.environ, "CORTEX_URL": product.url, "CORTEX_DATA_DIR": str(product.folder), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def cortex(environment):
    """Run a command and return (exit code, standard output, standard error)."""

    def run(*arguments):
        command = [sys.executable, "-m", "compose", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=200, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def own(cortex):
    """This checkout's history, fed once; what the first run said."""
    whole = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"], capture_output=True, check=False
    )
    if whole.stdout.strip() != b"false":
        pytest.skip("this is no checkout with its whole history")
    code, out, err = cortex(
        "feed", "git", str(ROOT), "--name", "cortex", "--scope", "team/team-core", "--wait", "--json"
    )
    assert code == 0, err
    return json.loads(out)


def test_this_repository_is_fed_and_a_second_run_publishes_nothing(own, cortex):
    assert own["published"] >= 14
    assert own["searchable"] is True
    assert own["withheld_commits"] == 0
    assert README in own["documents"]["published"]
    assert own["declared"]["module"] > 200
    code, out, _ = cortex("feed", "git", str(ROOT), "--name", "cortex", "--scope", "team/team-core", "--json")
    again = json.loads(out)
    assert (code, again["published"], again["events"], again["retracted"]) == (0, 0, 0, 0)


@pytest.mark.parametrize(("question", "source", "word"), QUESTIONS)
def test_a_question_about_this_project_is_answered_with_its_citation(own, product, question, source, word):
    results = product.ask(question, limit=5)["results"]
    cited = [(result["source_ref"], result["text"]) for result in results]
    expected = [text for ref, text in cited if ref == source or text.startswith(source)]
    assert any(word in text for text in expected), [text[:80] for _, text in cited]


def test_who_touches_a_module_is_known(own, product):
    def neighbours():
        match = product.http.get("/v1/entities", params={"q": "compose/feeds/docs.py"}).json()["match"]
        if match is None:
            return None
        page = product.http.get(f"/v1/entities/{match['entity_id']}").json()
        return [one for one in page["neighbours"] if one["relation"] == "touches"]

    assert until(neighbours, SEARCHABLE_S, "the module's people are in the graph")


@pytest.fixture
def shop(tmp_path):
    repository = Repository(tmp_path / "shop")
    repository.commit("Switch the cart to decimal numbers\n\nFloats lost a cent in every thousandth order.", "cart.py")
    repository.commit(f"Configure the deploy user\n\nkey id {AWS}", "deploy.py", author=BEN)
    return repository


def test_what_holds_a_secret_is_counted_and_named_on_request(cortex, product, shop):
    code, out, err = cortex("feed", "git", str(shop.folder), "--wait")
    assert code == 0
    assert "1 commits published (decision 1)" in out
    assert "1 commits and 0 parts of documents not published because they hold a secret" in out
    assert "--verbose" in err
    held = shop.git("rev-parse", "HEAD")
    code, out, err = cortex("feed", "git", str(shop.folder), "--verbose", "--name", "shop-again")
    assert f"holds a secret: {held} (AWS access key)" in err
    assert AWS not in out + err
    answer = product.ask("which numbers does the cart use?")
    assert "decimal" in answer["results"][0]["text"]
    assert AWS not in json.dumps(product.ask("configure the deploy user key id", limit=50))


def test_rewritten_history_is_retracted(cortex, product, shop):
    shop.commit("Adopt the violet theme for the checkout", "theme.py")
    assert cortex("feed", "git", str(shop.folder), "--name", "violet", "--wait")[0] == 0
    assert "violet theme" in product.ask("which theme did the checkout adopt?")["results"][0]["text"]
    shop.git("reset", "--quiet", "--hard", "HEAD~1")
    shop.commit("Adopt the amber theme for the checkout", "theme.py")
    assert "1 retracted" in cortex("feed", "git", str(shop.folder), "--name", "violet", "--wait")[1]
    results = product.ask("which theme did the checkout adopt?", limit=50)["results"]
    assert "amber theme" in results[0]["text"]
    assert not any("violet theme" in result["text"] for result in results)


def test_a_folder_in_no_repository_is_one_clear_line(cortex, tmp_path):
    code, out, err = cortex("feed", "git", str(tmp_path))
    assert (code, out) == (1, "")
    assert "is not in a git repository" in err
    assert "Traceback" not in err


def test_watch_publishes_what_is_committed_and_ends_with_ctrl_c(environment, product, shop):
    command = [
        sys.executable,
        "-m",
        "compose",
        "feed",
        "git",
        str(shop.folder),
        "--name",
        "watched",
        "--watch",
        "--interval",
        "0.5",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as watching:
        try:
            assert watching.stdout is not None
            assert "commits published" in watching.stdout.readline()
            shop.commit("Adopt zinc washers for the tap", "tap.py")
            until(
                lambda: any(
                    "zinc washers" in one["text"] for one in product.ask("which washers does the tap use?")["results"]
                ),
                SEARCHABLE_S,
                "the new commit is searchable",
            )
            watching.send_signal(signal.SIGINT)
            _, err = watching.communicate(timeout=20)
        finally:
            watching.kill()
    assert watching.returncode == 0
    assert err.endswith("stopped\n")
    assert "Traceback" not in err
