"""What only the real disk has: other processes, other programs' locks, devices that are full, and reading only."""

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.errors import DiskFailed, DiskFull, StoreLocked
from steelyard.serve import disks
from steelyard.serve.disks import RealDisk


def run(code: str, *arguments: str) -> int:
    """Run Python in a process of its own, and return how it ended."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", code, *arguments], dict(os.environ))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


_TRY_TO_LOCK = """
import sys
from pathlib import Path
from steelyard.errors import StoreLocked
from steelyard.serve import disks
from steelyard.serve.disks import RealDisk
try:
    RealDisk(sys.argv[1]).lock("lock")
except StoreLocked as error:
    Path(sys.argv[2]).write_text(str(error))
    sys.exit(7)
"""

_LOCK_AS_JAVA_DOES = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
    except OSError:
        sys.exit(7)
"""


@pytest.mark.process
def test_another_process_learns_which_process_uses_the_directory(tmp_path: Path) -> None:
    root, output = tmp_path / "store", tmp_path / "said"
    lock = RealDisk(root).lock("lock")
    assert run(_TRY_TO_LOCK, str(root), str(output)) == 7
    assert output.read_text() == (
        f"the directory {root} is in use by process {os.getpid()}; stop that process, or use another directory"
    )
    lock.release()
    assert run(_TRY_TO_LOCK, str(root), str(output)) == 0


@pytest.mark.process
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    assert run(_TRY_TO_LOCK, str(tmp_path), "") == 0
    RealDisk(tmp_path).lock("lock").release()


@pytest.mark.process
def test_a_java_broker_sees_the_lock_even_after_a_second_attempt_of_ours(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    lock = disk.lock("lock")
    assert run(_LOCK_AS_JAVA_DOES, str(tmp_path / "lock")) == 7
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        RealDisk(tmp_path).lock("lock")
    assert run(_LOCK_AS_JAVA_DOES, str(tmp_path / "lock")) == 7
    lock.release()
    assert run(_LOCK_AS_JAVA_DOES, str(tmp_path / "lock")) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_and_other_failures_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).open("full", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _failing(errno.ENOSPC))
        patch.setattr(disks, "_sync_file", _failing(errno.EIO))
        with pytest.raises(DiskFull) as full:
            file.write(0, b"x")
        assert (full.value.operation, full.value.path, full.value.why) == ("write", "full", "no space left on device")
        with pytest.raises(DiskFailed) as failed:
            file.sync()
    assert not isinstance(failed.value, DiskFull)
    assert (failed.value.operation, failed.value.path) == ("fsync", "full")
    file.close()


def _failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("is_read_only", [True, False])
def test_what_is_no_file_is_refused_and_nobody_waits_for_it(tmp_path: Path, *, is_read_only: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    disk = RealDisk(tmp_path, read_only=is_read_only)
    for name in ("pipe", "endless"):
        for look in (disk.open, disk.read):
            with pytest.raises(DiskFailed, match="is not a regular file"):
                look(name)


def test_of_a_file_that_is_said_to_be_enormous_only_what_was_written_is_read(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("sparse", create=True)
    file.write(0, b"spring")
    file.truncate(1 << 40)
    found = RealDisk(tmp_path).read("sparse") or b""
    assert found.rstrip(b"\0") == b"spring"
    assert len(found) < 1 << 20
    file.close()


def test_a_short_write_is_a_count(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("log", create=True)
    with _no_file_larger_than(1000):
        assert file.write(900, b"x" * 200) == 100
        with pytest.raises(DiskFailed):
            file.write(1000, b"x")
    assert file.size == 1000


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        disk = RealDisk(tmp_path / "data" / "below" / "store")
        disk.mkdir("config/deep/down")
        for path in ("abort", "config/deep/down/topics.json"):
            disk.open(path, create=True).close()
        lock = disk.lock("lock")
        lock.release()
    finally:
        os.umask(before)
    for place in (tmp_path / "data").rglob("*"):
        assert place.stat().st_mode & 0o777 == (0o700 if place.is_dir() else 0o600), place


def test_a_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    RealDisk(tmp_path / "a" / "b").mkdir("c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(DiskFailed):
        RealDisk(tmp_path / "file" / "store")


def test_a_path_that_no_file_system_takes_is_an_error_of_ours(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    for path in ("x" * 300, "a lone half \ud800 of a letter"):
        with pytest.raises(DiskFailed):
            disk.open(path, create=True)
        with pytest.raises(DiskFailed):
            disk.mkdir(path)
    with pytest.raises(DiskFailed):
        disk.open("log", create=True).write(1 << 80, b"x")


def test_a_disk_that_is_opened_read_only_reads(tmp_path: Path) -> None:
    writer = RealDisk(tmp_path)
    writer.lock("lock")
    file = writer.open("log", create=True)
    file.write(0, b"spring")
    reader = RealDisk(tmp_path, read_only=True)
    seen = reader.open("log")
    view = seen.view()
    file.write(0, b"S")
    assert (bytes(view), reader.read("log"), seen.size) == (b"Spring", b"Spring", 6)
    assert reader.names("") == ["lock", "log"]
    assert reader.free_bytes() > 0


def test_a_disk_that_is_opened_read_only_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"spring")
    disk = RealDisk(tmp_path, read_only=True)
    file = disk.open("log", create=True)
    attempts: list[Callable[[], object]] = [
        lambda: disk.open("new", create=True),
        lambda: disk.mkdir("folder"),
        lambda: disk.rename("log", "gol"),
        lambda: disk.remove("log"),
        lambda: disk.sync_folder(""),
        lambda: disk.lock("lock"),
        lambda: file.write(0, b"x"),
        lambda: file.truncate(0),
    ]
    for attempt in attempts:
        with pytest.raises(DiskFailed):
            attempt()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("log", b"spring")]
    assert RealDisk(tmp_path / "nowhere", read_only=True).names("") == []
    assert not (tmp_path / "nowhere").exists()


def test_views_and_files_are_given_back_to_the_system(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    file.view()
    before = _open_handles(tmp_path)
    for _ in range(20):
        file.write(file.size, b"!")
        file.view()
        disk.open("log").close()
        disk.sync_folder("")
        disk.lock("lock").release()
    assert _open_handles(tmp_path) == before
    file.close()
    assert _open_handles(tmp_path) < before


def _open_handles(root: Path) -> int:
    """Count the handles of a directory and its files: other tests' servers, which may still end, have others."""
    ours = {(each.st_dev, each.st_ino) for each in (path.stat() for path in (root, *root.iterdir()))}
    return sum(_identity(handle) in ours for handle in range(256))


def _identity(handle: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(handle)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
