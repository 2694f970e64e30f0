"""`steelyard broker`: one broker in plain words, changed only as shown, and never out of service unasked."""

import json
from collections.abc import Callable

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.model import Message, Permission
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import response_to
from tests.cli.fake_apache import FakeServer, fake_apache

Captured = pytest.CaptureFixture[str]
Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def type_at(capsys: Captured) -> Type:
    """Return what types a command at a cluster and gives how it ends, what it answers and what it says."""

    def type_it(namesrv: str, *words: str) -> tuple[int, str, str]:
        code = main(["broker", *words, "--namesrv", namesrv])
        output = capsys.readouterr()
        return code, output.out, output.err

    return type_it


def test_brokers_are_listed_in_every_form(cluster: Cluster, type_at: Type) -> None:
    code, out, _ = type_at(cluster.namesrv, "ls")
    rows = [line.split() for line in out.splitlines()]
    assert (code, rows[1][:4]) == (0, ["broker-0", "DefaultCluster", cluster.brokers["broker-0"], "5.5.0"])
    assert rows[1][-1] == "%"
    reported = json.loads(type_at(cluster.namesrv, "ls", "--output", "json")[1])
    assert [(each["broker"], each["replicas"], each["problem"]) for each in reported] == [
        ("broker-0", {}, None),
        ("broker-1", {}, None),
    ]
    assert type_at(cluster.namesrv, "ls", "--output", "csv")[1].startswith("broker,cluster,address,version,up")
    code, _, output = type_at(cluster.namesrv, "ls", "--cluster", "DefaultClutser")
    assert (code, "did you mean 'DefaultCluster'?" in output) == (ExitCode.NOT_FOUND, True)


def test_a_broker_that_is_down_is_listed_with_its_problem_and_cannot_be_shown(type_at: Type) -> None:
    dead = FakeServer(address="127.0.0.1:1")
    with fake_apache({"broker-a": {0: FakeServer()}, "broker-b": {0: dead}, "broker-c": {}}) as namesrv:
        reported = [json.loads(line) for line in type_at(namesrv, "ls", "--json")[1].splitlines()]
        why = "127.0.0.1:1 cannot be reached (connection refused)"
        assert [each["problem"] for each in reported] == [None, why, "broker broker-c has no address"]
        assert type_at(namesrv, "ls")[2] == f"broker-b: {why}\nbroker-c: broker broker-c has no address\n"
        for words in (["show"], ["lag"], ["config", "show"]):
            for broker in ("broker-b", "broker-c"):
                assert type_at(namesrv, *words, broker)[:2] == (ExitCode.UNREACHABLE, "")


def test_one_broker_is_shown_in_words_and_in_values(cluster: Cluster, type_at: Type) -> None:
    shown = dict(line.split(maxsplit=1) for line in type_at(cluster.namesrv, "show", "broker-0")[1].splitlines())
    assert (shown["broker"], shown["version"], ", from 0 to " in shown["log"]) == ("broker-0", "5.5.0", True)
    reported = json.loads(type_at(cluster.namesrv, "show", "broker-0", "--output", "json")[1])
    assert (reported["id"], reported["page_cache_ms"], set(reported["in_tps"])) == (
        0,
        0,
        {"ten_seconds", "minute", "ten_minutes"},
    )
    assert shown["flushing"].startswith("every 500 ms, ")
    for key, end in (("last", "the directory was empty"), ("takes", "yes"), ("damaged", "0")):
        assert shown[key].endswith(f" {end}")
    assert (reported["flush"], reported["recovery"]["found"], reported["damages"], reported["refusal"]) == (
        "async",
        "nothing",
        0,
        None,
    )
    raw = dict(
        line.split(",", 1)
        for line in type_at(cluster.namesrv, "show", "broker-0", "--all", "--output", "csv")[1].splitlines()
    )
    assert raw["brokerVersionDesc"] == "V5_5_0"
    for words, why in ((["broker-7"], "known are: broker-0, broker-1"), (["broker-0", "--id", "3"], "known are: 0")):
        code, _, output = type_at(cluster.namesrv, "show", *words)
        assert (code, why in output) == (ExitCode.NOT_FOUND, True)


def test_of_a_foreign_broker_no_more_is_shown_than_it_reports(type_at: Type) -> None:
    with fake_apache({"broker-a": {0: FakeServer()}}) as namesrv:
        reported = json.loads(type_at(namesrv, "show", "broker-a", "--output", "json")[1])
        assert [reported[key] for key in ("disk_bytes", "flush", "recovery", "damages", "refusal")] == [None] * 5
        shown = type_at(namesrv, "show", "broker-a")[1].splitlines()
        assert {line.split()[-1] for line in shown if line.startswith(("flushing", "last start", "takes"))} == {"-"}


def test_lag_is_by_topic_or_by_queue(cluster: Cluster, type_at: Type) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("lagging", 2, brokers=["broker-1"])
        admin.groups.create("slow")
        admin.offsets.reset("slow", "lagging", "first")
        for _ in range(3):
            producer.send(Message("lagging", b"x"), key="same")
    row = json.loads(type_at(cluster.namesrv, "lag", "broker-1", "--group", "slow", "--json")[1])
    assert {key: row[key] for key in ("topic", "queues", "end", "committed", "lag")} == {
        "topic": "lagging",
        "queues": 2,
        "end": 3,
        "committed": 0,
        "lag": 3,
    }
    by_queue = type_at(cluster.namesrv, "lag", "broker-1", "--queues", "--topic", "lagging", "--over", "0", "--json")[1]
    assert [json.loads(line)["lag"] for line in by_queue.splitlines()] == [3]
    assert type_at(cluster.namesrv, "lag", "broker-0", "--output", "json")[1] == "[]\n"


def test_settings_are_changed_as_shown_and_never_by_mistake(type_at: Type) -> None:
    with Cluster(brokers=2) as cluster:
        at = cluster.namesrv
        change = ["config", "set", "broker-0", "flushDiskType=SYNC_FLUSH", "--output", "csv"]
        table = "broker,name,before,after\nbroker-0,flushDiskType,ASYNC_FLUSH,SYNC_FLUSH\n"
        assert type_at(at, *change, "--dry-run") == (0, table, "nothing was changed\n")
        assert type_at(at, *change) == (0, table, "")
        differs = type_at(at, "config", "show", "broker-0", "flush*", "--differs", "--output", "csv")[1]
        assert differs == "name,value,broker-1\nflushDiskType,SYNC_FLUSH,ASYNC_FLUSH\n"
        assert type_at(at, *change, "--everywhere")[0] == ExitCode.USAGE
        assert type_at(at, *change, "--everywhere", "--yes")[1].splitlines()[2] == (
            "broker-1,flushDiskType,ASYNC_FLUSH,SYNC_FLUSH"
        )
        for words, ends, why in (
            (["set", "broker-0", "flushDisk=1"], ExitCode.NOT_FOUND, "Did you mean 'flushDiskType'?"),
            (["set", "broker-0", "flushDiskType"], ExitCode.USAGE, "write it as name=value"),
            (["set", "broker-0", "flushDiskType=NEVER"], ExitCode.REFUSED, "broker-0 refuses: flushDiskType cannot be"),
            (["set", "broker-0", "brokerName=x"], ExitCode.REFUSED, "cannot be changed while the broker runs"),
            (["show", "broker-0", "flushDiskTyp"], ExitCode.NOT_FOUND, "Did you mean 'flushDiskType'?"),
        ):
            code, out, output = type_at(at, "config", *words)
            assert (code, out, why in output) == (ends, "", True), output


def test_passwords_among_settings_stay_hidden_until_they_are_asked_for(type_at: Type) -> None:
    server = FakeServer(
        settings={"initAuthenticationUser": '{"username":"a","password":"b"}', "brokerName": "broker-a"}
    )
    with fake_apache({"broker-a": {0: server}}) as namesrv:
        assert '"b"' not in type_at(namesrv, "config", "show", "broker-a")[1]
        assert "(hidden)" in type_at(namesrv, "config", "show", "broker-a")[1]
        assert '"b"' in type_at(namesrv, "config", "show", "broker-a", "--reveal")[1]


def test_a_setting_that_did_not_become_what_was_said_is_noticed(type_at: Type) -> None:
    server = FakeServer(settings={"maxMessageSize": "1"})
    server.answers[Code.UPDATE_BROKER_CONFIG] = response_to
    with fake_apache({"broker-a": {0: server}}) as namesrv:
        code, _, output = type_at(namesrv, "config", "set", "broker-a", "maxMessageSize=2")
    assert (code, output) == (0, "maxMessageSize=2 was set on broker-a, which reports 1\n")


def test_a_broker_goes_out_of_service_only_if_that_is_said(type_at: Type) -> None:
    with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 2)
        code, _, output = type_at(cluster.namesrv, "stop-writes", "broker-0")
        assert (code, "and write only to broker-1; if that is wanted, add --yes" in output) == (ExitCode.USAGE, True)
        assert all(count.permission & Permission.WRITE for count in admin.topics.describe("orders").counts)
        code, out, output = type_at(cluster.namesrv, "stop-writes", "broker-0", "--yes", "--json")
        assert (code, json.loads(out)["problem"], "clients learn of it within 30 s" in output) == (0, None, True)
        writable = {
            count.broker: bool(count.permission & Permission.WRITE) for count in admin.topics.describe("orders").counts
        }
        assert writable == {"broker-0": False, "broker-1": True}
        assert type_at(cluster.namesrv, "allow-writes", "broker-0")[0] == 0
        assert all(count.permission & Permission.WRITE for count in admin.topics.describe("orders").counts)
        assert type_at(cluster.namesrv, "stop-writes", "broker-5", "--yes")[0] == ExitCode.NOT_FOUND
    with Cluster(brokers=1) as alone:
        assert "no other broker is there to write to" in type_at(alone.namesrv, "stop-writes", "broker-0")[2]


def test_a_name_server_that_was_not_updated_makes_it_a_failure(cluster: Cluster, type_at: Type) -> None:
    code, out, _ = type_at(f"{cluster.namesrv};127.0.0.1:1", "allow-writes", "broker-1", "--json")
    reported = [json.loads(line) for line in out.splitlines()]
    assert (code, reported[0]["problem"], "127.0.0.1:1" in reported[1]["problem"]) == (ExitCode.FAILED, None, True)


def test_writing_is_not_allowed_to_read_only_topics_unasked(type_at: Type, capsys: Captured) -> None:
    with Cluster(brokers=1) as cluster:
        assert main(["topic", "create", "archive", "--may", "read", "--namesrv", cluster.namesrv]) == 0
        capsys.readouterr()
        code, _, output = type_at(cluster.namesrv, "allow-writes", "broker-0")
        assert (code, "read-only by their own settings: archive" in output) == (ExitCode.USAGE, True)
        assert type_at(cluster.namesrv, "allow-writes", "broker-0", "--yes")[0] == 0


def test_cleaning_says_what_and_waits_for_a_yes(cluster: Cluster, type_at: Type) -> None:
    assert type_at(cluster.namesrv, "clean", "broker-0")[2].endswith("give --log, --indexes or --topics\n")
    code, _, output = type_at(cluster.namesrv, "clean", "broker-0", "--log")
    assert (code, "(it keeps them for 72 hours), at once" in output) == (ExitCode.USAGE, True)
    reported = json.loads(type_at(cluster.namesrv, "clean", "broker-0", "--log", "--topics", "--yes", "--json")[1])
    assert reported == {"broker": "broker-0", "cleaned": ["log", "topics"], "freed_bytes": 0}
