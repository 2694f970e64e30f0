"""`steelyard plan --group`: what a change would move in a live group, and nothing moves because of the question."""

import json
from collections.abc import Iterator

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.serve.embedded import Cluster
from tests.cli.processes import create_topic
from tests.cli.test_group import have_all, member
from tests.waiting import until


@pytest.fixture(scope="module")
def group(cluster: Cluster) -> Iterator[str]:
    """Return a group of c1 and c2, which share eight queues."""
    create_topic(cluster.namesrv, "planned")
    first, second = member(cluster, "planning", "c1", "planned"), member(cluster, "planning", "c2", "planned")
    with first, second:
        until(lambda: have_all(cluster, "planning", 2))
        yield "planning"
        assert have_all(cluster, "planning", 2)


def test_a_join_is_tried_out(cluster: Cluster, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--group", group, "--join", "new-1", "--namesrv", cluster.namesrv]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()}
    (before, _), (after, _) = rows["now"], rows["then"]
    assert set(before) == {"1", "2"}
    assert set(after) == {"1", "2", "3"}
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    assert f"{moved} of {len(before)} queues move, and {moved} is the least possible" in out
    assert out.count(" to new-1: ") == moved


def test_a_leave_by_its_short_name_is_tried_out(
    cluster: Cluster, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--group", group, "--leave", "c2", "--join", "new-1", "--json", "--namesrv", cluster.namesrv]
    assert main(words) == 0
    reported = json.loads(capsys.readouterr().out)
    stays, new = reported["assignment"]
    assert ("@c1#" in stays, new) == (True, "new-1")
    assert reported["assignment"][stays] == reported["before"][stays]
    (gone,) = set(reported["before"]) - {stays}
    assert reported["assignment"]["new-1"] == reported["before"][gone]
    assert reported["moved"] == reported["least"] == len(reported["before"][gone])


def test_another_strategy_is_tried_out(cluster: Cluster, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--group", group, "--join", "0-new", "--json", "--namesrv", cluster.namesrv]
    moved = {}
    for strategy in ("average", "sticky"):
        assert main([*words, "--strategy", strategy]) == 0
        moved[strategy] = json.loads(capsys.readouterr().out)["moved"]
    assert moved["average"] > moved["sticky"]


def test_who_is_not_there_cannot_leave(cluster: Cluster, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--group", group, "--leave", "old-7", "--namesrv", cluster.namesrv]) == ExitCode.NOT_FOUND
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence == "steelyard: no member is called 'old-7'; there are: c1, c2"
