"""`steelyard offset`: what a move does is shown before it is done, and it is done whether members run or not."""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import forkserver
from tests.cli.desk import Desk, desk_at
from tests.cli.live import create_topic, run
from tests.cli.test_group import member
from tests.client.admin_scene import commit, put
from tests.nameserver.desk import crc
from tests.serve.line import Line
from tests.waiting import until

from steelyard.cli.frame.exits import Exit
from steelyard.client.blocking.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.registration import Registration
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.nameserver import RegisterBroker


def fill(cluster: Cluster, name: str, messages: int = 4, at: int = 1) -> str:
    """Make a topic with a queue of some messages on each broker, and a group that is somewhere in them."""
    create_topic(cluster.namesrv, name, 1)
    group = f"{name}-group"
    with Admin(cluster.namesrv) as admin:
        admin.create_group(group)
    for broker, address in cluster.brokers.items():
        for _ in range(messages):
            put(address, Queue(name, broker, 0), b"x")
        commit(address, group, Queue(name, broker, 0), at)
    return group


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    """Return how far a group is in each queue of a topic."""
    with Admin(cluster.namesrv) as admin:
        return [row.committed for row in admin.offsets(group, topic)]


def test_offsets_are_shown_in_every_format(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "shown")
    answers = {form: desk("offset", "show", group, "--output", form) for form in ("json", "jsonl", "csv")}
    for rows in (answers["json"].json, answers["jsonl"].lines, answers["csv"].csv):
        assert [(row["topic"], row["broker"], int(row["queue_id"])) for row in rows] == [
            ("shown", "broker-0", 0),
            ("shown", "broker-1", 0),
        ]
        assert [(int(row["committed"]), int(row["end"]), int(row["lag"])) for row in rows] == [(1, 4, 3)] * 2
    table = desk("offset", "show", group, "shown").table
    assert table[0] == ["topic", "broker", "queue", "committed", "end", "waiting", "handled", "up", "to"]
    assert table[1][:6] == ["shown", "broker-0", "0", "1", "4", "3"]


def test_a_dry_run_shows_every_queue_and_changes_nothing(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "dry")
    answer = desk("offset", "reset", group, "--to", "2 hours ago", "--dry-run")
    assert answer.table == [
        ["topic", "broker", "queue", "from", "to", "skips", "repeats"],
        ["dry", "broker-0", "0", "1", "0", "0", "1"],
        ["dry", "broker-1", "0", "1", "0", "0", "1"],
    ]
    assert answer.err == (
        "group dry-group would be moved in 2 queues of dry (nobody online): skips 0 messages, repeats 2 messages; "
        "nothing was changed\n"
    )
    assert committed(cluster, group, "dry") == [1, 1]
    assert desk("offset", "skip", group, "--dry-run", "--json").lines[0]["skipped"] == 3
    assert committed(cluster, group, "dry") == [1, 1]


@pytest.mark.parametrize(
    ("name", "to", "after"),
    [
        ("first", "first", [0, 0]),
        ("last", "last", [4, 4]),
        ("ago", "1h", [0, 0]),
        ("date", "2020-01-01T00:00:00Z", [0, 0]),
        ("now", "now", [4, 4]),
        ("offset", "2", [2, 2]),
        ("on", "+2", [3, 3]),
        ("back", "-5", [0, 0]),
    ],
)
def test_a_group_is_moved_to_where_it_was_told(
    cluster: Cluster, desk: Desk, name: str, to: str, after: list[int]
) -> None:
    group = fill(cluster, f"to-{name}")
    answer = desk("offset", "reset", group, "--to", to, "--yes")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"group {group} is moved in 2 queues of to-{name} (nobody online): skips")
    assert committed(cluster, group, f"to-{name}") == after


def test_without_a_topic_all_topics_of_the_group_are_moved_but_its_retries(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "one")
    fill(cluster, "two")
    for broker, address in cluster.brokers.items():
        commit(address, group, Queue("two", broker, 0), 2)
    answer = desk("offset", "reset", group, "--to", "last", "--yes", "--json")
    assert {(row["topic"], row["before"], row["to"]) for row in answer.json["moves"]} == {("one", 1, 4), ("two", 2, 4)}
    desk("offset", "reset", group, "--to", "first", "--topic", "two", "--yes")
    assert (committed(cluster, group, "one"), committed(cluster, group, "two")) == ([4, 4], [0, 0])


def test_one_queue_is_moved_alone(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "alone")
    words = ("offset", "reset", group, "--to", "3", "--topic", "alone", "--queue", "broker-1:0")
    assert "in 1 queue of alone" in desk(*words, "--yes").out
    assert committed(cluster, group, "alone") == [1, 3]


def test_without_a_terminal_nobody_is_asked_and_nothing_is_moved(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "asked")
    answer = desk("offset", "skip", group)
    assert (answer.code, answer.out) == (Exit.USAGE, "")
    assert answer.err.splitlines() == [
        "asked@broker-0:0 from 1 to 4, skips 3",
        "asked@broker-1:0 from 1 to 4, skips 3",
        (
            "steelyard: group asked-group would be moved in 2 queues of asked (nobody online): skips 6 messages, "
            "repeats 0 messages; if that is wanted, say --yes"
        ),
    ]
    assert committed(cluster, group, "asked") == [1, 1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Say that somebody sits there."""
        return True


@pytest.mark.parametrize(("said", "after"), [("y\n", [4, 4]), ("n\n", [1, 1])])
def test_at_a_terminal_somebody_is_asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, said: str, after: list[int]
) -> None:
    topic = f"terminal-{said[0]}"
    group = fill(cluster, topic)
    monkeypatch.setattr(sys, "stdin", _Terminal(said))
    monkeypatch.setattr(sys, "stderr", heard := _Terminal())
    answer = desk_at(cluster.namesrv, capsys)("offset", "skip", group)
    assert answer.code == (0 if said == "y\n" else 1)
    assert f"{topic}@broker-0:0 from 1 to 4, skips 3" in heard.getvalue()
    assert "Go on? [y/N] " in heard.getvalue()
    assert committed(cluster, group, topic) == after


def test_members_that_run_go_where_the_group_is_moved(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "running")
    with member(cluster, group, "m1", "running"):
        until(lambda: committed(cluster, group, "running") == [4, 4])
        planned = desk("offset", "reset", group, "--to", "first", "--dry-run")
        assert "(1 member online)" in planned.err
        assert desk("offset", "reset", group, "--to", "first", "--yes").code == 0
        until(lambda: committed(cluster, group, "running") == [4, 4])
        held = desk("offset", "held", group, "running")
        assert held.table[0] == ["member", "topic", "broker", "queue", "offset"]
        assert sorted(row[:5] for row in held.table[1:]) == [
            ["m1", "running", "broker-0", "0", "4"],
            ["m1", "running", "broker-1", "0", "4"],
        ]
        assert {row["member"].split("@")[1][:2] for row in desk("offset", "held", group, "running", "--json").lines}
        assert desk("offset", "held", group, "running", "--member", "m2").code == Exit.NOT_FOUND
    offline = desk("offset", "held", group, "running")
    assert offline.code == Exit.NOT_FOUND
    assert f"nobody of group '{group}' is online" in offline.err


def test_a_group_goes_to_where_another_one_is_and_is_made_for_it(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "copied", at=3)
    planned = desk("offset", "copy", group, "copied-to", "--dry-run")
    assert "group copied-to would be made and moved in 2 queues of copied" in planned.err
    assert desk("group", "show", "copied-to").code == Exit.NOT_FOUND
    assert desk("offset", "copy", group, "copied-to", "--yes").out.startswith("group copied-to is made and moved in 2")
    assert committed(cluster, "copied-to", "copied") == [3, 3]
    wrong = desk("offset", "copy", group, "copied-to", "--topic", "other")
    assert wrong.code == Exit.USAGE
    assert "has no offsets in other; it has some in: copied" in wrong.err


@pytest.mark.process
def test_what_was_shown_can_be_imported(cluster: Cluster, desk: Desk, tmp_path: Path) -> None:
    group = fill(cluster, "saved", at=2)
    for form in ("json", "jsonl"):
        file = tmp_path / f"saved.{form}"
        file.write_text(desk("offset", "show", group, "--output", form).out)
        desk("offset", "skip", group, "--yes")
        assert committed(cluster, group, "saved") == [4, 4]
        assert desk("offset", "import", group, str(file), "--yes").code == 0
        assert committed(cluster, group, "saved") == [2, 2]
    piped = run(cluster.namesrv, "offset", "import", group, "-", "--dry-run", stdin=file.read_bytes())
    assert (piped.returncode, piped.stderr[:9]) == (0, b"group sav")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"topic": "saved"}', '[{"topic": 1}]'])
def test_a_file_without_offsets_moves_nothing(desk: Desk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    answer = desk("offset", "import", "whatever", str(file), "--yes")
    assert answer.code == Exit.USAGE
    assert "steelyard offset show GROUP --json" in answer.err


def test_what_cannot_be_done_is_one_line_and_a_code(cluster: Cluster, desk: Desk) -> None:
    group = fill(cluster, "errors")
    desk("group", "create", "reads-nothing")
    for words, code, why in (
        (["show", "erors-group"], Exit.NOT_FOUND, "Did you mean 'errors-group'?"),
        (["show", group, "erors"], Exit.NOT_FOUND, "Did you mean 'errors'?"),
        (["reset", "erors-group", "--to", "last"], Exit.NOT_FOUND, "Did you mean 'errors-group'?"),
        (["reset", group, "--to", "frist"], Exit.USAGE, "'frist' is no place to move to; give first, last, "),
        (["reset", group, "--to", "+-3"], Exit.USAGE, "'+-3' is no place to move to"),
        (["reset", group], Exit.USAGE, "--to"),
        (["reset", group, "--to", "1", "--queue", "broker-0:0"], Exit.USAGE, "give --topic with --queue"),
        (
            ["reset", group, "--to", "1", "--topic", "errors", "--queue", "broker-0:7"],
            Exit.USAGE,
            "errors@broker-0:7 is no queue that can be read; there are errors@broker-0:0",
        ),
        (["reset", group, "--to", "1", "--topic", "errors", "--queue", "seven"], Exit.USAGE, "'seven' is no queue"),
        (["skip", "reads-nothing"], Exit.USAGE, "has not read any topic yet; say which topic"),
        (["copy", "reads-nothing", "other"], Exit.USAGE, "has no offsets in any topic; it has some in: none"),
    ):
        answer = desk("offset", *words)
        assert (answer.code, answer.out) == (code, ""), words
        (sentence,) = answer.err.splitlines()
        assert why in sentence, words


@pytest.fixture
def halved() -> Iterator[Cluster]:
    """Return a cluster one of whose brokers will be stopped."""
    with Cluster(brokers=2) as running:
        yield running


def test_a_broker_that_is_gone_is_left_out_of_the_answer(halved: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    desk = desk_at(halved.namesrv, capsys)
    group = fill(halved, "halves")
    halved.stop_broker("broker-1")
    until(lambda: [row["broker"] for row in desk("offset", "show", group, "--json").lines] == ["broker-0"])
    assert desk("offset", "skip", group, "--yes").code == 0
    assert committed(halved, group, "halves") == [4]


@contextmanager
def ghost(cluster: Cluster, topic: str) -> Iterator[None]:
    """Let the name server believe in a broker that has a topic, and that nobody can reach."""
    body = encode_body(
        Registration(table=TopicTable(version=TableVersion(), topics={topic: TopicSettings(name=topic)}))
    )
    header = RegisterBroker(
        broker_name="broker-9",
        broker_addr="127.0.0.1:1",
        cluster_name="DefaultCluster",
        broker_id=0,
        ha_server_addr="127.0.0.1:1",
        body_crc32=crc(body),
    )
    with Line(cluster.namesrv) as line:
        assert line.ask(RequestCode.REGISTER_BROKER, header, body).code == 0
        yield


def test_a_broker_that_nobody_reaches_is_left_out_of_answers_and_stops_a_move(
    halved: Cluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    desk = desk_at(halved.namesrv, capsys)
    group = fill(halved, "haunted")
    with ghost(halved, "haunted"):
        rows = desk("offset", "show", group, "haunted", "--json").lines
        assert [row["broker"] for row in rows] == ["broker-0", "broker-1"]
        assert "broker broker-9 is left out" in caplog.text
        stopped = desk("offset", "skip", group, "--yes")
        assert (stopped.code, stopped.out) == (Exit.UNREACHABLE, "")
        assert "127.0.0.1:1" in stopped.err
        for words in (["group", "ls"], ["group", "lag", group], ["member", "ls", group], ["producer", "ls"]):
            assert desk(*words).code == 0, words
    assert committed(halved, group, "haunted") == [1, 1], "half a move is none"


@pytest.mark.process
def test_a_pipe_that_closes_is_no_failure(cluster: Cluster) -> None:
    group = fill(cluster, "piped")
    command = [*forkserver.python(), "-m", "steelyard", "offset", "show", group, "--json", "--namesrv", cluster.namesrv]
    piped = ["/bin/bash", "-o", "pipefail", "-c", f"{shlex.join(command)} | head -1"]
    done = subprocess.run(piped, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["topic"] == "piped"
