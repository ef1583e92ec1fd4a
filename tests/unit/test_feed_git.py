"""A repository's history becomes events: each commit once, people and modules, and only what changed the next time."""

import json
from collections import Counter

import pytest

from schemas.events import (
    EntityDeclared,
    EntityRetracted,
    RelationDeclared,
    UnitAsserted,
    UnitRetracted,
)
from tests.git_history import ANA, BEN, Repository
from tests.unit.git_feeding import Recorder, feeding

AWS = "AKIA" + "Q3EGRIPZ7XK2M5LD"


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "shop")


@pytest.fixture
def run(tmp_path, repository):
    return feeding(tmp_path, repository)


def test_a_commit_is_a_unit_with_its_message_main_files_author_and_time(run, repository):
    sha = repository.commit(
        "Fix the refund of half cents\n\nRounding was done twice.\n\nReviewed-by: Ben Ito <ben@example.org>\nChange-Id: I12\n",
        "ledger/refund.py", "tests/test_refund.py", "uv.lock",
    )  # fmt: skip
    service = Recorder()
    run(service)
    unit = service.unit("Fix the refund")
    assert unit.id == f"shop/{sha}"
    assert unit.text == (
        "Fix the refund of half cents\n\nRounding was done twice.\n\nFiles: ledger/refund.py, tests/test_refund.py, uv.lock"
    )
    assert unit.type == "error_fix"
    assert (unit.origin.source_type, unit.origin.source_ref) == ("git_commit", sha)
    assert unit.occurred_at.original == "2026-03-01T01:00:00+02:00"
    (person,) = [one for one in service.of(EntityDeclared) if one.type == "person"]
    assert unit.origin.creator_entity_id == person.id
    assert person.name == "Ana Souza"
    assert "ana@example.org" not in json.dumps([event.model_dump(mode="json") for event in service.new])
    assert unit.file_refs == ("ledger/refund.py", "tests/test_refund.py", "uv.lock")
    assert "shop/ledger/refund.py" in [link.entity_id for link in unit.entity_links]


def test_a_second_run_publishes_nothing_and_a_third_only_the_new_commit(run, repository):
    repository.commit("Add the ledger module", "ledger.py")
    repository.commit("Add the refund module", "refund.py", author=BEN)
    service = Recorder()
    first = run(service)
    assert first.published == 2
    second = run(service)
    assert (second.published, second.events, service.new) == (0, 0, [])
    repository.commit("Adopt decimal numbers", "ledger.py", author=BEN)
    third = run(service)
    assert (third.published, third.kinds) == (1, Counter(decision=1))
    changed = {(one.relation, one.target_id, one.weight) for one in service.of(RelationDeclared)}
    assert changed == {("touches", "shop/ledger.py", 0.2), ("works_on", "project-shop", 0.36)}  # 1 - 0.8, 1 - 0.8²


def test_without_what_it_remembers_everything_is_sent_again_and_nothing_changes(run, repository):
    for number in range(4):
        repository.commit(f"Add part number {number}", "a.py", f"b{number}.py", author=(ANA, BEN)[number % 2])
    service = Recorder()
    run(service)
    again = run(service, state="elsewhere")
    assert (again.published, again.repeated, again.events) == (0, 4, 0)


def test_touches_grow_with_commits_and_follow_renames(run, repository):
    for _ in range(3):
        repository.commit("Work on the ledger", "ledger.py")
    repository.git("mv", "ledger.py", "book.py")
    repository.commit("Rename the ledger to book")
    service = Recorder()
    run(service)
    touches = {(one.target_id, one.weight) for one in service.of(RelationDeclared) if one.relation == "touches"}
    assert touches == {("shop/book.py", 0.59)}  # 1 - 0.8⁴: three commits before the rename, and the rename
    assert [one.name for one in service.of(EntityDeclared) if one.type == "module"] == ["book.py"]


def test_a_vanished_file_is_retracted_with_its_touches_and_comes_back_higher(run, repository):
    repository.commit("Add two modules", "a.py", "b.py")
    service = Recorder()
    run(service)
    before = {one.id: one.revision for one in service.of(EntityDeclared)}
    repository.git("rm", "--quiet", "b.py")
    repository.commit("Remove the second module")
    run(service)
    assert [one.id for one in service.of(EntityRetracted)] == ["shop/b.py"]
    assert {(event.type, event.data.target_id) for event in service.new if event.type == "relation.retracted"} == {
        ("relation.retracted", "shop/b.py")
    }
    repository.commit("Bring the second module back", "b.py")
    run(service)
    (back,) = [one for one in service.of(EntityDeclared) if one.id == "shop/b.py"]
    assert back.revision > before["shop/b.py"]


def test_rewritten_history_retracts_what_no_ref_reaches_and_publishes_what_is_new(run, repository):
    repository.commit("Add the base module", "a.py")
    gone = repository.commit("Add the wrong idea", "b.py")
    service = Recorder()
    run(service)
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.commit("Add the right idea", "c.py")
    outcome = run(service)
    assert (outcome.published, outcome.known, outcome.retracted) == (1, 1, 1)
    assert [one.id for one in service.of(UnitRetracted)] == [f"shop/{gone}"]
    repository.git("reset", "--quiet", "--hard", gone)
    assert run(service).published == 1
    (back,) = service.of(UnitAsserted)
    (withdrawn,) = [
        event.data for event in service.kept.values() if isinstance(event, UnitRetracted) and event.data.id == back.id
    ]
    assert back.revision > withdrawn.revision


def test_a_branch_that_is_not_checked_out_stays(run, repository):
    repository.commit("Add the base module", "a.py")
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit("Try another way", "b.py")
    service = Recorder()
    run(service)
    repository.git("checkout", "--quiet", "main")
    assert run(service).retracted == 0


def test_another_scope_publishes_all_units_with_a_higher_revision(run, repository):
    repository.commit("Add the base module", "a.py")
    repository.write("README.md", "# Shop\n\nHow to run it:\n\n    make up\n")
    repository.commit("Write the readme file")
    service = Recorder()
    run(service)
    first = {unit.id: unit.revision for unit in service.of(UnitAsserted)}
    run(service, scope="team/team-other")
    second = {unit.id: (unit.revision, unit.scope.key) for unit in service.of(UnitAsserted)}
    assert second.keys() == first.keys()
    assert all(revision > first[one] and scope == "team/team-other" for one, (revision, scope) in second.items())


def test_merges_without_words_are_skipped_and_a_pull_request_is_what_its_body_says(run, repository):
    repository.commit("Add the base module", "a.py")
    for branch, message in (
        ("one", "Merge branch 'one'\n"),
        ("two", "Merge pull request #7 from x/y\n\nFix crash on start\n"),
    ):
        repository.git("checkout", "--quiet", "-b", branch)
        repository.commit(f"Work on branch {branch}", f"{branch}.py")
        repository.git("checkout", "--quiet", "main")
        repository.git("merge", "--quiet", "--no-ff", "--no-commit", branch)
        repository.commit(message)
    service = Recorder()
    outcome = run(service)
    assert outcome.skipped == Counter(merge=1)
    pull = service.unit("Merge pull request #7")
    assert pull.type == "error_fix"
    assert pull.metadata["merge"] is True


def test_bots_are_flagged_and_are_no_people(run, repository):
    repository.commit(
        "Bump orjson from 3.10 to 3.11", "uv.lock", author="dependabot[bot] <49699333+dependabot[bot]@users.x>"
    )
    repository.commit("Add a page about bots", "a.py", author="Anna Bot <anna@example.org>")
    service = Recorder()
    run(service)
    unit = service.unit("Bump orjson")
    assert (unit.metadata["bot"], unit.agent, unit.origin.creator_entity_id) == (True, "dependabot[bot]", None)
    assert [one.name for one in service.of(EntityDeclared) if one.type == "person"] == ["Anna Bot"]


def test_one_person_has_one_id_by_address_or_full_name(run, repository):
    repository.commit("Add the first module", "a.py", author="Ana Souza <ana@example.org>")
    repository.commit("Add the second module", "b.py", author="Ana Souza <ana@home.example>")
    repository.commit("Add the third module", "c.py", author="asouza <ana@home.example>")
    repository.commit("Add the fourth module", "d.py", author="dev <one@example.org>")
    repository.commit("Add the fifth module", "e.py", author="dev <two@example.org>")
    service = Recorder()
    run(service)
    people = {(one.name, one.aliases) for one in service.of(EntityDeclared) if one.type == "person"}
    assert people == {("Ana Souza", ("asouza",)), ("dev", ())}
    assert sum(one.type == "person" for one in service.of(EntityDeclared)) == 3


def test_co_authors_touch_the_files_too(run, repository):
    repository.commit("Pair on the ledger\n\nCo-authored-by: Ben Ito <ben@example.org>\n", "a.py")
    service = Recorder()
    run(service)
    assert sum(one.relation == "touches" for one in service.of(RelationDeclared)) == 2
    assert "ben@example.org" not in str(service.new)


def test_a_secret_keeps_its_commit_back_and_is_named_by_place_and_kind_only(run, repository):
    sha = repository.commit(f"Configure the deploy user\n\nkey id {AWS}\n", "deploy.py")
    repository.commit("Document the password: field label", "form.py")
    service = Recorder()
    outcome = run(service)
    assert [(one.where, one.kinds) for one in outcome.withheld] == [(sha, ("AWS access key",))]
    assert (outcome.withheld_commits, outcome.published) == (1, 1)
    assert AWS not in str(service.new) + str(outcome)


def test_documents_come_along_and_parts_with_secrets_do_not(run, repository):
    repository.write(
        "docs/adr/0001-log.md", "# Use a log\n\n## Status\n\nAccepted.\n\n## Decision\n\nWe keep a journal.\n"
    )
    repository.write(
        "README.md", f"# Shop\n\nA shop.\n\n## Run\n\nTo start it:\n\n```sh\nmake up\n```\n\n## Keys\n\nUse {AWS}.\n"
    )
    repository.write("notes/.hidden.md", "# Hidden\n\nx\n")
    repository.commit("Write the documents down")
    (repository.folder / "untracked.md").write_text("# Not committed\n")
    service = Recorder()
    outcome = run(service)
    assert outcome.documents.published == ["README.md", "docs/adr/0001-log.md"]
    assert [one.where for one in outcome.documents.withheld] == ["README.md: Shop › Keys"]
    kinds = {
        (unit.origin.source_ref, unit.type.value)
        for unit in service.of(UnitAsserted)
        if unit.origin.source_type == "document"
    }
    assert kinds == {("README.md", "context"), ("README.md", "command"), ("docs/adr/0001-log.md", "decision")}
    (command,) = [unit for unit in service.of(UnitAsserted) if unit.type == "command"]
    assert command.text == "To start it:\n\nmake up"
    assert AWS not in str(service.new)


def test_other_peoples_work_in_the_tree_is_left_out(run, repository):
    repository.write("web/node_modules/left/README.md", "# Left\n\nPads.\n")
    repository.write("docs/vendor.md", "# Vendors\n\nWho sells to us.\n")
    repository.commit("Add what the page needs")
    service = Recorder()
    assert run(service).documents.published == ["docs/vendor.md"]
    assert [one.name for one in service.of(EntityDeclared) if one.type == "module"] == ["docs/vendor.md"]


def test_a_changed_document_replaces_its_commands_and_a_vanished_one_takes_them_along(run, repository):
    repository.write("README.md", "# Shop\n\n```sh\nmake up\n```\n\n```sh\nmake test\n```\n")
    repository.commit("Write the readme file")
    service = Recorder()
    assert run(service).commands == 2
    repository.write("README.md", "# Shop\n\n```sh\nmake up\n```\n\n```sh\nmake check\n```\n")
    repository.commit("Change the readme file")
    outcome = run(service)
    assert (outcome.commands, len(service.of(UnitRetracted))) == (1, 1)
    repository.git("rm", "--quiet", "README.md")
    repository.commit("Remove the readme file")
    outcome = run(service)
    assert outcome.documents.retracted == ["README.md"]
    assert len(service.of(UnitRetracted)) == 2
