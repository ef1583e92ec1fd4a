"""A folder of documents becomes events: what is new, changed or gone, and nothing else."""

import os
from collections import Counter

import pytest

from compose.feeds.docs import Feed, Manifest, feed_docs
from compose.feeds.documents import Document, Skipped, document_id, find_documents
from schemas.events import DocumentCompleted, UnitAsserted, parse_event

FEED = Feed("handbook", "acme", "team/team-docs")


class Recorder:
    """Stands for a Cortex: keeps what it is sent and knows no unit unless told."""

    def __init__(self):
        self.events = []
        self.units = {}
        self.asked = []

    def publish(self, events):
        self.events.extend(parse_event(event) for event in events)
        return []

    def find(self, path):
        self.asked.append(path)
        return self.units.get(path)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "handbook"
    root.mkdir()
    (root / "deploy.md").write_text("# Deploy\n\nRun make release.\n\n# Roll back\n\nRun make rollback.\n")
    (root / "README").write_text("Hello.")
    return root


def run(folder, tmp_path, service=None, **options):
    service = service or Recorder()
    outcome = feed_docs(folder, FEED, Manifest(tmp_path / "manifest.json"), service, service.publish, **options)
    return outcome, service.events


def test_the_first_run_publishes_parts_then_completion(folder, tmp_path):
    outcome, events = run(folder, tmp_path)
    assert outcome.published == ["README", "deploy.md"]
    deploy = [event for event in events if event.about() == "handbook/deploy.md"]
    assert [type(event) for event in deploy] == [UnitAsserted, UnitAsserted, DocumentCompleted]
    assert [event.data.title for event in deploy[:2]] == ["deploy › Deploy", "deploy › Roll back"]
    assert deploy[2].data.parts == 2
    assert {event.data.revision for event in deploy} == {deploy[2].data.revision}


def test_a_second_run_publishes_nothing(folder, tmp_path):
    run(folder, tmp_path)
    outcome, events = run(folder, tmp_path)
    assert (outcome.published, outcome.unchanged, events) == ([], ["README", "deploy.md"], [])


def test_only_what_changed_is_published_with_a_higher_revision_even_when_the_file_looks_older(folder, tmp_path):
    _, before = run(folder, tmp_path)
    (folder / "README").write_text("Hello again.")
    os.utime(folder / "README", (1, 1))
    outcome, after = run(folder, tmp_path)
    assert outcome.published == ["README"]
    old = max(event.data.revision for event in before if event.about() == "handbook/README")
    assert min(event.data.revision for event in after) > old


def test_a_vanished_file_is_retracted_once_and_comes_back_higher(folder, tmp_path):
    run(folder, tmp_path)
    (folder / "README").unlink()
    outcome, events = run(folder, tmp_path)
    assert outcome.retracted == ["README"]
    assert [(event.data.id, event.data.parts) for event in events] == [("handbook/README", 0)]
    assert run(folder, tmp_path)[0].retracted == []
    (folder / "README").write_text("Hello.")
    outcome, again = run(folder, tmp_path)
    assert outcome.published == ["README"]
    assert again[-1].data.revision > events[0].data.revision


def test_without_its_manifest_the_feed_asks_the_service(folder, tmp_path):
    _, events = run(folder, tmp_path)
    service = Recorder()
    for event in events:
        if isinstance(event, UnitAsserted) and event.data.part == 0:
            service.units[f"/v1/units/{event.data.id.replace('#', '%23')}"] = {
                "unit": event.data.model_dump(mode="json")
            }
    (tmp_path / "manifest.json").unlink()
    outcome, again = run(folder, tmp_path, service)
    assert (outcome.published, again) == ([], [])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("blank.md", b" \n", "empty"),
        ("binary.txt", b"a\x00b", "binary"),
        ("latin.txt", b"caf\xe9", "not UTF-8 text"),
        ("huge.txt", b"x" * (8 * 1024 * 1024 + 1), "larger than 8 MB"),
    ],
)
def test_what_cannot_be_taken_is_named_with_its_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    assert list(find_documents(tmp_path)) == [Skipped(name, reason)]


def test_hidden_files_code_and_links_to_folders_are_left_out(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "notes.md").write_text("x")
    (tmp_path / "code.py").write_text("x = 1")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.md").write_text("taken")
    assert [found.path for found in find_documents(tmp_path)] == ["a.md"]


@pytest.mark.parametrize(
    ("path", "decision"),
    [("adr/0001-db.md", True), ("docs/decisions/x.md", True), ("people/adrian.md", False), ("quadratic/a.md", False)],
)
def test_a_decision_record_is_told_by_whole_names(tmp_path, path, decision):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("We use X.")
    (found,) = find_documents(tmp_path)
    assert isinstance(found, Document)
    assert found.is_decision is decision


def test_ids_hold_any_path(tmp_path):
    names = ["with space.md", "ünï.md", "a#b.md", "x" * 200 + ".md"]
    for name in names:
        (tmp_path / name).write_text(f"text of {name}")
    _, events = run(tmp_path, tmp_path / "state")
    assert max(Counter((event.source, event.id) for event in events).values()) == 1
    assert len({document_id("handbook", name) for name in names}) == len(names)
