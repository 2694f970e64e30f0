"""`steelyard page` as people run it: it says where it is, serves, and stops when told to."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests import forkserver
from tests.dashboard.asking import ask

from steelyard.cli.main import main
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.net.listener import Listener
from steelyard.serve.embedded import Cluster

_SECONDS = 30
_TOKEN = "0123456789abcdef"


@pytest.mark.process
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_serves_and_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    with Cluster() as cluster:
        words = ["page", "--namesrv", cluster.namesrv, "--port", "0", "--json", "--token", _TOKEN]
        with subprocess.Popen(
            [*forkserver.python(), "-m", "steelyard", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        ) as process:
            try:
                assert process.stdout is not None
                said = json.loads(process.stdout.readline())
                assert said["namesrv"] == cluster.namesrv
                seen = _SomebodyElses(said["page"])
                about = ask(seen, "/api/about", headers={"Authorization": f"Bearer {_TOKEN}"})
                assert about.json["namesrv"] == cluster.namesrv
                process.send_signal(how)
                rest, complaints = process.communicate(timeout=_SECONDS)
                assert (process.returncode, rest, complaints) == (0, "", "")
            finally:
                process.kill()


class _SomebodyElses(Page):
    """A page that another process serves, to ask it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.options = PageOptions(token=_TOKEN)

    @property
    def address(self) -> str:
        """Where it is."""
        return self._url.partition("?")[0]


def test_a_cluster_that_is_not_there_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    free = Listener.bind("127.0.0.1", 0)
    free.close()
    assert main(["page", "--namesrv", free.address, "--port", "0", "--timeout", "0.3"]) == 5
    assert free.address in capsys.readouterr().err


def test_a_token_that_can_be_guessed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", "--token", "secret"]) == 2
    assert "can be guessed" in capsys.readouterr().err
