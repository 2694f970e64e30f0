"""`steelyard topic`: topics are listed, made and deleted, and nothing is lost without a word."""

import json

import pytest

from steelyard.cli.frame.exits import Exit
from steelyard.cli.main import main
from steelyard.client.blocking.admin import Admin
from steelyard.client.blocking.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster


def test_a_topic_is_made_listed_and_deleted(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--namesrv", cluster.namesrv]
    for _ in range(2):  # the second time it is there already, as wanted
        assert main(["topic", "create", "orders", "--queues", "16", *at]) == 0
        assert capsys.readouterr().out == "topic orders has 32 queues on broker-0, broker-1\n"
    assert main(["topic", "create", "here", "--queues", "2", "--broker", "broker-1", *at]) == 0
    assert capsys.readouterr().out == "topic here has 2 queues on broker-1\n"

    assert main(["topic", "ls", *at]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["topic", "queues", "brokers", "clients", "may", "kind"]
    assert ["orders", "32", "broker-0,", "broker-1", "read", "and", "write", "users"] in rows
    assert main(["topic", "ls", "--json", "--system", *at]) == 0
    listed = {each["name"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert listed["here"] == {"name": "here", "kind": "users", "queues": 2, "brokers": ["broker-1"], "permission": 6}
    assert listed["TBW102"]["kind"] == "system"

    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message("orders", b"x")] * 3)
    assert main(["topic", "delete", "orders", *at]) == Exit.USAGE
    said = capsys.readouterr().err
    assert said == (
        "steelyard: topic 'orders' has 3 messages, and they would be gone with it; if they may go, say --yes\n"
    )
    assert main(["topic", "delete", "orders", "--yes", *at]) == 0
    assert capsys.readouterr().out == "topic orders is deleted, with 3 messages\n"
    with Admin(cluster.namesrv) as admin:
        assert "orders" not in {each.name for each in admin.topics()}


def test_what_cannot_be_done_is_one_line_and_a_code(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--namesrv", cluster.namesrv]
    assert main(["topic", "create", "invoices", "--queues", "2", *at]) == 0
    for words, code, why in (
        (["create", "invoices"], Exit.REFUSED, "topic 'invoices' exists already: broker-0 has 2 queues of it to read"),
        (
            ["create", "other", "--broker", "broker-9"],
            Exit.NOT_FOUND,
            "knows no broker 'broker-9'; known are: broker-0",
        ),
        (["create", "not a name"], Exit.REFUSED, "may only have letters, digits"),
        (["create", "none", "--queues", "0"], Exit.USAGE, "0 is not in the range x>=1"),
        (
            ["delete", "invoces"],
            Exit.NOT_FOUND,
            "Did you mean 'invoices'? Create it with: steelyard topic create invoces",
        ),
    ):
        capsys.readouterr()
        assert main(["topic", *words, *at]) == code
        said = capsys.readouterr()
        assert why in said.err
        assert (said.out, said.err.count("\n")) == ("", 1)
