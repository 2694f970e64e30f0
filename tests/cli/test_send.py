"""`steelyard send` as people run it: what is given arrives, all of it, and the last line says what came of it."""

import json
import sys
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from tests.cli.live import SECONDS, create_topic, run

from steelyard.cli.frame.exits import Exit
from steelyard.cli.main import main
from steelyard.client.blocking.admin import Admin
from steelyard.client.blocking.puller import Puller
from steelyard.model import StoredMessage
from steelyard.serve.embedded import Cluster


def stored(cluster: Cluster, topic: str) -> list[StoredMessage]:
    """Read all messages of a topic, queue by queue."""
    found: list[StoredMessage] = []
    with Puller(cluster.namesrv, "TOOLS_CONSUMER", auto_commit=False, start_from="first") as puller:
        queues = puller.queues(topic)
        total = sum(puller.ends(queues).values())
        puller.assign(queues)
        while len(found) < total:
            found += puller.poll(timeout_s=SECONDS)
    return sorted(found, key=lambda message: (message.queue, message.offset))


def test_one_message_is_sent_and_told_where_it_is(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
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
        assert [each.messages for each in admin.topic("many").queues] == [100] * 8
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sent 800 to many in ")
    assert line.endswith("none failed (400 to broker-0, 400 to broker-1)")


def test_a_pipe_is_sent_line_by_line(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "lines")
    lines = [b"line %d \xff" % number for number in range(2_000)]
    done = run(cluster.namesrv, "send", "lines", "--lines", "--output", "json", stdin=b"\n".join(lines))
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert (told["sent"], told["failed"], sum(told["brokers"].values())) == (2_000, 0, 2_000)
    assert sorted(message.body for message in stored(cluster, "lines")) == sorted(lines)


def test_lines_of_one_key_stay_in_order(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "keyed")
    lines = [b"%d" % number for number in range(500)]
    assert run(cluster.namesrv, "send", "keyed", "--lines", "--key", "k", stdin=b"\n".join(lines)).returncode == 0
    assert [message.body for message in stored(cluster, "keyed")] == lines


def test_what_is_consumed_as_json_can_be_sent_again(cluster: Cluster) -> None:
    for topic in ("origin", "copy"):
        create_topic(cluster.namesrv, topic)
    assert (
        run(cluster.namesrv, "send", "origin", "-", "--tags", "raw", "--keys", "k", stdin=b"\x00\xff").returncode == 0
    )
    printed = run(cluster.namesrv, "consume", "origin", "--from", "first", "--exit-at-end", "--json").stdout
    assert run(cluster.namesrv, "send", "copy", "--json", stdin=printed).returncode == 0
    (copy,) = stored(cluster, "copy")
    assert (copy.body, copy.tags, copy.keys) == (b"\x00\xff", "raw", ("k",))


def test_a_bad_line_ends_it_after_what_came_before(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(cluster.namesrv, "bad-line")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b'{"body": "fine"}\n{"bod": 1}\n{"body": "late"}\n')))
    assert main(["send", "bad-line", "--json", "--namesrv", cluster.namesrv]) == Exit.FAILED
    said = capsys.readouterr()
    assert "line 2 of stdin is no message" in said.err
    assert said.out.startswith("sent to bad-line@")
    assert [message.body for message in stored(cluster, "bad-line")] == [b"fine"]


def test_a_delayed_message_comes_later(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "delayed")
    for delay in ("3d", "1s"):
        assert run(cluster.namesrv, "send", "delayed", "--body", delay, "--delay", delay).returncode == 0
    done = run(cluster.namesrv, "consume", "delayed", "--from", "first", "--count", "1", "--json")
    message = json.loads(done.stdout)
    assert message["body"] == "1s"
    assert message["stored_ms"] - message["born_ms"] >= 1_000


@pytest.mark.parametrize("output", ["table", "json"])
def test_what_no_broker_takes_is_told_and_exit_code_one(
    cluster: Cluster, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"read-only-{output}"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(topic, 1, write=False)
    words = ["send", topic, "--body", "x", "--count", "15", "--output", output, "--namesrv", cluster.namesrv]
    assert main(words) == Exit.FAILED
    said = capsys.readouterr()
    assert said.err.count("\n") == 11
    assert said.err.splitlines()[-1] == "steelyard: 5 more failed"
    if output == "json":
        told = json.loads(said.out)
        assert (told["sent"], told["failed"], told["last"]) == (0, 15, None)
        assert told["error"]
    else:
        assert "; 15 failed" in said.out


def test_progress_is_told_to_a_terminal_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    create_topic(cluster.namesrv, "watched")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("steelyard.cli.frame.screen._EVERY_SECONDS", 0.0)
    words = ["send", "watched", "--body", "x", "--count", "50", "--rate", "500", "--namesrv", cluster.namesrv]
    assert main(words) == 0
    assert "under way" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    assert "under way" not in capsys.readouterr().out


def test_nothing_to_send_is_no_failure(cluster: Cluster) -> None:
    create_topic(cluster.namesrv, "empty")
    done = run(cluster.namesrv, "send", "empty", "--lines")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"sent 0 to empty in ")


def test_namespaces_keep_topics_apart(cluster: Cluster) -> None:
    for namespace in ("eu", "us"):
        sent = run(cluster.namesrv, "send", "spaced", "--namespace", namespace, "--body", namespace)
        assert sent.returncode == 0
    reading = ("--namespace", "eu", "--from", "first", "--exit-at-end", "--json")
    (message,) = run(cluster.namesrv, "consume", "spaced", *reading).stdout.splitlines()
    assert (json.loads(message)["topic"], json.loads(message)["body"]) == ("spaced", "eu")
