"""`steelyard group`: a live group is shown as it is, and watching shows each change once."""

import json
import os
import pty
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.model import StoredMessage
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.cli.processes import command_process, create_topic, run_process
from tests.waiting import until


def member(cluster: Cluster, group: str, name: str, topic: str) -> Consumer:
    """Return a member of a group that does nothing with its messages."""
    consumer = Consumer(cluster.namesrv, group, name=name)

    @consumer.handles(topic)
    def drop(message: StoredMessage) -> None:
        del message

    return consumer


def have_all(cluster: Cluster, group: str, members: int) -> bool:
    """Say whether so many members share all queues of a group evenly."""
    with Admin(cluster.namesrv) as admin:
        view = admin.groups.describe(group)
    owners = Counter(each.owner for each in view.queues if not each.queue.topic.startswith("%"))
    return all(each.owner for each in view.queues) and sorted(owners.values()) == [8 // members] * members


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[str]:
    """Return the name of a group of two members, c1 and c2, that share eight queues."""
    create_topic(cluster.namesrv, "paired")
    first, second = member(cluster, "pair", "c1", "paired"), member(cluster, "pair", "c2", "paired")
    with first, second:
        until(lambda: have_all(cluster, "pair", 2))
        yield "pair"


def test_groups_are_listed(cluster: Cluster, pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "ls", "--namesrv", cluster.namesrv]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["group", "members", "lag", "messages/s", "kind"]
    assert [pair, "2", "0", "0", "push"] in rows
    assert main(["group", "ls", "p*r", "--json", "--namesrv", cluster.namesrv]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"group": pair, "members": 2, "kind": "push", "broadcast": False, "lag": 0, "tps": 0.0} in listed


def test_the_owner_of_every_queue_is_reported_with_the_reason(
    cluster: Cluster, pair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["group", "explain", pair, "--namesrv", cluster.namesrv]) == 0
    out = capsys.readouterr().out
    assert "group pair has 2 members and" in out
    assert "strategy STICKY" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("paired@")]
    assert [row[0] for row in rows] == [
        f"paired@{broker}:{number}" for broker in cluster.brokers for number in range(4)
    ]
    assert sorted(row[1] for row in rows) == ["c1"] * 4 + ["c2"] * 4
    assert all(row[-4:] == ["as", "STICKY", "plans", "it"] for row in rows)
    assert all(re.fullmatch(r"[\d.]+ (ms|s|min|h)", " ".join(row[2:4])) for row in rows)


def test_programs_get_the_whole_group(cluster: Cluster, pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "explain", pair, "--json", "--namesrv", cluster.namesrv]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["group"], reported["strategy"], reported["lag"], len(reported["members"])) == (
        pair,
        "STICKY",
        0,
        2,
    )
    ids = {each["id"] for each in reported["members"]}
    assert {owner for each in reported["queues"] for owner in each["owners"]} == ids
    assert reported["findings"] == []
    for each in reported["queues"]:
        assert 0 <= reported["at_ms"] - datetime.fromisoformat(each["owned_at"]).timestamp() * 1000 < 3_600_000


def test_a_group_that_is_not_there_is_exit_code_three(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["group", "explain", "nobody"], ["group", "watch", "nobody"], ["plan", "--group", "nobody"]):
        assert main([*words, "--namesrv", cluster.namesrv]) == ExitCode.NOT_FOUND
        (sentence,) = capsys.readouterr().err.splitlines()
        assert "group 'nobody' does not exist" in sentence


@pytest.mark.process
def test_a_pipe_gets_one_line_for_each_change(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "watched")
    first, second = (
        member(cluster, "watched-by-all", "c1", "watched"),
        member(cluster, "watched-by-all", "c2", "watched"),
    )

    def reported(what: str) -> int:
        """Count what is told of the topic's queues; one may be without an owner for a moment, and that is told too."""
        return sum(" watched@" in line and what in line for line in watching.out)

    with first:
        until(lambda: have_all(cluster, "watched-by-all", 1))
        with command_process(cluster.namesrv, "group", "watch", "watched-by-all", "--every", "0.1") as watching:
            watching.wait_for(lambda: any("group watched-by-all has 1 member" in line for line in watching.out))
            with second:
                watching.wait_for(lambda: reported("to c2:") == 4)
            watching.wait_for(lambda: reported("to c1:") == 4)
            assert watching.stop() == ExitCode.DONE
    for change in (" c2 joined", " c2 left"):
        assert any(line.endswith(change) for line in watching.out)
    assert watching.err == []


@pytest.mark.process
def test_a_terminal_gets_a_grid(cluster: Cluster, pair: str) -> None:
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                seen.extend(os.read(ours, 65_536))
            except OSError:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    words = ["group", "watch", pair, "--count", "1", "--namesrv", cluster.namesrv]
    try:
        done = subprocess.run(
            [*forkserver.python(), "-m", "steelyard", *words],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"},
            check=False,
        )
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")
    text = seen.decode()
    assert "group pair has 2 members" in text
    assert "1111" in text
    assert "2222" in text


@pytest.mark.process
def test_names_of_others_are_no_commands_to_the_terminal(cluster: Cluster) -> None:
    done = run_process(cluster.namesrv, "group", "explain", "\x1b[2J")
    assert done.returncode != 0
    assert b"\x1b" not in done.stderr
