"""What a child process tells the supervisor survives the way between them."""

import pytest

from compose.local.notices import EXIT_FAILED, EXIT_HOPELESS, Notice, read_notice, tell, tell_failure
from shared.errors import CortexError, DiskFull, FolderNewer, Forbidden, InvalidInput, LogUnavailable, NotReady


@pytest.mark.parametrize(
    "notice", [Notice(stage="broker listens"), Notice(error="DiskFull", message="Zürich\nis full")]
)
def test_a_notice_is_one_line_and_reads_back(notice: Notice, capsys: pytest.CaptureFixture[str]) -> None:
    tell(notice)
    written = capsys.readouterr().out
    assert written.count("\n") == 1
    assert read_notice(written.encode()) == notice


@pytest.mark.parametrize("line", [b"", b"Downloading...\n", b"[]\n", b"7\n", b"\xff\n", b'{"stage"\n'])
def test_what_a_library_prints_is_no_notice(line: bytes) -> None:
    assert read_notice(line) is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FolderNewer("schema 9"), EXIT_HOPELESS),
        (DiskFull("no room"), EXIT_HOPELESS),
        (Forbidden("no tokens"), EXIT_HOPELESS),
        (InvalidInput("bad tokens file"), EXIT_HOPELESS),
        (LogUnavailable("locked"), EXIT_FAILED),
        (NotReady("too often"), EXIT_FAILED),
    ],
)
def test_a_typed_error_arrives_as_its_type_and_its_code_says_whether_to_try_again(
    error: CortexError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell_failure(error) == code
    notice = read_notice(capsys.readouterr().out.encode())
    assert notice is not None
    arrived = notice.as_error()
    assert (type(arrived), str(arrived)) == (type(error), str(error))


@pytest.mark.parametrize("name", ["Fault", "ClassVar", "nothing", "__doc__", None])
def test_a_name_that_is_no_error_of_ours_becomes_not_ready(name: str | None) -> None:
    arrived = Notice(error=name, message="what it said").as_error()
    assert (type(arrived), str(arrived)) == (NotReady, "what it said")
