"""A broker on a file system that is full, for real: it refuses and says so, it starts again, and it loses nothing.

Mounting takes root, so this is for `make chaos`, which says ``STEELYARD_MOUNTS=1``.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from steelyard.errors import DiskFull
from steelyard.serve.disks import RealDisk
from steelyard.store.disk import write_all
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from tests.serve.raw_connection import RawConnection, pull_all, send_command
from tests.waiting import until

_TOPIC = "orders"
_BODY_BYTES = 20_000
_BALLAST_BYTES = 1 << 20

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.environ.get("STEELYARD_MOUNTS") != "1", reason="mounts file systems: `make chaos` does"),
]


def run(*command: str) -> None:
    """Run a command of the system's."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few MiB, one of which is taken by a file that can be removed."""
    place = tmp_path / "small"
    place.mkdir()
    if getattr(request, "param", "tmpfs") == "tmpfs":
        run("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place))
    else:
        image = tmp_path / "image"
        image.write_bytes(bytes(8 << 20))
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        run("mount", "-o", "loop", str(image), str(place))
    try:
        (place / "ballast").write_bytes(b"x" * _BALLAST_BYTES)
        yield place
    finally:
        run("umount", str(place))


@contextmanager
def broker(directory: Path, errors: Path) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """Run a broker; yield its process, its address and that of its name server. What it says is added to a file."""
    command = [sys.executable, "-m", "steelyard", "up", "--json", "--port", "0", "--no-dashboard", "--flush", "sync"]
    with (
        errors.open("a") as output,
        subprocess.Popen([*command, "--data", str(directory)], stdout=subprocess.PIPE, stderr=output, text=True) as ran,
    ):
        try:
            assert ran.stdout is not None
            line = ran.stdout.readline()
            assert line, f"it did not start ({ran.wait()}): {errors.read_text()}"
            reported = json.loads(line)
            yield ran, reported["brokers"]["broker-0"], reported["namesrv"]
        finally:
            ran.kill()


def sent(connection: RawConnection, body: bytes) -> Command:
    """Send a message, and return the answer whatever it says."""
    command = send_command(_TOPIC, body)
    connection.send(command)
    return connection.response_to(command)


def send_until_refused(address: str, acked: set[bytes], name: str) -> str:
    """Send until it is refused several times, and return what it was refused with."""
    refusals: list[str] = []
    with RawConnection(address) as connection:
        for number in range(10_000):
            body = f"{name}/{number}/".encode().ljust(_BODY_BYTES, b".")
            answer = sent(connection, body)
            if answer.code == 0:
                acked.add(body)
            else:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer
                refusals.append(answer.remark or "")
                if len(refusals) == 5:
                    return refusals[-1]
    raise AssertionError("the disk never got full")


def found_in(address: str) -> set[bytes]:
    """Return the bodies that are there."""
    with RawConnection(address) as connection:
        return {record.body for queue_id in range(4) for record in pull_all(connection, _TOPIC, queue_id=queue_id)}


def notes_in(errors: Path, words: str) -> int:
    """Count the lines of a log that say something."""
    return sum(words in line for line in errors.read_text().splitlines())


def ask_tool(*words: str) -> str:
    """Run the command line, and return all that it says."""
    done = subprocess.run([sys.executable, "-m", "steelyard", *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("small", ["tmpfs", "ext4"], indirect=True)
def test_a_full_disk_costs_refusals_and_nothing_else(small: Path, tmp_path: Path) -> None:
    directory, acked = small / "data", set[bytes]()
    first, second, third = (tmp_path / f"{name}.err" for name in ("first", "second", "third"))
    with broker(directory, first) as (process, address, names):
        why = send_until_refused(address, acked, "first")
        assert "no space left" in why
        assert found_in(address) == acked
        until(lambda: notes_in(first, "storing messages fails") > 0, "the broker logs that the disk is full")
        assert notes_in(first, "storing messages fails") == 1
        assert "it rejects messages" in ask_tool("broker", "ls", "--namesrv", names)
        assert "it rejects messages" in ask_tool("doctor", "--namesrv", names)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGTERM):
        with broker(directory, second) as (process, address, _):
            assert found_in(address) == acked
            send_until_refused(address, acked, f"again/{ending}")
            assert found_in(address) == acked
            process.send_signal(ending)
            assert process.wait(30) == (0 if ending is signal.SIGTERM else -signal.SIGKILL), second.read_text()
    with broker(directory, third) as (process, address, names):
        send_until_refused(address, acked, "third")
        (small / "ballast").unlink()
        body = b"there is room again"
        with RawConnection(address) as connection:
            assert sent(connection, body).code == 0
        assert found_in(address) == acked | {body}
        assert "it rejects messages" not in ask_tool("broker", "ls", "--namesrv", names)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (notes_in(third, "storing messages fails"), notes_in(third, "storing messages works again")) == (1, 1)
    assert "\nsound\n" in ask_tool("store", "verify", str(directory / "broker-0"))
    print(f"{len(acked)} messages were answered for, none lost")


def test_a_file_whose_holes_have_no_room_is_not_viewed_and_can_be_read(small: Path) -> None:
    disk = RealDisk(small)
    file = disk.open("log", create=True)
    file.write(0, b"spring")
    file.write(1 << 20, b"summer")
    rest = disk.open("all the rest", create=True)
    with suppress(DiskFull):
        write_all(rest, 0, bytes(8 << 20), "all the rest")
    rest.close()
    with pytest.raises(DiskFull, match="never written"):
        file.view()
    assert file.read(0, 8) == b"spring\0\0"
    assert file.read(1 << 19, 3) == bytes(3)
    (small / "ballast").unlink()
    assert bytes(file.view()[1 << 19 :][:3]) == bytes(3)
    file.close()
