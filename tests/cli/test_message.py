"""`steelyard message` as people use it: finding messages, what became of them, having them handled again."""

import io
import json
import subprocess
import sys

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.producer.send_result import SendResult
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from tests import forkserver
from tests.cli.processes import command_process, create_topic, run_process
from tests.cli.runner import RunCommand, run_command_at

UNKNOWN = "7F0000010000000000000000DEADBEEF"


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return run_command_at(cluster.namesrv, capsys)


def fill(cluster: Cluster, topic: str, *bodies: bytes, tags: str | None = None) -> list[SendResult]:
    create_topic(cluster.namesrv, topic, 1)
    with Producer(cluster.namesrv) as producer:
        return [
            producer.send(Message(topic, body, tags, f"k-{number}", {"region": "eu"}), key="one")
            for number, body in enumerate(bodies)
        ]


def place(sent: SendResult) -> str:
    return f"{sent.queue.broker}:{sent.queue.queue_id}:{sent.offset}"


# -- showing one ------------------------------------------------------------------------------------------------------


def test_a_message_is_shown_by_either_id_and_by_its_place(cluster: Cluster, run: RunCommand) -> None:
    first, second = fill(cluster, "shown", b"first", b"second", tags="paid")
    by_id = run("message", "show", second.message_id, "--output", "json")
    assert by_id.code == 0
    assert (by_id.json["body"], by_id.json["tags"], by_id.json["keys"]) == ("second", "paid", ["k-1"])
    by_place_id = run("message", "show", by_id.json["offset_id"].lower(), "--json")
    by_place = run("message", "show", "--topic", "shown", "--at", place(second), "--json")
    assert by_place_id.json == by_place.json == by_id.json
    assert run("message", "show", first.message_id, "--topic", "shown", "--raw").out == "first"


def test_people_see_all_of_a_message(cluster: Cluster, run: RunCommand) -> None:
    (sent,) = fill(cluster, "seen", b"\x1b[2Jhello", tags="paid")
    shown = run("message", "show", sent.message_id)
    lines = {line[0]: line[1:] for line in shown.table}
    assert lines["topic"] == ["seen"]
    assert lines["place"] == [place(sent)]
    assert lines["body"] == [r"\x1b[2Jhello"]
    assert "region=eu," in lines["properties"]


@pytest.mark.process
def test_a_body_comes_out_byte_by_byte(cluster: Cluster) -> None:
    (sent,) = fill(cluster, "raw", b"\x00\xff\n\x1b")
    assert run_process(cluster.namesrv, "message", "show", sent.message_id, "--raw").stdout == b"\x00\xff\n\x1b"
    reported = json.loads(run_process(cluster.namesrv, "message", "show", sent.message_id, "--json").stdout)
    assert (reported["body"], reported["body_encoding"]) == ("AP8KGw==", "base64")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("show",), ExitCode.USAGE, "by its id or by its place"),
        (("show", UNKNOWN, "--at", "a:0:1"), ExitCode.USAGE, "by its id or by its place"),
        (("show", "--at", "a:0:1"), ExitCode.USAGE, "give --topic too"),
        (("show", "--topic", "there", "--at", "a:1"), ExitCode.USAGE, "BROKER:QUEUE:OFFSET"),
        (("show", "--topic", "there", "--at", "broker-7:0:1"), ExitCode.USAGE, "it is on broker-0, broker-1"),
        (("show", "--topic", "there", "--at", "broker-0:0:9"), ExitCode.NOT_FOUND, "has no message at offset 9"),
        (("show", "order-1"), ExitCode.USAGE, "steelyard message find TOPIC KEY"),
        (("show", UNKNOWN), ExitCode.NOT_FOUND, "has no message with the id"),
        (("show", UNKNOWN, "--topic", "ther"), ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (("find", "there", "k-9"), ExitCode.NOT_FOUND, "no message with the key 'k-9'"),
        (("find", "ther", "k-9"), ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (("ls", "ther"), ExitCode.NOT_FOUND, "Did you mean 'there'?"),
        (("ls", "there", "--queue", "broker-0:7"), ExitCode.USAGE, "topic 'there' has"),
        (("ls", "there", "--from", "noon"), ExitCode.USAGE, "'noon' is no time"),
        (("ls", "there", "--until", "1h"), ExitCode.USAGE, "give --from too"),
        (("index", "there", "--queue", "broker-0"), ExitCode.USAGE, "write it as BROKER:ID"),
        (("readers", UNKNOWN), ExitCode.NOT_FOUND, "has no message with the id"),
        (("redeliver", UNKNOWN, "--group", "g"), ExitCode.NOT_FOUND, "has no message with the id"),
        (("trace", UNKNOWN, "--trace-topic", "nowhere"), ExitCode.NOT_FOUND, "keeps no traces"),
        (("trace", UNKNOWN), ExitCode.NOT_FOUND, "message_trace"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_is_not_there_is_one_line_and_a_code(
    cluster: Cluster, run: RunCommand, words: tuple[str, ...], code: ExitCode, why: str
) -> None:
    create_topic(cluster.namesrv, "there", 1)
    output = run("message", *words)
    assert (output.code, output.out) == (code, "")
    (sentence,) = output.err.splitlines()
    assert why in sentence


# -- several ----------------------------------------------------------------------------------------------------------


def test_the_newest_are_listed_or_those_from_a_place_on(cluster: Cluster, run: RunCommand) -> None:
    sent = fill(cluster, "listed", *(b"%d" % number for number in range(30)))

    def listed(*words: str) -> list[str]:
        done = run("message", "ls", "listed", *words, "--json")
        assert done.code == 0
        return [each["body"] for each in done.lines]

    numbers = [str(number) for number in range(30)]
    assert listed() == numbers[10:]
    assert listed("--count", "3") == numbers[27:]
    assert listed("--from", "first", "--count", "3") == numbers[:3]
    assert listed("--from", "-5") == numbers[25:]
    assert listed("--from", "12", "--count", "2") == ["12", "13"]
    assert listed("--from", "1 hour ago", "--until", "now", "--count", "100") == numbers
    assert listed("--from", "1 hour ago", "--until", "30 minutes ago") == []
    queue = sent[0].queue
    assert listed("--queue", f"{queue.broker}:{queue.queue_id}", "--from", "29") == ["29"]


def test_a_list_says_that_there_is_more(cluster: Cluster, run: RunCommand) -> None:
    fill(cluster, "more", b"a" * 100, b"b\x1b[2J")
    output = run("message", "ls", "more", "--count", "1", "--from", "first")
    assert output.table[0] == ["broker", "queue", "offset", "stored", "id", "keys", "tags", "body"]
    assert output.table[1][-1] == "a" * 60 + "..."
    assert output.err == "there are more: see --from and --count, or steelyard consume\n"
    assert run("message", "ls", "more").table[2][-1] == r"b\x1b[2J"
    assert run("message", "ls", "more", "--output", "csv").csv[1]["body"] == "b\x1b[2J"
    assert len(run("message", "ls", "more", "--output", "json").json) == 2


def test_only_messages_with_a_tag_are_listed(cluster: Cluster, run: RunCommand) -> None:
    create_topic(cluster.namesrv, "tagged", 1)
    with Producer(cluster.namesrv) as producer:
        for tag in ("paid", "open", "refunded"):
            producer.send(Message("tagged", tag.encode(), tag))
    found = run("message", "ls", "tagged", "--from", "first", "--tags", "paid || refunded", "--json")
    assert [each["body"] for each in found.lines] == ["paid", "refunded"]


@pytest.mark.process
def test_what_is_listed_can_be_sent_again(cluster: Cluster) -> None:
    fill(cluster, "source", b"\xff", b"text")
    create_topic(cluster.namesrv, "target", 1)
    listed = run_process(cluster.namesrv, "message", "ls", "source", "--json").stdout
    assert run_process(cluster.namesrv, "send", "target", "--json", stdin=listed).returncode == 0
    with Admin(cluster.namesrv) as admin:
        assert {(each.body, each.keys) for each in admin.messages.list("target")} == {
            (b"\xff", ("k-0",)),
            (b"text", ("k-1",)),
        }


def test_messages_are_found_by_a_key(cluster: Cluster, run: RunCommand) -> None:
    fill(cluster, "keyed", b"a", b"b", b"c")
    assert [each["body"] for each in run("message", "find", "keyed", "k-1", "--json").lines] == ["b"]
    assert run("message", "find", "keyed", "k-1", "--until", "1 hour ago").code == ExitCode.NOT_FOUND


@pytest.mark.process
def test_a_reader_who_has_seen_enough_is_no_failure(cluster: Cluster) -> None:
    fill(cluster, "enough", *(b"x" * 2_000 for _ in range(100)))
    command = [*forkserver.python(), "-m", "steelyard", "message", "ls", "enough", "--count", "100", "--json"]
    with subprocess.Popen(
        [*command, "--namesrv", cluster.namesrv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"topic"')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


# -- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_says_what_it_is_made_of(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    def reported(text: str) -> dict[str, object]:
        assert main(["message", "id", text, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    (sent,) = fill(cluster, "ids", b"x")
    with Admin(cluster.namesrv) as admin:
        message = admin.messages.find(sent.message_id, "ids")
    by_place = reported(message.offset_id)
    assert (by_place["kind"], by_place["position"]) == ("place", message.position)
    assert f"{by_place['address']}:{by_place['port']}" == message.store_host
    by_key = reported(sent.message_id)
    assert (by_key["kind"], by_key["address"]) == ("key of a producer", "127.0.0.1")
    assert str(by_key["made_at"])[:13] == message.born_at.isoformat()[:13]
    assert reported("0156F7E71C361B21BC024CCDBE00000007")["network_card"] == "56:f7:e7:1c:36:1b"
    long = "0" * 30 + "01" + "00002A9F" + "0000000000000400"
    assert reported(long) == {"id": long, "kind": "place", "address": "::1", "port": 10911, "position": 1024}


def test_an_id_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["message", "id", "\x1bxyz"]) == ExitCode.USAGE
    assert r"'\x1bxyz' is no message id" in capsys.readouterr().err


def test_an_index_shows_where_messages_are(cluster: Cluster, run: RunCommand) -> None:
    sent = fill(cluster, "indexed", b"a", b"b", b"c", tags="paid")
    queue = f"{sent[0].queue.broker}:{sent[0].queue.queue_id}"
    rows = run("message", "index", "indexed", "--queue", queue, "--from", "1", "--count", "1", "--json").lines
    assert [(row["offset"], row["matches"]) for row in rows] == [(1, None)]
    with Admin(cluster.namesrv) as admin:
        assert rows[0]["position"] == admin.messages.find(sent[1].message_id, "indexed").position
    shown = run("message", "index", "indexed", "--queue", queue)
    assert len(shown.table) == 4
    assert "has offsets 0 to 3" in shown.err
    other = next(name for name in cluster.brokers if name != sent[0].queue.broker)
    empty = run("message", "index", "indexed", "--queue", f"{other}:0", "--json")
    assert (empty.code, empty.out) == (0, "")


# -- what became of it ------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_member_handles_a_message_at_once_and_offsets_stay(cluster: Cluster, run: RunCommand) -> None:
    first, *_ = fill(cluster, "again", b"first", b"second")
    words = ("consume", "again", "--group", "repeaters", "--from", "first", "--name", "till-1", "--json")
    with command_process(cluster.namesrv, *words) as member:
        member.wait_for(lambda: len(member.out) == 2)
        done = run("message", "redeliver", first.message_id, "--group", "repeaters", "--member", "till-1", "--json")
        assert (done.code, done.json["outcome"], done.json["remark"]) == (0, "done", None)
        member.wait_for(lambda: len(member.out) == 3)
        assert json.loads(member.out[2])["body"] == "first"
        unknown = run("message", "redeliver", first.message_id, "--group", "repeaters", "--member", "till-9")
        assert unknown.code in (ExitCode.USAGE, ExitCode.NOT_FOUND)
        assert "till-1" in unknown.err
        assert member.stop() == 0
    offline = run("message", "redeliver", first.message_id, "--group", "repeaters")
    assert (offline.code, offline.out) == (ExitCode.NOT_FOUND, "")
    assert "has no member online at" in offline.err
    (reader,) = run("message", "readers", first.message_id, "--json").lines
    assert reader == {"group": "repeaters", "is_past": True, "committed": 2, "offset": 0}


def test_a_copy_is_sent_with_all_that_is_its_own(cluster: Cluster, run: RunCommand) -> None:
    (sent,) = fill(cluster, "original", b"\xff", tags="paid")
    create_topic(cluster.namesrv, "copies", 1)
    copied = run("message", "resend", sent.message_id, "--to", "copies", "--json")
    assert (copied.code, copied.json["topic"]) == (0, "copies")
    with Admin(cluster.namesrv) as admin:
        (copy,) = admin.messages.list("copies")
    assert (copy.body, copy.tags, copy.keys, copy.properties["region"]) == (b"\xff", "paid", ("k-0",), "eu")
    assert copy.message_id != sent.message_id


def test_traces_are_shown_in_order(cluster: Cluster, run: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    (sent,) = fill(cluster, "traced", b"x")
    create_topic(cluster.namesrv, "traces", 1)
    key = sent.message_id
    records = (
        ["SubAfter", "call-1", key, "12", "false", "k-0", "2", "1762776002000", "billing"],
        ["SubBefore", "1762776001000", "DefaultRegion", "billing", "call-1", key, "0", "k-0"],
        ["Pub", "1762776000000", "r", "shop", "traced", key, "null", "k-0", "h:1", "1", "3", "0", "ID", "true", "h"],
        ["Pub", "1762776000000", "r", "shop", "traced", "another", "", "", "h:1", "1", "3", "0", "ID", "true", "h"],
    )
    text = "".join("\x01".join(record) + "\x02" for record in records)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("send", "traces", "-", "--keys", key).code == 0
    found = run("message", "trace", key, "--trace-topic", "traces", "--json").lines
    assert [each["what"] for each in found] == ["sent", "received", "handled"]
    assert [each["group"] for each in found] == ["shop", "billing", "billing"]
    assert (found[0]["at"], found[0]["took_ms"], found[0]["went_well"]) == ("2025-11-10T12:00:00Z", 3, True)
    assert (found[2]["outcome"], found[2]["went_well"], found[1]["attempt"]) == ("raised", False, 1)
    shown = run("message", "trace", key, "--trace-topic", "traces")
    assert [line[0] for line in shown.table] == ["what", "sent", "received", "handled"]
