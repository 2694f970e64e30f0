"""`steelyard send` as people run it: what is given arrives, all of it, and the last line says what came of it."""

import json
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.model import StoredMessage
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.cli.processes import TIMEOUT_S, create_topic, run_process


def stored(cluster: Cluster, topic: str) -> list[StoredMessage]:
    """Read all messages of a topic, queue by queue."""
    found: list[StoredMessage] = []
    with PullConsumer(cluster.namesrv, "TOOLS_CONSUMER", auto_commit=False, start_from="first") as consumer:
        queues = consumer.queues(topic)
        total = sum(consumer.ends(queues).values())
        consumer.assign(queues)
        while len(found) < total:
            found += consumer.poll(timeout_s=TIMEOUT_S)
    return sorted(found, key=lambda message: (message.queue, message.offset))


def test_one_message_is_sent_and_reported_where_it_is(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(cluster.namesrv, "one")
    words = ["--body", "hellö", "--tags", "paid", "--keys", "order-1", "--keys", "customer-7"]
    assert main(["send", "one", *words, "--namesrv", cluster.namesrv]) == 0
    (message,) = stored(cluster, "one")
    assert (message.body, message.tags, message.keys) == ("hellö".encode(), "paid", ("order-1", "customer-7"))
    said = capsys.readouterr()
    assert said.out == f"sent to {message.queue} at offset 0, id {message.message_id}\n"
    assert said.err == ""


def test_many_are_spread_over_all_queues(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(cluster.namesrv, "many")
    assert main(["send", "many", "--body", "x", "--count", "800", "--namesrv", cluster.namesrv]) == 0
    with Admin(cluster.namesrv) as admin:
        assert [each.messages for each in admin.topics.describe("many").queues] == [100] * 8
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sent 800 to many in ")
    assert line.endswith("none failed (400 to broker-0, 400 to broker-1)")


@pytest.mark.process
def test_files_properties_and_a_queue_of_ones_own(cluster: Cluster, tmp_path: Path) -> None:
    create_topic(cluster.namesrv, "filed", 2)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"\xff" + name.encode())
    files = ("--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    words = ("--property", "region=eu", "--property", "formula=a=b", "--queue", "broker-1:1")
    assert run_process(cluster.namesrv, "send", "filed", *files, *words).returncode == 0
    messages = stored(cluster, "filed")
    assert [message.body for message in messages] == [b"\xffa", b"\xffb"]
    assert {(message.queue.broker, message.queue.queue_id) for message in messages} == {("broker-1", 1)}
    assert {message.properties["formula"] for message in messages} == {"a=b"}
    missing = run_process(cluster.namesrv, "send", "filed", "--file", str(tmp_path / "c"))
    assert (missing.returncode, missing.stdout) == (ExitCode.USAGE, b"")
    nowhere = run_process(cluster.namesrv, "send", "filed", "--body", "x", "--queue", "broker-9:0")
    assert (nowhere.returncode, nowhere.stderr.count(b"\n")) == (ExitCode.FAILED, 1)
    assert b"broker-9" in nowhere.stderr


@pytest.mark.process
def test_what_was_stored_is_printed_by_a_pattern(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "receipts")
    lines = [f"k{number % 5}:{number}" for number in range(100)]
    words = ("--lines", "--key-delimiter", ":", "--format", r"%t %k %s %b %q %o %i\n")
    done = run_process(cluster.namesrv, "send", "receipts", *words, stdin="\n".join(lines).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    reported = {tuple(line.split()) for line in done.stdout.decode().splitlines()}
    there = {
        (
            "receipts",
            message.keys[0],
            message.body.decode(),
            message.queue.broker,
            str(message.queue.queue_id),
            str(message.offset),
            message.message_id,
        )
        for message in stored(cluster, "receipts")
    }
    assert reported == there
    assert len(reported) == 100
    by_key: dict[str, set[str]] = {}
    for _, key, _, broker, queue, _, _ in reported:
        by_key.setdefault(key, set()).add(f"{broker}:{queue}")
    assert [len(queues) for queues in by_key.values()] == [1] * 5


@pytest.mark.process
def test_a_receipt_is_seen_before_the_next_line_is_there(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "prompt")
    command = [*forkserver.python(), "-m", "steelyard", "send", "prompt", "--lines", "--format", r"%s\n"]
    with subprocess.Popen(
        [*command, "--namesrv", cluster.namesrv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.process
def test_all_is_sent_though_nobody_reads_the_receipts(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "unread")
    command = [*forkserver.python(), "-m", "steelyard", "send", "unread", "--lines", "--format", r"%s\n"]
    with subprocess.Popen(
        [*command, "--namesrv", cluster.namesrv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.write(b"x" * 100 + b"\n")
        process.stdin.write((b"y" * 100 + b"\n") * 500)
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr.read() == b""
    assert len(stored(cluster, "unread")) == 501


@pytest.mark.process
def test_a_pipe_is_sent_line_by_line(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "lines")
    lines = [b"line %d \xff" % number for number in range(2_000)]
    done = run_process(cluster.namesrv, "send", "lines", "--lines", "--output", "json", stdin=b"\n".join(lines))
    assert (done.returncode, done.stderr) == (0, b"")
    reported = json.loads(done.stdout)
    assert (reported["sent"], reported["failed"], sum(reported["brokers"].values())) == (2_000, 0, 2_000)
    assert sorted(message.body for message in stored(cluster, "lines")) == sorted(lines)


@pytest.mark.process
def test_lines_of_one_key_stay_in_order(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "keyed")
    lines = [b"%d" % number for number in range(500)]
    assert (
        run_process(cluster.namesrv, "send", "keyed", "--lines", "--key", "k", stdin=b"\n".join(lines)).returncode == 0
    )
    assert [message.body for message in stored(cluster, "keyed")] == lines


@pytest.mark.process
def test_what_is_consumed_as_json_can_be_sent_again(cluster: Cluster) -> None:
    for topic in ("origin", "copy"):
        create_topic(cluster.namesrv, topic)
    assert (
        run_process(
            cluster.namesrv, "send", "origin", "-", "--tags", "raw", "--keys", "k", stdin=b"\x00\xff"
        ).returncode
        == 0
    )
    printed = run_process(cluster.namesrv, "consume", "origin", "--from", "first", "--exit-at-end", "--json").stdout
    assert run_process(cluster.namesrv, "send", "copy", "--json", stdin=printed).returncode == 0
    (copy,) = stored(cluster, "copy")
    assert (copy.body, copy.tags, copy.keys) == (b"\x00\xff", "raw", ("k",))


def test_a_bad_line_ends_it_after_what_came_before(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(cluster.namesrv, "bad-line")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b'{"body": "fine"}\n{"bod": 1}\n{"body": "late"}\n')))
    assert main(["send", "bad-line", "--json", "--namesrv", cluster.namesrv]) == ExitCode.FAILED
    said = capsys.readouterr()
    assert "line 2 of stdin is no message" in said.err
    assert said.out.startswith("sent to bad-line@")
    assert [message.body for message in stored(cluster, "bad-line")] == [b"fine"]


@pytest.mark.process
def test_a_delayed_message_comes_later(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "delayed")
    for delay in ("3d", "1s"):
        assert run_process(cluster.namesrv, "send", "delayed", "--body", delay, "--delay", delay).returncode == 0
    done = run_process(cluster.namesrv, "consume", "delayed", "--from", "first", "--count", "1", "--json")
    message = json.loads(done.stdout)
    assert message["body"] == "1s"
    assert message["stored_ms"] - message["born_ms"] >= 1_000


@pytest.mark.parametrize("output", ["table", "json"])
def test_what_no_broker_takes_is_reported_and_exit_code_one(
    cluster: Cluster, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"read-only-{output}"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(topic, 1, write=False)
    words = ["send", topic, "--body", "x", "--count", "15", "--output", output, "--namesrv", cluster.namesrv]
    assert main(words) == ExitCode.FAILED
    said = capsys.readouterr()
    assert said.err.count("\n") == 11
    assert said.err.splitlines()[-1] == "steelyard: 5 more failed"
    if output == "json":
        reported = json.loads(said.out)
        assert (reported["sent"], reported["failed"], reported["last"]) == (0, 15, None)
        assert reported["error"]
    else:
        assert "; 15 failed" in said.out


def test_progress_is_reported_to_a_terminal_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    create_topic(cluster.namesrv, "watched")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("steelyard.cli.shared.terminal._UPDATE_EVERY_S", 0.0)
    words = ["send", "watched", "--body", "x", "--count", "50", "--rate", "500", "--namesrv", cluster.namesrv]
    assert main(words) == 0
    assert "in flight" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    assert "in flight" not in capsys.readouterr().out


@pytest.mark.process
def test_nothing_to_send_is_no_failure(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "empty")
    done = run_process(cluster.namesrv, "send", "empty", "--lines")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"sent 0 to empty in ")


@pytest.mark.process
def test_namespaces_keep_topics_apart(cluster: Cluster) -> None:
    for namespace in ("eu", "us"):
        sent = run_process(cluster.namesrv, "send", "spaced", "--namespace", namespace, "--body", namespace)
        assert sent.returncode == 0
    reading = ("--namespace", "eu", "--from", "first", "--exit-at-end", "--json")
    (message,) = run_process(cluster.namesrv, "consume", "spaced", *reading).stdout.splitlines()
    assert (json.loads(message)["topic"], json.loads(message)["body"]) == ("spaced", "eu")
