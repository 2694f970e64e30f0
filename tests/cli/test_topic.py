"""`steelyard topic`: topics are listed, looked at, made and deleted, and nothing is lost without a word."""

import csv
import io
import json

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster

Captured = pytest.CaptureFixture[str]


def test_a_topic_is_made_listed_and_deleted(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv]
    for _ in range(2):  # the second time it already exists, as wanted
        assert main(["topic", "create", "orders", "--queues", "16", *at]) == 0
        assert capsys.readouterr().out == "topic orders has 32 queues on broker-0, broker-1\n"
    assert main(["topic", "create", "here", "--queues", "2", "--broker", "broker-1", "--may", "read", *at]) == 0
    assert capsys.readouterr().out == "topic here has 2 queues on broker-1\n"

    assert main(["topic", "ls", *at]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["topic", "queues", "brokers", "permission", "kind"]
    assert ["orders", "32", "broker-0,", "broker-1", "read-write", "users"] in rows
    assert main(["topic", "ls", "--json", "--system", *at]) == 0
    listed = {each["topic"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert listed["here"] == {
        "topic": "here",
        "queues": 2,
        "brokers": ["broker-1"],
        "may": "read",
        "kind": "users",
        "clusters": ["DefaultCluster"],
    }
    assert listed["TBW102"]["kind"] == "system"

    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message("orders", b"x")] * 3)
    assert main(["topic", "delete", "orders", *at]) == ExitCode.USAGE
    output = capsys.readouterr().err
    assert output == (
        "steelyard: topic 'orders' has 3 messages, which would be deleted with it; if that is wanted, add --yes\n"
    )
    assert main(["topic", "delete", "orders", "--yes", *at]) == 0
    assert capsys.readouterr().out == "topic orders is deleted, with 3 messages\n"
    with Admin(cluster.namesrv) as admin:
        assert "orders" not in {each.name for each in admin.topics.list()}


def test_a_list_has_only_what_was_asked_for(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv, "--output", "json"]
    for name in ("ls-one", "ls-two"):
        assert main(["topic", "create", name, "--queues", "1", *at]) == 0
    with Admin(cluster.namesrv) as admin:
        admin.groups.create("ls-readers")
        admin.offsets.reset("ls-readers", "ls-one", "first")
    capsys.readouterr()
    assert main(["topic", "ls", "ls-*", "--groups", *at]) == 0
    assert {each["topic"]: each["groups"] for each in json.loads(capsys.readouterr().out)} == {
        "ls-one": ["ls-readers"],
        "ls-two": [],
    }
    assert main(["topic", "ls", "ls-*", "--cluster", "elsewhere", *at]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_topic_is_shown_by_its_queues_in_every_form(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv]
    assert main(["topic", "create", "shown", "--queues", "2", *at]) == 0
    with Producer(cluster.namesrv) as producer:
        for _ in range(5):
            producer.send(Message("shown", b"x"), key="same")
    capsys.readouterr()
    assert main(["topic", "show", "shown", *at]) == 0
    output = capsys.readouterr()
    head, *rows = (line.split() for line in output.out.splitlines())
    assert head == ["broker", "queue", "first", "next", "messages", "last", "stored"]
    assert [row[:2] for row in rows] == [["broker-0", "0"], ["broker-0", "1"], ["broker-1", "0"], ["broker-1", "1"]]
    assert sorted(row[2:5] for row in rows) == [["0", "0", "0"]] * 3 + [["0", "5", "5"]]
    assert output.err == (
        "shown: 5 messages in 4 queues on broker-0, broker-1; permission read-write; read by no group\n"
        "messages are too few to say how evenly they lie: 0 to 5 in a queue\n"
    )
    for form in ("json", "jsonl"):
        assert main(["topic", "show", "shown", "--output", form, *at]) == 0
        text, remarks = capsys.readouterr()
        found = json.loads(text) if form == "json" else list(map(json.loads, text.splitlines()))
        assert (sum(each["messages"] for each in found), remarks) == (5, "")
        assert {each["topic"] for each in found} == {"shown"}
        (written,) = (each["stored_at"] for each in found if each["messages"])
        assert written.endswith("Z")
    assert main(["topic", "show", "shown", "-o", "csv", *at]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [each["queue_id"] for each in table] == ["0", "1", "0", "1"]


def test_where_a_topic_is_and_how_brokers_keep_it_is_shown(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv, "--output", "json"]
    words = ["topic", "create", "kept", "--queues", "1", "--order", "--attribute", "message.type=FIFO"]
    assert main([*words, *at]) == 0
    assert json.loads(capsys.readouterr().out) == {"topic": "kept", "queues": 2, "brokers": ["broker-0", "broker-1"]}
    assert main(["topic", "route", "kept", *at]) == 0
    route = json.loads(capsys.readouterr().out)
    assert [(each["broker"], each["addresses"]) for each in route] == [
        (broker, {"0": address}) for broker, address in cluster.brokers.items()
    ]
    assert {each["order"] for each in route} == {"broker-0:1;broker-1:1"}
    assert main(["topic", "settings", "kept", *at]) == 0
    settings = json.loads(capsys.readouterr().out)
    assert [(each["order"], each["attributes"]) for each in settings] == [(True, {"message.type": "FIFO"})] * 2


def test_what_cannot_be_done_is_one_line_and_a_code(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv]
    assert main(["topic", "create", "invoices", "--queues", "2", *at]) == 0
    for words, code, why in (
        (
            ["create", "invoices"],
            ExitCode.REFUSED,
            "topic 'invoices' exists already: broker-0 has 2 queues of it to read",
        ),
        (["create", "other", "--broker", "broker-9"], ExitCode.NOT_FOUND, "knows no broker 'broker-9'; "),
        (["create", "other", "--cluster", "mars"], ExitCode.NOT_FOUND, "knows no cluster 'mars'; known are: DefaultC"),
        (["create", "not a name"], ExitCode.REFUSED, "may only have letters, digits"),
        (["create", "bad\x1b[2Jname"], ExitCode.REFUSED, r"bad\x1b[2Jname"),
        (["create", "none", "--queues", "0"], ExitCode.USAGE, "0 is not in the range x>=1"),
        (["create", "none", "--queues", "65537"], ExitCode.USAGE, "topic 'none' cannot have 65537 queues on a broker"),
        (["create", "none", "--may", "fly"], ExitCode.USAGE, "'fly' is not one of"),
        (["create", "none", "--attribute", "fast"], ExitCode.USAGE, "'fast' is no attribute; write it as name=value"),
        (["create", "none", "--attribute", "fast=yes"], ExitCode.REFUSED, "unknown attribute 'fast'"),
        (["create", "TBW102"], ExitCode.REFUSED, "topic 'TBW102' exists already"),
        (
            ["delete", "invoces"],
            ExitCode.NOT_FOUND,
            "Did you mean 'invoices'? Create it with: steelyard topic create invo",
        ),
        (["delete", "invoices", "--cluster", "mars", "--yes"], ExitCode.NOT_FOUND, "knows no cluster 'mars'"),
        (["show", "invoces"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["route", "invoces"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["settings", "invoces"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["order", "invoces"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["add-queues", "invoces", "--to", "4"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["add-queues", "invoices", "--to", "1"], ExitCode.USAGE, "has 2 queues on a broker, and 1 would be fewer"),
        (["set", "invoces", "--may", "read"], ExitCode.NOT_FOUND, "Did you mean 'invoices'?"),
        (["set", "invoices"], ExitCode.USAGE, "no change of topic 'invoices'"),
        (["order", "invoices", "--fix", "broker-0"], ExitCode.USAGE, "--fix is 'broker-0'"),
        (["order", "invoices", "--fix", "broker-0:9"], ExitCode.USAGE, "broker-0 has 2 queues of topic 'invoices'"),
        (["order", "invoices", "--fix", "all", "--clear"], ExitCode.USAGE, "--fix and --clear exclude each other"),
    ):
        capsys.readouterr()
        assert main(["topic", *words, *at]) == code, words
        output = capsys.readouterr()
        assert why in output.err
        assert (output.out, output.err.count("\n")) == ("", 1)


def test_without_a_cluster_it_is_said_where_nobody_is(capsys: Captured) -> None:
    for words in (["ls"], ["show", "orders"], ["create", "orders"], ["delete", "orders", "--yes"]):
        assert main(["topic", *words, "--namesrv", "127.0.0.1:1", "--timeout", "0.2"]) == ExitCode.UNREACHABLE
        output = capsys.readouterr()
        assert "no name server of 127.0.0.1:1 was reached in 0.2 s" in output.err
        assert (output.out, output.err.count("\n")) == ("", 1)


def test_with_a_broker_down_the_rest_is_still_shown(capsys: Captured) -> None:
    with Cluster(brokers=2) as cluster:
        at = ["--namesrv", cluster.namesrv, "--json"]
        assert main(["topic", "create", "orders", "--queues", "2", *at]) == 0
        cluster.kill_broker("broker-1")
        capsys.readouterr()
        assert main(["topic", "show", "orders", *at]) == 0
        assert {json.loads(line)["broker"] for line in capsys.readouterr().out.splitlines()} == {"broker-0"}
        assert main(["topic", "ls", *at]) == 0
        assert [json.loads(line)["brokers"] for line in capsys.readouterr().out.splitlines()] == [["broker-0"]]
        assert main(["topic", "create", "fewer", "--queues", "1", *at]) == 0
        assert json.loads(capsys.readouterr().out)["brokers"] == ["broker-0"]
