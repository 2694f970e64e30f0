"""`steelyard group moves`: the rebalance history for people and programs, all at once or as it grows."""

import json
import re
import subprocess

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.cli.processes import create_topic
from tests.cli.test_group import member
from tests.waiting import until


def at_rest(cluster: Cluster, group: str, moved: int) -> bool:
    """Say whether a group has come to rest after so many moves."""
    with Admin(cluster.namesrv) as admin:
        history = admin.groups.rebalance_history(group)
    moves = sum(move.moved for record in history for move in record.moves)
    return moves >= moved and bool(history) and any(record.rebalance for record in history[-2:])


def is_written_that_it_left(cluster: Cluster, group: str, name: str) -> bool:
    """Say whether the history of each broker has the end of a member."""
    with Admin(cluster.namesrv) as admin:
        history = admin.groups.rebalance_history(group)
    left = {
        record.broker for record in history for each in record.changed if each.what == "left" and name in each.member
    }
    return left == {"broker-0", "broker-1"}


def test_what_moved_is_shown_with_from_to_gap_and_why(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(cluster.namesrv, "moving")
    with member(cluster, "movers", "c1", "moving"):
        until(lambda: at_rest(cluster, "movers", 0))
        with member(cluster, "movers", "c2", "moving"):
            until(lambda: at_rest(cluster, "movers", 4))
    # Brokers write down a little later what happens: only then is nothing newer than now.
    until(lambda: is_written_that_it_left(cluster, "movers", "c1"))
    assert main(["group", "moves", "movers", "--namesrv", cluster.namesrv]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["at", "what", "queue", "from", "to", "gap", "why"]
    moved = [line.split() for line in lines if " moved " in line and " moving@" in line]
    assert ("c1", "c2", "c2") in {(row[3], row[4], row[7]) for row in moved}
    assert lines[-1].startswith("the last rebalance took ")
    assert main(["group", "moves", "movers", "--output", "jsonl", "--namesrv", cluster.namesrv]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["what"] for row in rows} >= {"joined", "taken", "moved", "at rest"}
    first = next(row for row in rows if row["what"] == "moved" and row["topic"] == "moving")
    assert (first["kind"], "c1" in first["from"], "c2" in first["to"]) == ("given up", True, True)
    assert main(["group", "moves", "movers", "--output", "csv", "--limit", "1", "--namesrv", cluster.namesrv]) == 0
    assert capsys.readouterr().out.startswith("at,what,queue,from,to,gap_ms,why\n")
    assert main(["group", "moves", "movers", "--since", "0s", "--namesrv", cluster.namesrv]) == 0
    assert "nothing moved" in capsys.readouterr().err


@pytest.mark.process
def test_following_prints_what_is_new_until_it_is_stopped(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "followed")
    command = [*forkserver.python(), "-m", "steelyard", "group", "moves", "followers", "--follow"]
    with subprocess.Popen([*command, "--namesrv", cluster.namesrv], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        with member(cluster, "followers", "c1", "followed"):
            assert " joined c1" in following.stdout.readline()
            # The queues of both brokers, and of the retry topic, come as each broker writes them down.
            taken = re.compile(r" taken followed@broker-\d:0 nobody -> c1: c1 joined")
            assert any(taken.search(line) for line in following.stdout)
        following.terminate()
        assert following.wait(30) == 0


def test_what_cannot_be_is_reported(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "moves", "nobody-knows", "--namesrv", cluster.namesrv]) == ExitCode.NOT_FOUND
    assert "'nobody-knows' does not exist" in capsys.readouterr().err
    assert main(["group", "moves", "g", "--follow", "--output", "csv", "--namesrv", cluster.namesrv]) == ExitCode.USAGE
    assert "--follow has no end" in capsys.readouterr().err
