"""Messages that were lost while a broker was down are reported by its next start, and by the tools."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serve.raw_connection import RawConnection, pull_all, send

_MESSAGES, _OVERWRITTEN_BYTES = 300, 2_000


@contextmanager
def broker(directory: Path, errors: Path) -> Iterator[tuple[str, str]]:
    """Run a broker until it is killed; yield its address and that of its name server."""
    command = [
        sys.executable,
        "-m",
        "steelyard",
        "up",
        "--json",
        "--port",
        "0",
        "--no-dashboard",
        "--data",
        str(directory),
    ]
    with (
        errors.open("w") as output,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            reported = json.loads(process.stdout.readline())
            yield reported["brokers"]["broker-0"], reported["namesrv"]
        finally:
            process.kill()


@pytest.mark.process
def test_a_start_reports_how_many_messages_are_lost_and_where(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with broker(tmp_path / "data", errors) as (address, _), RawConnection(address) as connection:
        for number in range(_MESSAGES):
            send(connection, "orders", b"%d" % number)
    assert errors.read_text() == ""
    with (tmp_path / "data/broker-0/commitlog/00000000000000000000").open("r+b") as log:
        log.seek(10_000)
        log.write(b"\xff" * _OVERWRITTEN_BYTES)
    with broker(tmp_path / "data", errors) as (address, names):
        with RawConnection(address) as connection:
            lost = _MESSAGES - len({record.offset for record in pull_all(connection, "orders")})
        assert lost > 0
        listed = subprocess.run(
            [sys.executable, "-m", "steelyard", "broker", "ls", "--namesrv", names],
            capture_output=True,
            text=True,
            check=True,
        )
    (warning,) = errors.read_text().splitlines()
    for reported in (warning, listed.stderr):
        assert f"{lost} messages are lost" in reported
        assert "commitlog/00000000000000000000, position " in reported
