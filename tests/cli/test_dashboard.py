"""`steelyard dashboard` as people run it: it prints its address, serves, and stops on a signal."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.dashboard.http_client import http_request
from tests.waiting import LONGEST_S

_TOKEN = "0123456789abcdef"


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_serves_and_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    with Cluster() as cluster:
        words = ["dashboard", "--namesrv", cluster.namesrv, "--port", "0", "--json", "--token", _TOKEN]
        with subprocess.Popen(
            [*forkserver.python(), "-m", "steelyard", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        ) as process:
            try:
                assert process.stdout is not None
                output = json.loads(process.stdout.readline())
                assert output["namesrv"] == cluster.namesrv
                seen = _SomebodyElses(output["dashboard"])
                about = http_request(seen, "/api/about", headers={"Authorization": f"Bearer {_TOKEN}"})
                assert about.json["namesrv"] == cluster.namesrv
                process.send_signal(how)
                rest, complaints = process.communicate(timeout=LONGEST_S)
                assert (process.returncode, rest, complaints) == (0, "", "")
            finally:
                process.kill()


class _SomebodyElses(Dashboard):
    """A page that another process serves, to ask it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.options = DashboardOptions(token=_TOKEN)

    @property
    def address(self) -> str:
        """Where it is."""
        return self._url.partition("?")[0]


def test_a_cluster_that_is_not_there_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        assert main(["dashboard", "--namesrv", address, "--port", "0", "--timeout", "0.3"]) == 5
    assert address in capsys.readouterr().err


def test_a_token_that_can_be_guessed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", "--token", "secret"]) == 2
    assert "can be guessed" in capsys.readouterr().err
