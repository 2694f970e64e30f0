"""`steelyard cluster`: it is shown, measured and exported, and name servers keep settings and key-values."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.output import latency_figures
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from tests.cli.fake_apache import FakeServer, fake_apache

Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured) -> Any:
    """Return what was printed as JSON."""
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def orders(cluster: Cluster) -> Cluster:
    """Give a cluster where ten messages came in and a group is done with four of them."""
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 1)
        admin.topics.create("quiet", 1)
        producer.send_many([Message("orders", b"x")] * 10)
        admin.groups.create("billing")
        with PullConsumer(cluster.namesrv, group="billing", start_from="first") as consumer:
            consumer.subscribe("orders")
            got = 0
            while got < 10:
                got += len(consumer.poll(timeout_s=5))
        admin.offsets.reset(
            "billing", "orders", {each.queue: each.start for each in admin.topics.describe("orders").queues}
        )
    return cluster


def test_every_server_is_shown(orders: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", orders.namesrv]
    assert main(["cluster", "show", *at]) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["cluster", "broker", "id", "address", "version", "in/s", "out/s", "disk", "up"]
    assert [row[:5] for row in rows] == [
        ["DefaultCluster", name, "0", address, "5.5.0"] for name, address in orders.brokers.items()
    ]
    assert main(["cluster", "show", "--output", "json", *at]) == 0
    found = printed(capsys)
    assert {each["problem"] for each in found} == {None}
    assert sum(each["in_today"] for each in found) >= 10
    assert all(each["up"] >= 0 for each in found)


def test_throughput_is_shown_by_topic_and_group(orders: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", orders.namesrv]
    assert main(["cluster", "stats", "--output", "json", *at]) == 0
    found = {(each["topic"], each["group"]): each for each in printed(capsys)}
    assert found.keys() >= {("orders", "billing"), ("quiet", None)}
    busy, quiet = found["orders", "billing"], found["quiet", None]
    assert (busy["lag"], busy["in_day"], busy["out_day"]) == (10, 10, 10)
    assert busy["in_tps"] > 0
    assert (quiet["lag"], quiet["in_day"], quiet["out_day"]) == (None, 0, None)
    assert main(["cluster", "stats", "--active", *at]) == 0
    output = capsys.readouterr()
    assert "orders" in output.out
    assert "quiet" not in output.out
    assert output.err.startswith("all brokers: ")
    assert " in, 10 out; yesterday 0 in, 0 out" in output.err
    assert main(["cluster", "stats", "--topic", "quiet", "--json", *at]) == 0
    assert printed(capsys)["topic"] == "quiet"
    assert main(["cluster", "stats", "--brokers", "--output", "csv", *at]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "broker,id,in_tps,out_tps,in_today,out_today,in_yesterday,out_yesterday"
    assert len(lines) == 3


def test_latency_is_measured_for_each_broker(orders: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", orders.namesrv, "--output", "json"]
    assert main(["cluster", "latency", "--count", "5", "--size", "64", *at]) == 0
    found = printed(capsys)
    assert [(each["broker"], each["sent"], each["failed"]) for each in found] == [
        ("broker-0", 5, 0),
        ("broker-1", 5, 0),
    ]
    for each in found:
        assert 0 < each["min_ms"] <= each["avg_ms"] <= each["max_ms"]
        assert each["min_ms"] <= each["p99_ms"] <= each["max_ms"]
    assert main(["cluster", "latency", "--count", "2", "--broker", "broker-1", *at]) == 0
    assert [each["broker"] for each in printed(capsys)] == ["broker-1"]
    assert main(["cluster", "latency", "--count", "2", "--cluster", "mars", *at]) == ExitCode.NOT_FOUND


def test_a_broker_that_stores_nothing_is_reported_and_fails(capsys: Captured) -> None:
    with Cluster(brokers=2, broker_options=BrokerOptions(max_message_bytes=100)) as cluster:
        at = ["--namesrv", cluster.namesrv, "--output", "json"]
        assert main(["cluster", "latency", "--count", "3", "--size", "50", *at]) == 0
        assert [each["failed"] for each in printed(capsys)] == [0, 0]
        assert main(["cluster", "latency", "--count", "3", *at]) == ExitCode.FAILED
        found = printed(capsys)
        assert [(each["sent"], each["failed"], each["min_ms"]) for each in found] == [(0, 1, None)] * 2
        assert "broker-0 answered 13: the message is not acceptable" in found[0]["problem"]


def test_the_percentile_of_latencies_is_one_that_was_measured() -> None:
    for count, p99 in ((1, 1), (100, 99), (1_000, 990)):
        assert latency_figures(range(count, 0, -1))["p99_ms"] == p99
    assert set(latency_figures([]).values()) == {None}


def test_an_export_is_read_again_and_replaced_only_if_wanted(orders: Cluster, capsys: Captured, tmp_path: Path) -> None:
    at = ["--namesrv", orders.namesrv]
    there = tmp_path / "a" / "b"
    words = ["cluster", "export", "--to", str(there), *at]
    assert main([*words, "--output", "json"]) == 0
    files = {Path(each["file"]).name: each for each in printed(capsys)}
    assert sorted(files) == ["groups.json", "metrics.json", "settings.json", "topics.json"]
    assert sorted(path.name for path in there.iterdir()) == sorted(files), "and nothing beside"
    assert {each["topicName"] for each in json.loads((there / "topics.json").read_bytes())} >= {"orders", "quiet"}
    assert [each["groupName"] for each in json.loads((there / "groups.json").read_bytes())] == ["billing"]
    settings = json.loads((there / "settings.json").read_bytes())
    assert settings["brokers"]["broker-1"]["brokerName"] == "broker-1"
    metrics = json.loads((there / "metrics.json").read_bytes())
    assert metrics["taken_at"].endswith("Z")
    assert [each["broker"] for each in metrics["brokers"]] == ["broker-0", "broker-1"]

    assert main(["topic", "apply", str(there / "topics.json"), "--dry-run", "--output", "json", *at]) == 0
    assert {each["action"] for each in printed(capsys)} == {"keep"}
    assert main(words) == ExitCode.USAGE
    assert "topics.json, which would be replaced; if that is wanted, add --yes" in capsys.readouterr().err
    assert main([*words, "--yes"]) == 0
    (tmp_path / "file").write_text("in the way")
    assert main(["cluster", "export", "--to", str(tmp_path / "file" / "x"), *at]) == ExitCode.USAGE
    assert "cannot be written (not a directory); check the path" in capsys.readouterr().err


def test_name_servers_are_listed_and_set(cluster: Cluster, capsys: Captured) -> None:
    both = f"{cluster.namesrv};127.0.0.1:1"
    assert main(["cluster", "name-server", "ls", "--namesrv", both, "--output", "json"]) == 0
    listed = printed(capsys)
    assert [(each["address"], each["brokers"]) for each in listed] == [(cluster.namesrv, 2), ("127.0.0.1:1", None)]
    assert "127.0.0.1:1" in listed[1]["problem"]

    at = ["--namesrv", cluster.namesrv, "--output", "json"]
    assert main(["cluster", "name-server", "config", "show", *at]) == 0
    assert len(printed(capsys)) > 5
    for value in ("false", "true"):
        assert main(["cluster", "name-server", "config", "set", f"enableTopicList={value}", *at]) == 0
        assert printed(capsys) == [{"address": cluster.namesrv, "name": "enableTopicList", "value": value}]
        assert main(["cluster", "name-server", "config", "show", "enableTopicList", *at]) == 0
        assert printed(capsys)[0]["value"] == value


def test_values_are_kept_and_forgotten(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv]
    assert main(["cluster", "kv", "set", "deploy", "colour", "green", *at]) == 0
    assert capsys.readouterr().out == "colour in deploy is green\n"
    assert main(["cluster", "kv", "get", "deploy", "colour", *at]) == 0
    assert capsys.readouterr().out == "green\n"
    assert main(["cluster", "kv", "get", "deploy", "colour", "--json", *at]) == 0
    assert printed(capsys) == {"namespace": "deploy", "key": "colour", "value": "green"}
    assert main(["cluster", "kv", "ls", "deploy", "-o", "csv", *at]) == 0
    assert capsys.readouterr().out == "key,value\ncolour,green\n"
    assert main(["cluster", "kv", "delete", "deploy", "colour", *at]) == ExitCode.USAGE
    assert "'colour' in 'deploy' is 'green', and would be deleted; if that is" in capsys.readouterr().err
    assert main(["cluster", "kv", "delete", "deploy", "colour", "--yes", *at]) == 0
    assert main(["cluster", "kv", "ls", "deploy", "--output", "json", *at]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "[]"


def test_what_cannot_be_done_is_one_line_and_a_code(cluster: Cluster, capsys: Captured) -> None:
    at = ["--namesrv", cluster.namesrv]
    for words, code, why in (
        (["stats", "--topic", "nowhere"], ExitCode.NOT_FOUND, "topic 'nowhere' does not exist"),
        (["latency", "--broker", "broker-9"], ExitCode.NOT_FOUND, "knows no broker 'broker-9'"),
        (["latency", "--count", "0"], ExitCode.USAGE, "0 is not in the range"),
        (["latency", "--size", "99999999"], ExitCode.USAGE, "a message cannot have 99999999 bytes"),
        (["export"], ExitCode.USAGE, "Missing option '--to'"),
        (["name-server", "config", "show", "enableTopicLst"], ExitCode.NOT_FOUND, "Did you mean 'enableTopicList'?"),
        (
            ["name-server", "config", "set", "enableTopicList"],
            ExitCode.USAGE,
            "'enableTopicList' is no setting; write it as name=value",
        ),
        (
            ["name-server", "config", "set", "enableTopicList=maybe"],
            ExitCode.REFUSED,
            "is true or false, and not 'maybe'",
        ),
        (["name-server", "config", "set", "clusterTest=true"], ExitCode.REFUSED, "clusterTest cannot be changed"),
        (["name-server", "config", "set", "enableTopicList=a\nb"], ExitCode.USAGE, "a setting is one line"),
        (["kv", "get", "none", "key"], ExitCode.NOT_FOUND, "has no key 'key' in namespace 'none'"),
        (["kv", "delete", "none", "key", "--yes"], ExitCode.NOT_FOUND, "has no key 'key' in namespace 'none'"),
        (["kv", "set", "a\x1b[2J", "key", "value"], ExitCode.REFUSED, "control character"),
    ):
        capsys.readouterr()
        assert main(["cluster", *words, *at]) == code, words
        output = capsys.readouterr()
        assert why in output.err
        assert (output.out, output.err.count("\n")) == ("", 1)
    for words in (["show"], ["stats"], ["latency"], ["name-server", "ls"], ["kv", "ls", "a"]):
        assert main(["cluster", *words, "--namesrv", "127.0.0.1:1", "--timeout", "0.2"]) == ExitCode.UNREACHABLE
        assert "127.0.0.1:1" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_shown_with_its_problem(capsys: Captured) -> None:
    servers = {"broker-0": {0: FakeServer()}, "broker-1": {0: FakeServer(address="127.0.0.1:1")}}
    with fake_apache(servers) as namesrv:
        assert main(["cluster", "show", "--namesrv", namesrv]) == 0
        output = capsys.readouterr()
        assert output.out.splitlines()[2].split() == [*("main", "broker-1", "0", "127.0.0.1:1"), *"-----"]
        (problem,) = output.err.splitlines()
        assert problem.startswith("broker-1 (0) does not answer: ")
        assert "127.0.0.1:1" in problem


def test_what_is_set_at_name_servers_is_set_at_each_that_can_be_reached(capsys: Captured) -> None:
    with Cluster(brokers=1, name_servers=2) as cluster:
        both = ["--namesrv", f"{cluster.namesrv};127.0.0.1:1"]
        assert main(["cluster", "kv", "set", "deploy", "colour", "blue", *both]) == 0
        assert main(["cluster", "name-server", "config", "set", "enableTopicList=false", *both]) == 0
        capsys.readouterr()
        for address in cluster.namesrv.split(";"):
            at = ["--namesrv", address]
            assert main(["cluster", "kv", "get", "deploy", "colour", *at]) == 0
            assert capsys.readouterr().out == "blue\n"
            assert main(["cluster", "name-server", "config", "show", "enableTopicList", "--json", *at]) == 0
            assert printed(capsys)["value"] == "false"
