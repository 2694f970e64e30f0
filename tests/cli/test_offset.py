"""`steelyard offset`: a reset is shown before it is done, and takes effect whether members run or not."""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import BrokerRegistration, TopicConfig, TopicConfigTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.nameserver import RegisterBroker
from tests import forkserver
from tests.cli.processes import create_topic, run_process
from tests.cli.runner import RunCommand, run_command_at
from tests.cli.test_group import member
from tests.client.admin_scene import commit, put
from tests.nameserver.nameserver_harness import crc
from tests.serve.raw_connection import RawConnection
from tests.waiting import until


def fill(cluster: Cluster, name: str, messages: int = 4, at: int = 1) -> str:
    """Make a topic with a queue of some messages on each broker, and a group that is somewhere in them."""
    create_topic(cluster.namesrv, name, 1)
    group = f"{name}-group"
    with Admin(cluster.namesrv) as admin:
        admin.groups.create(group)
    for broker, address in cluster.brokers.items():
        for _ in range(messages):
            put(address, Queue(name, broker, 0), b"x")
        commit(address, group, Queue(name, broker, 0), at)
    return group


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    """Return how far a group is in each queue of a topic."""
    with Admin(cluster.namesrv) as admin:
        return [row.committed for row in admin.offsets.list(group, topic)]


def test_offsets_are_shown_in_every_format(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "shown")
    answers = {form: run("offset", "show", group, "--output", form) for form in ("json", "jsonl", "csv")}
    for rows in (answers["json"].json, answers["jsonl"].lines, answers["csv"].csv):
        assert [(row["topic"], row["broker"], int(row["queue_id"])) for row in rows] == [
            ("shown", "broker-0", 0),
            ("shown", "broker-1", 0),
        ]
        assert [(int(row["committed"]), int(row["end"]), int(row["lag"])) for row in rows] == [(1, 4, 3)] * 2
    table = run("offset", "show", group, "shown").table
    assert table[0] == ["topic", "broker", "queue", "committed", "end", "lag", "handled", "up", "to"]
    assert table[1][:6] == ["shown", "broker-0", "0", "1", "4", "3"]


def test_a_dry_run_shows_every_queue_and_changes_nothing(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "dry")
    answer = run("offset", "reset", group, "--to", "2 hours ago", "--dry-run")
    assert answer.table == [
        ["topic", "broker", "queue", "from", "to", "skips", "repeats"],
        ["dry", "broker-0", "0", "1", "0", "0", "1"],
        ["dry", "broker-1", "0", "1", "0", "0", "1"],
    ]
    assert answer.err == (
        "group dry-group would be reset in 2 queues of dry (no member online): skips 0 messages, repeats 2 messages; "
        "nothing was changed\n"
    )
    assert committed(cluster, group, "dry") == [1, 1]
    assert run("offset", "reset", group, "--to", "last", "--dry-run", "--json").lines[0]["skipped"] == 3
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
def test_a_group_is_moved_to_where_it_was_asked(
    cluster: Cluster, run: RunCommand, name: str, to: str, after: list[int]
) -> None:
    group = fill(cluster, f"to-{name}")
    answer = run("offset", "reset", group, "--to", to, "--yes")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"group {group} is reset in 2 queues of to-{name} (no member online): skips")
    assert committed(cluster, group, f"to-{name}") == after


def test_without_a_topic_all_topics_of_the_group_are_moved_but_its_retries(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "one")
    fill(cluster, "two")
    for broker, address in cluster.brokers.items():
        commit(address, group, Queue("two", broker, 0), 2)
    answer = run("offset", "reset", group, "--to", "last", "--yes", "--json")
    assert {(row["topic"], row["before"], row["to"]) for row in answer.json["moves"]} == {("one", 1, 4), ("two", 2, 4)}
    run("offset", "reset", group, "--to", "first", "--topic", "two", "--yes")
    assert (committed(cluster, group, "one"), committed(cluster, group, "two")) == ([4, 4], [0, 0])


def test_one_queue_is_moved_alone(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "alone")
    words = ("offset", "reset", group, "--to", "3", "--topic", "alone", "--queue", "broker-1:0")
    assert "in 1 queue of alone" in run(*words, "--yes").out
    assert committed(cluster, group, "alone") == [1, 3]


def test_without_a_terminal_no_one_is_asked_and_nothing_is_moved(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "asked")
    answer = run("offset", "reset", group, "--to", "last")
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert answer.err.splitlines() == [
        "asked@broker-0:0 from 1 to 4, skips 3",
        "asked@broker-1:0 from 1 to 4, skips 3",
        (
            "steelyard: group asked-group would be reset in 2 queues of asked (no member online): skips 6 messages, "
            "repeats 0 messages; if that is wanted, add --yes"
        ),
    ]
    assert committed(cluster, group, "asked") == [1, 1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be a terminal."""
        return True


@pytest.mark.parametrize(("typed", "after"), [("y\n", [4, 4]), ("n\n", [1, 1])])
def test_at_a_terminal_a_person_is_asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: str, after: list[int]
) -> None:
    topic = f"terminal-{typed[0]}"
    group = fill(cluster, topic)
    monkeypatch.setattr(sys, "stdin", _Terminal(typed))
    monkeypatch.setattr(sys, "stderr", received := _Terminal())
    answer = run_command_at(cluster.namesrv, capsys)("offset", "reset", group, "--to", "last")
    assert answer.code == (0 if typed == "y\n" else 1)
    assert f"{topic}@broker-0:0 from 1 to 4, skips 3" in received.getvalue()
    assert "Continue? [y/N] " in received.getvalue()
    assert committed(cluster, group, topic) == after


def test_members_that_run_go_where_the_group_is_moved(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "running")
    with member(cluster, group, "m1", "running"):
        until(lambda: committed(cluster, group, "running") == [4, 4])
        planned = run("offset", "reset", group, "--to", "first", "--dry-run")
        assert "(1 member online)" in planned.err
        assert run("offset", "reset", group, "--to", "first", "--yes").code == 0
        until(lambda: committed(cluster, group, "running") == [4, 4])
        held = run("offset", "held", group, "running")
        assert held.table[0] == ["member", "topic", "broker", "queue", "offset"]
        assert sorted(row[:5] for row in held.table[1:]) == [
            ["m1", "running", "broker-0", "0", "4"],
            ["m1", "running", "broker-1", "0", "4"],
        ]
        assert {row["member"].split("@")[1][:2] for row in run("offset", "held", group, "running", "--json").lines}
        assert run("offset", "held", group, "running", "--member", "m2").code == ExitCode.NOT_FOUND
    offline = run("offset", "held", group, "running")
    assert offline.code == ExitCode.NOT_FOUND
    assert f"no member of group '{group}' is online" in offline.err


def test_a_group_goes_to_where_another_one_is_and_is_made_for_it(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "copied", at=3)
    planned = run("offset", "copy", group, "copied-to", "--dry-run")
    assert "group copied-to would be created and reset in 2 queues of copied" in planned.err
    assert run("group", "show", "copied-to").code == ExitCode.NOT_FOUND
    assert run("offset", "copy", group, "copied-to", "--yes").out.startswith(
        "group copied-to is created and reset in 2"
    )
    assert committed(cluster, "copied-to", "copied") == [3, 3]
    wrong = run("offset", "copy", group, "copied-to", "--topic", "other")
    assert wrong.code == ExitCode.USAGE
    assert "has no offsets in other; it has some in: copied" in wrong.err


@pytest.mark.process
def test_what_was_shown_can_be_imported(cluster: Cluster, run: RunCommand, tmp_path: Path) -> None:
    group = fill(cluster, "saved", at=2)
    for form in ("json", "jsonl"):
        file = tmp_path / f"saved.{form}"
        file.write_text(run("offset", "show", group, "--output", form).out)
        run("offset", "reset", group, "--to", "last", "--yes")
        assert committed(cluster, group, "saved") == [4, 4]
        assert run("offset", "import", group, str(file), "--yes").code == 0
        assert committed(cluster, group, "saved") == [2, 2]
    piped = run_process(cluster.namesrv, "offset", "import", group, "-", "--dry-run", stdin=file.read_bytes())
    assert (piped.returncode, piped.stderr[:9]) == (0, b"group sav")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"topic": "saved"}', '[{"topic": 1}]'])
def test_a_file_without_offsets_moves_nothing(run: RunCommand, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    answer = run("offset", "import", "whatever", str(file), "--yes")
    assert answer.code == ExitCode.USAGE
    assert "steelyard offset show GROUP --json" in answer.err


def test_what_cannot_be_done_is_one_line_and_a_code(cluster: Cluster, run: RunCommand) -> None:
    group = fill(cluster, "errors")
    run("group", "create", "reads-nothing")
    for words, code, why in (
        (["show", "erors-group"], ExitCode.NOT_FOUND, "Did you mean 'errors-group'?"),
        (["show", group, "erors"], ExitCode.NOT_FOUND, "Did you mean 'errors'?"),
        (["reset", "erors-group", "--to", "last"], ExitCode.NOT_FOUND, "Did you mean 'errors-group'?"),
        (["reset", group, "--to", "frist"], ExitCode.USAGE, "'frist' is no place to move to; give first, last, "),
        (["reset", group, "--to", "+-3"], ExitCode.USAGE, "'+-3' is no place to move to"),
        (["reset", group], ExitCode.USAGE, "--to"),
        (["reset", group, "--to", "1", "--queue", "broker-0:0"], ExitCode.USAGE, "give --topic with --queue"),
        (
            ["reset", group, "--to", "1", "--topic", "errors", "--queue", "broker-0:7"],
            ExitCode.USAGE,
            "errors@broker-0:7 is no queue that can be read; there are errors@broker-0:0",
        ),
        (["reset", group, "--to", "1", "--topic", "errors", "--queue", "seven"], ExitCode.USAGE, "'seven' is no queue"),
        (["reset", "reads-nothing", "--to", "last"], ExitCode.USAGE, "has not read any topic yet; say which topic"),
        (["copy", "reads-nothing", "other"], ExitCode.USAGE, "has no offsets in any topic; it has some in: none"),
    ):
        answer = run("offset", *words)
        assert (answer.code, answer.out) == (code, ""), words
        (sentence,) = answer.err.splitlines()
        assert why in sentence, words


@pytest.fixture
def halved() -> Iterator[Cluster]:
    """Return a cluster one of whose brokers will be stopped."""
    with Cluster(brokers=2) as running:
        yield running


def test_a_broker_that_is_gone_is_left_out_of_the_answer(halved: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_command_at(halved.namesrv, capsys)
    group = fill(halved, "halves")
    halved.stop_broker("broker-1")
    until(lambda: [row["broker"] for row in run("offset", "show", group, "--json").lines] == ["broker-0"])
    assert run("offset", "reset", group, "--to", "last", "--yes").code == 0
    assert committed(halved, group, "halves") == [4]


@contextmanager
def ghost(cluster: Cluster, topic: str) -> Iterator[None]:
    """Let the name server believe in a broker that has a topic, and that nobody can reach."""
    body = encode_body(
        BrokerRegistration(table=TopicConfigTable(version=TableVersion(), topics={topic: TopicConfig(name=topic)}))
    )
    header = RegisterBroker(
        broker_name="broker-9",
        broker_addr="127.0.0.1:1",
        cluster_name="DefaultCluster",
        broker_id=0,
        ha_server_addr="127.0.0.1:1",
        body_crc32=crc(body),
    )
    with RawConnection(cluster.namesrv) as connection:
        assert connection.request(RequestCode.REGISTER_BROKER, header, body).code == 0
        yield


def test_a_broker_that_nobody_reaches_is_left_out_of_answers_and_stops_a_move(
    halved: Cluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run = run_command_at(halved.namesrv, capsys)
    group = fill(halved, "haunted")
    with ghost(halved, "haunted"):
        rows = run("offset", "show", group, "haunted", "--json").lines
        assert [row["broker"] for row in rows] == ["broker-0", "broker-1"]
        assert "broker broker-9 is left out" in caplog.text
        stopped = run("offset", "reset", group, "--to", "last", "--yes")
        assert (stopped.code, stopped.out) == (ExitCode.UNREACHABLE, "")
        assert "127.0.0.1:1" in stopped.err
        for words in (["group", "ls"], ["group", "lag", group], ["member", "ls", group], ["producer", "ls"]):
            assert run(*words).code == 0, words
    assert committed(halved, group, "haunted") == [1, 1], "half a move is none"


@pytest.mark.process
def test_a_pipe_that_closes_is_no_failure(cluster: Cluster) -> None:
    group = fill(cluster, "piped")
    command = [*forkserver.python(), "-m", "steelyard", "offset", "show", group, "--json", "--namesrv", cluster.namesrv]
    piped = ["/bin/bash", "-o", "pipefail", "-c", f"{shlex.join(command)} | head -1"]
    done = subprocess.run(piped, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["topic"] == "piped"
