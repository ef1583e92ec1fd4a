"""Odd repositories and odd runs: any bytes, dates and paths; empty, shallow and bare ones; limits, cuts and watching."""

from collections import Counter

import pytest

from compose.cli.feed_git import watch
from compose.feeds.git_command import open_repository
from schemas.events import (
    EntityDeclared,
    RelationDeclared,
)
from shared.errors import InvalidInput, StoreUnavailable
from tests.git_history import ANA, BEN, Repository, synthesize
from tests.unit.git_feeding import Recorder, feeding


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "shop")


@pytest.fixture
def run(tmp_path, repository):
    return feeding(tmp_path, repository)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Größe ändern für Ñandú\n".encode("cp1252"), "Größe ändern für Ñandú"),
        (b"Control \x01\x02 characters and \xf0\x9f\x90\x9b\n", "Control  characters and 🐛"),
        ("修正した\n".encode(), "修正した"),
        (b"Windows\r\n\r\nlines end so\r\n", "Windows\n\nlines end so"),
        (b":100644 100644 looks like a file entry\n", ":100644 100644 looks like a file entry"),
    ],
)  # fmt: skip
def test_any_bytes_in_a_message_are_read(run, repository, message, text):
    repository.commit(message)
    repository.commit("And the next commit is whole", "a.py")
    service = Recorder()
    run(service)
    assert [one.partition("\n\nFiles")[0] for one in service.texts()] == [text, "And the next commit is whole"]


def test_a_declared_encoding_is_obeyed(run, repository):
    repository.git("config", "i18n.commitEncoding", "ISO-2022-JP")
    repository.commit("決定: ジャーナルを使う\n".encode("iso2022_jp"), "a.py")
    service = Recorder()
    run(service)
    assert service.texts()[0].startswith("決定: ジャーナルを使う")


def test_odd_paths_are_told_apart_and_published(run, repository):
    repository.commit(
        "Add files with odd names", "with space.py", "ünï/ö.py", "new\nline.py", "a#b.py", "x" * 200 + ".py"
    )
    service = Recorder()
    outcome = run(service)
    assert outcome.refused == []
    assert len({one.id for one in service.of(EntityDeclared) if one.type == "module"}) == 5


@pytest.mark.parametrize("message", ["", "wip\n", "fixup! Add the base module\n", "\n\n"])
def test_commits_that_teach_nothing_are_skipped(run, repository, message):
    repository.commit("Add the base module", "a.py")
    repository.commit(message, "b.py")
    outcome = run(Recorder())
    assert (outcome.published, outcome.skipped.total()) == (1, 1)


def test_a_very_long_message_is_cut_and_says_so(run, repository):
    repository.commit("Add a long story\n\n" + "word " * 20_000, "a.py")
    service = Recorder()
    run(service)
    unit = service.unit("Add a long story")
    assert len(unit.text) < 8_200
    assert unit.metadata["cut"] is True


def test_a_commit_of_very_many_files_touches_none_of_them_in_particular(run, repository):
    repository.commit("Import the old tree", *[f"old/{n}.py" for n in range(101)])
    service = Recorder()
    run(service)
    assert [one.relation for one in service.of(RelationDeclared)] == ["works_on"]


def test_an_impossible_date_is_left_out(run, repository):
    repository.git("fast-import", "--quiet", "--date-format=raw-permissive", given=(
        b"commit refs/heads/main\nauthor A <a@x> 99999999999999 +9999\ncommitter A <a@x> 0 +0000\n"
        b"data 30\nA commit of an impossible date\n"
    ))  # fmt: skip
    repository.git("reset", "--quiet", "--hard")
    service = Recorder()
    assert run(service).published == 1
    assert service.unit("A commit of").occurred_at is None


def test_an_empty_repository_says_so_and_its_first_commit_is_taken_later(run, repository):
    assert run(Recorder()).notes == ["the repository has no commits yet"]
    repository.commit("Add the base module", "a.py")
    assert run(Recorder()).published == 1


def test_a_folder_in_no_repository_is_a_typed_error(tmp_path):
    with pytest.raises(InvalidInput, match="is not in a git repository"):
        open_repository(tmp_path)


@pytest.mark.parametrize(
    ("options", "field"), [({"since": "banana"}, "since"), ({"ref": "nowhere"}, "ref"), ({"ref": "--all"}, "ref")]
)
def test_wrong_options_are_typed_errors(run, repository, options, field):
    repository.commit("Add the base module", "a.py")
    with pytest.raises(InvalidInput) as caught:
        run(Recorder(), **options)
    assert [fault.field for fault in caught.value.faults] == [field]


def test_another_repository_of_the_same_name_is_refused(run, repository, tmp_path):
    repository.commit("Add the base module", "a.py")
    run(Recorder())
    other = Repository(tmp_path / "elsewhere" / "shop")
    other.commit("Add quite another module", "z.py")
    with pytest.raises(InvalidInput, match="belongs to another repository"):
        run(Recorder(), folder=other.folder)


def test_a_moved_clone_is_the_same_repository(run, repository, tmp_path):
    repository.commit("Add the base module", "a.py")
    service = Recorder()
    run(service)
    repository.git("clone", "--quiet", str(repository.folder), str(tmp_path / "moved"))
    assert run(service, folder=tmp_path / "moved").events == 0


def test_a_shallow_clone_says_so_counts_no_import_and_retracts_nothing(run, repository, tmp_path):
    for number in range(5):
        repository.commit(f"Add part number {number}", f"p{number}.py")
    service = Recorder()
    run(service)
    repository.git("clone", "--quiet", "--depth=2", f"file://{repository.folder}", str(tmp_path / "shallow"))
    outcome = run(service, folder=tmp_path / "shallow")
    assert outcome.retracted == 0
    assert "shallow" in outcome.notes[0]
    fresh = Recorder()
    run(fresh, folder=tmp_path / "shallow", state="fresh")
    touched = [one.target_id for one in fresh.of(RelationDeclared) if one.relation == "touches"]
    assert touched == ["shop/p4.py"]


def test_a_submodule_is_listed_but_is_no_module(run, repository, tmp_path):
    inner = Repository(tmp_path / "inner")
    inner.commit("Add the inner module", "i.py")
    repository.git("submodule", "--quiet", "add", str(inner.folder), "vendored")
    repository.commit("Add a library as a submodule")
    service = Recorder()
    run(service)
    assert "vendored" in service.unit("Add a library").text
    assert [one.name for one in service.of(EntityDeclared) if one.type == "module"] == [".gitmodules"]


def test_a_bare_repository_is_read_too(run, repository, tmp_path):
    repository.write("README.md", "# Shop\n\nA shop.\n")
    repository.commit("Write the readme file")
    repository.git("clone", "--quiet", "--bare", str(repository.folder), str(tmp_path / "shop.git"))
    outcome = run(Recorder(), folder=tmp_path / "shop.git")
    assert (outcome.published, outcome.documents.published) == (1, ["README.md"])


def test_programs_that_a_repository_names_are_not_run(run, repository, tmp_path):
    repository.commit("Add the base module", "a.py")
    trap = tmp_path / "trap"
    script = tmp_path / "trap.sh"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "diff.external", "core.sshCommand"):
        repository.git("config", name, str(script))
    repository.git("config", "log.showSignature", "true")
    assert run(Recorder()).published == 1
    assert not trap.exists()


def test_limit_takes_the_newest_and_a_later_run_without_it_the_rest(run, repository):
    for number in range(5):
        repository.commit(f"Add part number {number}", f"p{number}.py")
    service = Recorder()
    run(service, limit=2)
    assert [text[:17] for text in service.texts()] == ["Add part number 3", "Add part number 4"]
    outcome = run(service)
    assert (outcome.published, outcome.known, outcome.retracted) == (3, 2, 0)


def test_a_run_that_was_cut_off_goes_on_and_ends_in_the_same_state(run, repository):
    for number in range(12):
        repository.commit(f"Add part number {number}", f"p{number % 3}.py", author=(ANA, BEN)[number % 2])
    whole = Recorder()
    run(whole, state="whole")
    whole_events = set(whole.kept)

    class Failing(Recorder):
        calls = 0

        def publish(self, events):
            self.calls += 1
            if self.calls == 2:
                raise StoreUnavailable
            return super().publish(events)

    service = Failing()
    with pytest.raises(StoreUnavailable):
        run(service)
    outcome = run(service)
    assert (outcome.published, outcome.known) == (0, 12)
    assert set(service.kept) == whole_events


def test_a_large_history_is_streamed_and_its_progress_is_told(run, tmp_path):
    large = synthesize(tmp_path / "large", 1_000)
    service = Recorder()
    outcome = run(service, folder=large.folder)
    assert (outcome.published, outcome.skipped) == (980, Counter(merge=20))
    assert outcome.told == [(done, 1_000) for done in range(0, 1_001, 200)]
    assert {"error_fix", "decision", "pattern", "context"} == set(outcome.kinds)
    assert run(service, folder=large.folder).events == 0


class Stopped(Exception):
    """Ends an endless watch."""


def test_watch_runs_once_a_tip_and_goes_on_after_a_failure(capsys):
    tips = iter([None, "a", "a", "b", "b"])
    ran, pauses = [], []

    def tip():
        try:
            return next(tips)
        except StopIteration:
            raise Stopped from None

    def once():
        ran.append(len(pauses))
        if len(ran) == 3:
            raise StoreUnavailable

    with pytest.raises(Stopped):
        watch(tip, once, 5, pauses.append)
    assert ran == [0, 1, 3, 4]  # the empty repository, a, b which fails, and b again
    assert pauses == [5, 5, 5, 10, 5]
    assert "trying again" in capsys.readouterr().err
