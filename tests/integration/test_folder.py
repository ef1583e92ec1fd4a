"""The data folder and the ports: what is refused before anything starts, and that refusing changes nothing."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.local.folder import DataFolder, FileLock
from compose.local.ports import distinct_ports, free_port
from shared.errors import DataFolderError, FolderInUse, FolderNewer, FolderReadOnly, PortInUse

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from compose.local.folder import DataFolder
folder = DataFolder.claim(Path(sys.argv[1]))
print("claimed", flush=True)
time.sleep(600)
"""
# A limit on the size of files stands in for a disk that takes nothing more.
FULL = """
import resource, sys
from pathlib import Path
from compose.local.folder import DataFolder
from shared.errors import DiskFull
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    DataFolder.claim(Path(sys.argv[1]))
except DiskFull as error:
    print(error)
"""


@pytest.fixture
def sealed() -> Iterator[Path]:
    """A folder that this process may read but not write while the test lasts (as root it becomes another user)."""
    folder = Path(tempfile.mkdtemp(prefix="cortex-sealed-"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def holder(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    return process


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_is_made_private_and_says_who_wrote_it(tmp_path: Path) -> None:
    folder = DataFolder.claim(tmp_path / "new" / "data")
    version = json.loads((folder.path / "VERSION").read_text())
    assert version["schema"] == 1
    assert version["written_by"]
    assert folder.path.stat().st_mode & 0o077 == 0
    assert not folder.left_behind
    folder.close()


def test_a_folder_that_was_closed_can_be_claimed_again(tmp_path: Path) -> None:
    DataFolder.claim(tmp_path).close()
    (tmp_path / "journal.db").write_bytes(b"kept")
    again = DataFolder.claim(tmp_path)
    assert not again.left_behind
    assert (tmp_path / "journal.db").read_bytes() == b"kept"
    again.close()


def test_a_second_cortex_on_the_folder_is_told_who_has_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        before = contents(tmp_path)
        with pytest.raises(FolderInUse, match=f"process {process.pid}"):
            DataFolder.claim(tmp_path)
        assert contents(tmp_path) == before
        process.kill()


def test_a_killed_cortex_leaves_a_folder_that_can_be_claimed_and_knows_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(15)
    folder = DataFolder.claim(tmp_path)
    assert folder.left_behind
    folder.close()


def test_a_lock_can_be_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(FolderInUse):
            FileLock.take(tmp_path / "lock", wait_s=0.1)
        process.kill()
        FileLock.take(tmp_path / "lock", wait_s=15).close()


def test_a_folder_of_a_later_release_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text('{"schema": 2, "written_by": "9.0.0"}')
    (tmp_path / "journal.db").write_bytes(b"from the future")
    with pytest.raises(FolderNewer, match="schema 2"):
        DataFolder.claim(tmp_path)
    assert contents(tmp_path) == {
        "VERSION": b'{"schema": 2, "written_by": "9.0.0"}',
        "journal.db": b"from the future",
        "lock": b"",
    }


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", '{"schema": "one"}', '{"schema": true}', "\udcff"])
def test_a_damaged_version_file_is_named(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "VERSION").write_bytes(damaged.encode(errors="surrogateescape"))
    with pytest.raises(DataFolderError, match="VERSION is damaged"):
        DataFolder.claim(tmp_path)


def test_a_folder_without_rights_to_write_is_refused(sealed: Path) -> None:
    with pytest.raises(FolderReadOnly, match="CORTEX_DATA_DIR"):
        DataFolder.claim(sealed)
    with pytest.raises(FolderReadOnly):
        DataFolder.claim(sealed / "inside")
    assert contents(sealed) == {}


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataFolderError, match="cannot be used"):
        DataFolder.claim(tmp_path / "data")


@pytest.mark.parametrize("room", [0, 100_000], ids=["nothing fits", "only a little fits"])
def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path, room: int) -> None:
    DataFolder.claim(tmp_path).close()
    before = contents(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(room)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert f"The disk of {tmp_path} is full" in done.stdout, done.stderr
    assert contents(tmp_path) == before
    DataFolder.claim(tmp_path).close()


def test_a_new_folder_on_a_full_disk_leaves_no_half_written_version(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), "12"], cwd=ROOT, capture_output=True, timeout=30, check=True
    )
    assert not (tmp_path / "VERSION").exists()
    assert not (tmp_path / "VERSION.draft").exists()


def test_a_taken_port_is_named_with_the_setting_that_changes_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"Port {port} on 127\.0\.0\.1 .*CORTEX_KAFKA_PORT"):
            free_port("127.0.0.1", port, "kafka_port")
    assert free_port("127.0.0.1", port, "kafka_port", wait_s=15) == port


def test_port_0_means_any_free_one() -> None:
    port = free_port("127.0.0.1", 0, "http_port")
    assert port > 0
    assert free_port("127.0.0.1", port, "http_port") == port


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    with pytest.raises(PortInUse, match=r"192\.0\.2\.1"):  # TEST-NET-1: nobody has it
        free_port("192.0.2.1", 0, "http_port")


def test_two_settings_on_one_port_are_both_named() -> None:
    port = free_port("127.0.0.1", 0, "http_port")
    with pytest.raises(PortInUse, match=f"CORTEX_HTTP_PORT and CORTEX_KAFKA_PORT are both {port}"):
        distinct_ports({"http_port": ("127.0.0.1", port), "kafka_port": ("127.0.0.1", port)})


def test_ports_that_are_left_open_are_never_the_same() -> None:
    settings = {f"port_{number}": ("127.0.0.1", 0) for number in range(20)}
    assert len(set(distinct_ports(settings).values())) == 20
