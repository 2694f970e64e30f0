"""`steelyard broker`: one broker in plain words, changed only as shown, and never out of service unasked."""

import json
from collections.abc import Callable, Iterator

import pytest
from tests.cli.stand_in import Server, apache

from steelyard.cli.frame.exits import Exit
from steelyard.cli.main import main
from steelyard.client.blocking.admin import Admin
from steelyard.client.blocking.producer import Producer
from steelyard.model import Message, Permission
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.settings_text import decode_settings
from steelyard.wire.bodies.upkeep import ColdReader, ColdReads, IndexCheck
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.upkeep import AddBroker, CheckIndex, FlushOffset, ReadAhead, RemoveBroker

Captured = pytest.CaptureFixture[str]
Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def type_at(capsys: Captured) -> Type:
    """Return what types a command at a cluster and gives how it ends, what it answers and what it says."""

    def type_it(namesrv: str, *words: str) -> tuple[int, str, str]:
        code = main(["broker", *words, "--namesrv", namesrv])
        said = capsys.readouterr()
        return code, said.out, said.err

    return type_it


def test_brokers_are_listed_in_every_form(cluster: Cluster, type_at: Type) -> None:
    code, out, _ = type_at(cluster.namesrv, "ls")
    rows = [line.split() for line in out.splitlines()]
    assert (code, rows[1][:4]) == (0, ["broker-0", "DefaultCluster", cluster.brokers["broker-0"], "5.5.0"])
    assert rows[1][-1] == "%"
    told = json.loads(type_at(cluster.namesrv, "ls", "--output", "json")[1])
    assert [(each["broker"], each["replicas"], each["problem"]) for each in told] == [
        ("broker-0", {}, None),
        ("broker-1", {}, None),
    ]
    assert type_at(cluster.namesrv, "ls", "--output", "csv")[1].startswith("broker,cluster,address,version,up")
    code, _, said = type_at(cluster.namesrv, "ls", "--cluster", "DefaultClutser")
    assert (code, "did you mean 'DefaultCluster'?" in said) == (Exit.NOT_FOUND, True)


def test_a_broker_that_is_down_is_listed_with_its_problem_and_cannot_be_shown(type_at: Type) -> None:
    dead = Server(address="127.0.0.1:1")
    with apache({"broker-a": {0: Server()}, "broker-b": {0: dead}, "broker-c": {}}) as namesrv:
        told = [json.loads(line) for line in type_at(namesrv, "ls", "--json")[1].splitlines()]
        why = "127.0.0.1:1 cannot be reached (connection refused)"
        assert [each["problem"] for each in told] == [None, why, "broker broker-c has no address"]
        assert type_at(namesrv, "ls")[2] == f"broker-b: {why}\nbroker-c: broker broker-c has no address\n"
        for words in (["show"], ["lag"], ["probe"], ["epochs"], ["config", "show"], ["cold-reads", "show"]):
            for broker in ("broker-b", "broker-c"):
                assert type_at(namesrv, *words, broker)[:2] == (Exit.UNREACHABLE, "")
        replicas = json.loads(type_at(namesrv, "replicas", "broker-b", "--json")[1])
        assert (replicas["log_end"], replicas["problem"]) == (None, why)


def test_one_broker_is_shown_in_words_and_in_values(cluster: Cluster, type_at: Type) -> None:
    shown = dict(line.split(maxsplit=1) for line in type_at(cluster.namesrv, "show", "broker-0")[1].splitlines())
    assert (shown["broker"], shown["version"], ", from 0 to " in shown["log"]) == ("broker-0", "5.5.0", True)
    told = json.loads(type_at(cluster.namesrv, "show", "broker-0", "--output", "json")[1])
    assert (told["id"], told["page_cache_ms"], set(told["in_tps"])) == (
        0,
        0,
        {"ten_seconds", "minute", "ten_minutes"},
    )
    assert shown["flushing"].startswith("every 500 ms, ")
    for key, end in (("last", "the directory was empty"), ("takes", "yes"), ("damaged", "0")):
        assert shown[key].endswith(f" {end}")
    assert (told["flush"], told["recovery"]["found"], told["damages"], told["refusal"]) == ("async", "nothing", 0, None)
    raw = dict(
        line.split(",", 1)
        for line in type_at(cluster.namesrv, "show", "broker-0", "--all", "--output", "csv")[1].splitlines()
    )
    assert raw["brokerVersionDesc"] == "V5_5_0"
    for words, why in ((["broker-7"], "known are: broker-0, broker-1"), (["broker-0", "--id", "3"], "known are: 0")):
        code, _, said = type_at(cluster.namesrv, "show", *words)
        assert (code, why in said) == (Exit.NOT_FOUND, True)


def test_of_a_foreign_broker_no_more_is_shown_than_it_tells(type_at: Type) -> None:
    with apache({"broker-a": {0: Server()}}) as namesrv:
        told = json.loads(type_at(namesrv, "show", "broker-a", "--output", "json")[1])
        assert [told[key] for key in ("disk_bytes", "flush", "recovery", "damages", "refusal")] == [None] * 5
        shown = type_at(namesrv, "show", "broker-a")[1].splitlines()
        assert {line.split()[-1] for line in shown if line.startswith(("flushing", "last start", "takes"))} == {"-"}


def test_lag_is_by_topic_or_by_queue(cluster: Cluster, type_at: Type) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("lagging", 2, brokers=["broker-1"])
        admin.create_group("slow")
        admin.reset_offsets("slow", "lagging", "first")
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


def test_a_probe_tells_how_long_stores_take(cluster: Cluster, type_at: Type) -> None:
    told = json.loads(type_at(cluster.namesrv, "probe", "broker-0", "--count", "5", "--size", "64", "--json")[1])
    assert (told["messages"], told["size_bytes"]) == (5, 64)
    assert 0 < told["min_ms"] <= told["avg_ms"] <= told["max_ms"]
    each = type_at(cluster.namesrv, "probe", "broker-0", "--count", "3", "--each", "--output", "csv")[1]
    assert [line.split(",")[0] for line in each.splitlines()] == ["number", "1", "2", "3"]
    assert type_at(cluster.namesrv, "probe", "broker-9")[0] == Exit.NOT_FOUND


def test_settings_are_changed_as_shown_and_never_by_mistake(type_at: Type) -> None:
    with Cluster(brokers=2) as cluster:
        at = cluster.namesrv
        change = ["config", "set", "broker-0", "flushDiskType=SYNC_FLUSH", "--output", "csv"]
        table = "broker,name,before,after\nbroker-0,flushDiskType,ASYNC_FLUSH,SYNC_FLUSH\n"
        assert type_at(at, *change, "--dry-run") == (0, table, "nothing was changed\n")
        assert type_at(at, *change) == (0, table, "")
        differs = type_at(at, "config", "show", "broker-0", "flush*", "--differs", "--output", "csv")[1]
        assert differs == "name,value,broker-1\nflushDiskType,SYNC_FLUSH,ASYNC_FLUSH\n"
        assert type_at(at, *change, "--everywhere")[0] == Exit.USAGE
        assert type_at(at, *change, "--everywhere", "--yes")[1].splitlines()[2] == (
            "broker-1,flushDiskType,ASYNC_FLUSH,SYNC_FLUSH"
        )
        for words, ends, why in (
            (["set", "broker-0", "flushDisk=1"], Exit.NOT_FOUND, "Did you mean 'flushDiskType'?"),
            (["set", "broker-0", "flushDiskType"], Exit.USAGE, "write it as name=value"),
            (["set", "broker-0", "flushDiskType=NEVER"], Exit.REFUSED, "broker-0 refuses: flushDiskType cannot be"),
            (["set", "broker-0", "brokerName=x"], Exit.REFUSED, "cannot be changed while the broker runs"),
            (["show", "broker-0", "flushDiskTyp"], Exit.NOT_FOUND, "Did you mean 'flushDiskType'?"),
        ):
            code, out, said = type_at(at, "config", *words)
            assert (code, out, why in said) == (ends, "", True), said


def test_passwords_among_settings_stay_hidden_until_they_are_asked_for(type_at: Type) -> None:
    server = Server(settings={"initAuthenticationUser": '{"username":"a","password":"b"}', "brokerName": "broker-a"})
    with apache({"broker-a": {0: server}}) as namesrv:
        assert '"b"' not in type_at(namesrv, "config", "show", "broker-a")[1]
        assert "(hidden)" in type_at(namesrv, "config", "show", "broker-a")[1]
        assert '"b"' in type_at(namesrv, "config", "show", "broker-a", "--reveal")[1]


def test_a_setting_that_did_not_become_what_was_said_is_noticed(type_at: Type) -> None:
    server = Server(settings={"maxMessageSize": "1"})
    server.answers[Code.UPDATE_BROKER_CONFIG] = answer_to
    with apache({"broker-a": {0: server}}) as namesrv:
        code, _, said = type_at(namesrv, "config", "set", "broker-a", "maxMessageSize=2")
    assert (code, said) == (0, "broker-a was told maxMessageSize=2, and says 1\n")


def test_a_broker_goes_out_of_service_only_if_that_is_said(type_at: Type) -> None:
    with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
        admin.create_topic("orders", 2)
        code, _, said = type_at(cluster.namesrv, "stop-writes", "broker-0")
        assert (code, "and write only to broker-1; if that is wanted, say --yes" in said) == (Exit.USAGE, True)
        assert all(count.permission & Permission.WRITE for count in admin.topic("orders").counts)
        code, out, said = type_at(cluster.namesrv, "stop-writes", "broker-0", "--yes", "--json")
        assert (code, json.loads(out)["problem"], "clients learn of it within 30 s" in said) == (0, None, True)
        writable = {count.broker: bool(count.permission & Permission.WRITE) for count in admin.topic("orders").counts}
        assert writable == {"broker-0": False, "broker-1": True}
        assert type_at(cluster.namesrv, "allow-writes", "broker-0")[0] == 0
        assert all(count.permission & Permission.WRITE for count in admin.topic("orders").counts)
        assert type_at(cluster.namesrv, "stop-writes", "broker-5", "--yes")[0] == Exit.NOT_FOUND
    with Cluster(brokers=1) as alone:
        assert "no other broker is there to write to" in type_at(alone.namesrv, "stop-writes", "broker-0")[2]


def test_a_name_server_that_was_not_told_makes_it_a_failure(cluster: Cluster, type_at: Type) -> None:
    code, out, _ = type_at(f"{cluster.namesrv};127.0.0.1:1", "allow-writes", "broker-1", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert (code, told[0]["problem"], "127.0.0.1:1" in told[1]["problem"]) == (Exit.FAILED, None, True)


def test_writing_is_not_allowed_to_read_only_topics_unasked(type_at: Type, capsys: Captured) -> None:
    with Cluster(brokers=1) as cluster:
        assert main(["topic", "create", "archive", "--may", "read", "--namesrv", cluster.namesrv]) == 0
        capsys.readouterr()
        code, _, said = type_at(cluster.namesrv, "allow-writes", "broker-0")
        assert (code, "read-only by their own settings: archive" in said) == (Exit.USAGE, True)
        assert type_at(cluster.namesrv, "allow-writes", "broker-0", "--yes")[0] == 0


def test_cleaning_says_what_and_waits_for_a_yes(cluster: Cluster, type_at: Type) -> None:
    assert type_at(cluster.namesrv, "clean", "broker-0")[2].endswith("say what: --log, --indexes or --topics\n")
    code, _, said = type_at(cluster.namesrv, "clean", "broker-0", "--log")
    assert (code, "(it keeps them for 72 hours), at once" in said) == (Exit.USAGE, True)
    told = json.loads(type_at(cluster.namesrv, "clean", "broker-0", "--log", "--topics", "--yes", "--json")[1])
    assert told == {"broker": "broker-0", "cleaned": ["log", "topics"], "freed_bytes": 0}


def test_our_brokers_say_what_they_do_not_do(cluster: Cluster, type_at: Type) -> None:
    for words, why in (
        (["epochs", "broker-0"], "broker-0 has no epochs"),
        (["cold-reads", "show", "broker-0"], "does not hold back reads from disk"),
        (["cold-reads", "set", "broker-0", "g", "1"], "does not hold back reads from disk"),
        (["cold-reads", "clear", "broker-0", "g"], "does not hold back reads from disk"),
        (["read-ahead", "broker-0", "off"], "cannot be told how to read ahead"),
        (["check-index", "broker-0", "--topic", "orders"], "has only one kind of index"),
        (["container", "add", cluster.namesrv, "/x"], "is no container"),
        (["container", "remove", cluster.namesrv, "broker-0", "--yes"], "is no container"),
    ):
        code, out, said = type_at(cluster.namesrv, *words)
        assert (code, out, why in said) == (Exit.REFUSED, "", True), said


# -- what only Apache's do --------------------------------------------------------------------------------------------


class Newer(Server):
    """A broker of 5.5.0, which takes what our own does not."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, int] = {}
        self.mode = 0
        self.flushed = -1
        self.checked = ""
        self.answers |= {
            Code.GET_COLD_DATA_FLOW_CTR_INFO: self._reads,
            Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self._limit,
            Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self._unlimit,
            Code.SET_COMMITLOG_READ_MODE: self._mode,
            Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: self._check,
            Code.RESET_MASTER_FLUSH_OFFSET: self._flush,
            Code.ADD_BROKER: self._contain,
            Code.REMOVE_BROKER: self._contain,
        }
        self.contained: list[object] = []

    def _reads(self, asked: Command) -> Command:
        reader = ColdReader(read_bytes=77, read_ms=1_794_835_095_846)
        return answer_to(asked, body=encode_body(ColdReads(group_limit=3, limits=self.limits, readers={"old": reader})))

    def _limit(self, asked: Command) -> Command:
        self.limits |= {group: int(limit) for group, limit in decode_settings(asked.body).items()}
        return answer_to(asked)

    def _unlimit(self, asked: Command) -> Command:
        self.limits.pop(asked.body.decode(), None)
        return answer_to(asked)

    def _mode(self, asked: Command) -> Command:
        self.mode = asked.header(ReadAhead).mode
        return answer_to(asked)

    def _check(self, asked: Command) -> Command:
        self.checked = asked.header(CheckIndex).topic
        return answer_to(asked, body=encode_body(IndexCheck(status=2)))

    def _flush(self, asked: Command) -> Command:
        self.flushed = asked.header(FlushOffset).master_flush_offset
        return answer_to(asked)

    def _contain(self, asked: Command) -> Command:
        self.contained.append(asked.header(AddBroker if asked.code == Code.ADD_BROKER else RemoveBroker))
        return answer_to(asked)


@pytest.fixture
def newer() -> Iterator[tuple[str, Newer, Newer]]:
    master, replica = Newer(), Newer()
    with apache({"broker-a": {0: master, 1: replica}}) as namesrv:
        yield namesrv, master, replica


def test_a_group_that_reads_from_disk_is_limited(newer: tuple[str, Newer, Newer], type_at: Type) -> None:
    namesrv, master, _ = newer
    assert type_at(namesrv, "cold-reads", "set", "broker-a", "reports", "4194304")[1] == (
        "group reports may read 4.0 MiB from disk on broker-a within a few seconds\n"
    )
    rows = type_at(namesrv, "cold-reads", "show", "broker-a", "--output", "csv")[1].splitlines()
    assert rows[1:] == ["old,3,false,77,2026-11-16T13:18:15.846Z", "reports,4194304,true,,"]
    assert type_at(namesrv, "cold-reads", "clear", "broker-a", "reports")[0] == 0
    assert master.limits == {}


def test_reading_ahead_is_switched_on_each_process(newer: tuple[str, Newer, Newer], type_at: Type) -> None:
    namesrv, master, replica = newer
    assert type_at(namesrv, "read-ahead", "broker-a", "off", "--id", "1")[0] == 0
    assert (master.mode, replica.mode) == (0, 1)
    assert type_at(namesrv, "read-ahead", "broker-a", "on", "--id", "1", "--json")[1] == (
        '{"broker":"broker-a","read_ahead":true}\n'
    )
    assert replica.mode == 0
    assert type_at(namesrv, "read-ahead", "broker-a", "maybe")[0] == Exit.USAGE


def test_indexes_are_compared_in_the_brokers_own_time(newer: tuple[str, Newer, Newer], type_at: Type) -> None:
    namesrv, master, _ = newer
    code, out, said = type_at(namesrv, "check-index", "broker-a", "--topic", "orders", "--json")
    assert (code, json.loads(out)["indexes"], master.checked) == (0, "being compared", "orders")
    assert said == "broker-a writes into its own log what it finds\n"
    assert type_at(namesrv, "check-index", "broker-a")[0] == Exit.USAGE


def test_only_a_replica_is_told_what_its_master_has_flushed(newer: tuple[str, Newer, Newer], type_at: Type) -> None:
    namesrv, master, replica = newer
    assert type_at(namesrv, "flush-offset", "broker-a", "--id", "1", "--to", "900")[0] == Exit.USAGE
    assert type_at(namesrv, "flush-offset", "broker-a", "--id", "1", "--to", "900", "--yes")[0] == 0
    assert type_at(namesrv, "flush-offset", "broker-a", "--id", "0", "--to", "900", "--yes")[0] == Exit.USAGE
    assert (master.flushed, replica.flushed) == (-1, 900)


def test_a_container_is_told_to_run_a_broker_and_to_stop_it(newer: tuple[str, Newer, Newer], type_at: Type) -> None:
    namesrv, master, _ = newer
    assert type_at(namesrv, "container", "add", master.address, "/etc/b.conf")[0] == 0
    code, _, said = type_at(namesrv, "container", "remove", master.address, "broker-a")
    assert (code, f"{master.address} would stop broker broker-a (id 0) of main" in said) == (Exit.USAGE, True)
    assert type_at(namesrv, "container", "remove", master.address, "broker-a", "--id", "1", "--yes")[0] == 0
    assert master.contained == [AddBroker("/etc/b.conf"), RemoveBroker("main", "broker-a", 1)]
