"""The doctor names causes: a table of what was seen, and what is said about it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.doctor import diagnose
from steelyard.client.admin.brokers import BrokerReports, BrokerStatus, LogDamage
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.client.cluster_facts import ClusterFacts, GroupHealthFacts, broker_facts, identify_server
from steelyard.diagnostics.group import ProgressSample, WaitingQueue
from steelyard.diagnostics.machine import MachineFacts, diagnose_machine
from steelyard.diagnostics.servers import (
    BrokerFacts,
    ConnectOutcome,
    ConnectProbe,
    NameServerFacts,
    ServerKind,
    diagnose_brokers,
    diagnose_name_servers,
)
from steelyard.diagnostics.topic import TopicFacts, diagnose_topic
from steelyard.model import BrokerAddresses, Queue
from steelyard.model.finding import Finding, Severity
from tests.cli.parsing import complaint_about

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
OPEN = ConnectProbe(ConnectOutcome.OPEN, 1)
HERE = MachineFacts(python="3.11.7", system="Linux x86_64", release="1.0", address="localhost:9876")


def findings_text(findings: Sequence[Finding]) -> str:
    """Return findings as one text; a command that one of them names is one that we have."""
    for each in findings:
        for line in re.findall(r"steelyard [a-z][^;]*", each.next_step):
            assert complaint_about(line) is None
    return "\n".join(f"{each.severity.value} {each.subject}: {each.message} -> {each.next_step}" for each in findings)


def names(address: str, *brokers: str, host: str = "10.0.0.1") -> NameServerFacts:
    """Return a name server that works, and whose brokers are at one host."""
    places = {name: BrokerAddresses(name, "c", {0: f"{host}:10911"}) for name in brokers}
    return NameServerFacts(address, ("10.0.0.9",), "", OPEN, ServerKind.NAME_SERVER, took_ms=2, brokers=places)


# -- name servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (NameServerFacts("mq:9876", no_ip="name or service not known"), "the name mq has no address here"),
        (
            NameServerFacts("mq:9876", ("10.0.0.1",), dialled=ConnectProbe(ConnectOutcome.REFUSED, 1)),
            "nothing listens at port 9876",
        ),
        (
            NameServerFacts("mq:9876", ("10.0.0.1",), dialled=ConnectProbe(ConnectOutcome.TIMED_OUT, 1, "no answer")),
            "firewall",
        ),
        (
            NameServerFacts("mq:9876", ("10.0.0.1",), dialled=ConnectProbe(ConnectOutcome.UNREACHABLE, 1, "no route")),
            "no route to 10.0.0.1",
        ),
        (
            NameServerFacts("mq:9876", ("10.0.0.1",), dialled=ConnectProbe(ConnectOutcome.FAILED, 1, "odd")),
            "no connection to port 9876",
        ),
        *(
            (NameServerFacts("mq:9876", ("10.0.0.1",), dialled=OPEN, kind=kind), words)
            for kind, words in {
                ServerKind.BROKER: "a broker answers there, and no name server",
                ServerKind.STRANGER: "no name server, such as a controller",
                ServerKind.HTTP: "a web server answers there",
                ServerKind.HTTP2: "gRPC",
                ServerKind.TLS: "add --tls",
                ServerKind.PLAIN: "leave --tls out",
                ServerKind.DISTRUSTED: "--tls-ca FILE",
                ServerKind.MUTE: "nothing answers",
                ServerKind.HANGS_UP: "closes them at once",
                ServerKind.WANTS_CERTIFICATE: "requires client certificates",
                ServerKind.UNKNOWN: "does not speak the protocol",
            }.items()
        ),
    ],
)
def test_every_way_in_which_a_name_server_fails_has_a_sentence_of_its_own(seen: NameServerFacts, words: str) -> None:
    (finding,) = diagnose_name_servers([seen])
    assert finding.severity is Severity.ERROR
    assert words in findings_text([finding])
    assert finding.next_step


def test_name_servers_that_agree_are_well() -> None:
    found = list(diagnose_name_servers([names("n1:9876", "a", "b"), names("n2:9876", "a", "b")]))
    assert {each.severity for each in found} == {Severity.OK}
    assert "all 2 agree" in findings_text(found)


def test_name_servers_that_disagree_are_named() -> None:
    missing = findings_text(list(diagnose_name_servers([names("n1:9876", "a", "b"), names("n2:9876", "a")])))
    assert "warning broker b: n2:9876 does not know it, other name servers do" in missing
    other = findings_text(list(diagnose_name_servers([names("n1:9876", "a"), names("n2:9876", "a", host="10.0.0.2")])))
    assert "error broker a: name servers have different addresses for it: 10.0.0.1:10911 and 10.0.0.2:10911" in other


def test_a_cluster_without_a_broker_is_wrong() -> None:
    assert "error brokers: no broker is registered -> start one with namesrvAddr=n1:9876" in findings_text(
        list(diagnose_name_servers([names("n1:9876")]))
    )


@pytest.mark.parametrize(
    ("received", "hung_up", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request", True, ServerKind.HTTP),
        (b"<!DOCTYPE html>", True, ServerKind.HTTP),
        (b"\x15\x03\x03\x00\x02\x02\x28", True, ServerKind.TLS),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", False, ServerKind.HTTP2),
        (b"", True, ServerKind.HANGS_UP),
        (b"", False, ServerKind.MUTE),
        (b"SSH-2.0-OpenSSH_9.6", False, ServerKind.UNKNOWN),
    ],
)
def test_who_speaks_is_known_by_the_first_bytes(received: bytes, hung_up: bool, kind: ServerKind) -> None:
    assert identify_server(received, hung_up=hung_up) is kind


@given(st.binary(max_size=300), st.booleans())
def test_whatever_speaks_is_named(received: bytes, hung_up: bool) -> None:
    assert isinstance(identify_server(received, hung_up=hung_up), ServerKind)


# -- brokers ----------------------------------------------------------------------------------------------------------

WELL = BrokerStatus("a", "c", {0: "10.0.0.1:10911"}, version="V4_9_7", disk_used=0.2)


def broker(
    address: str = "10.0.0.1:10911",
    door: ConnectProbe = OPEN,
    *,
    state: BrokerStatus = WELL,
    clock_ahead_s: float = 0.0,
    may_write: bool = True,
) -> BrokerFacts:
    """Return a broker that is well, but for what is said."""
    known = BrokerFacts(name="a", dialled={address: door}, clock_ahead_s=clock_ahead_s, may_write=may_write)
    return broker_facts(state, known)


@pytest.mark.parametrize(
    ("seen", "mark", "words"),
    [
        (broker(), Severity.OK, "10.0.0.1:10911 opens in 1 ms, release 4.9.7, disk 20 % full, clock in sync"),
        (
            broker("127.0.0.1:10911", ConnectProbe(ConnectOutcome.REFUSED, 1)),
            Severity.ERROR,
            "which on every machine is that machine itself",
        ),
        (
            broker("172.17.0.2:10911", ConnectProbe(ConnectOutcome.TIMED_OUT, 1, "no answer")),
            Severity.ERROR,
            "such as Docker's",
        ),
        (
            broker("8.8.4.4:10911", ConnectProbe(ConnectOutcome.TIMED_OUT, 1, "no answer")),
            Severity.ERROR,
            "cannot be reached from here",
        ),
        (broker(door=ConnectProbe(ConnectOutcome.REFUSED, 1)), Severity.ERROR, "nothing listens at 10.0.0.1:10911"),
        (
            broker(state=replace(WELL, problem="it timed out")),
            Severity.ERROR,
            "does not report its state (it timed out)",
        ),
        (
            broker(state=replace(WELL, problem="No accessKey is configured")),
            Severity.ERROR,
            "give --access-key",
        ),
        (broker(state=replace(WELL, addresses={1: "x:1"})), Severity.ERROR, "no master, only replicas"),
        (broker(state=replace(WELL, version="V4_2_0")), Severity.WARNING, "it is of release 4.2.0"),
        (broker(state=replace(WELL, version="V5_10_0")), Severity.OK, "release 5.10.0"),
        (broker(state=replace(WELL, disk_used=0.8)), Severity.WARNING, "its disk is 80 % full"),
        (broker(state=replace(WELL, disk_used=0.95)), Severity.ERROR, "from 90 % on brokers reject messages"),
        (
            broker(state=replace(WELL, reports=BrokerReports(refusal="no space"))),
            Severity.ERROR,
            "rejects messages: no space",
        ),
        (
            broker(
                state=replace(WELL, reports=BrokerReports(damages=1, lost=(LogDamage("log", 0, 2_000, 7, "damaged"),)))
            ),
            Severity.ERROR,
            "7 messages are lost",
        ),
        (broker(clock_ahead_s=-8), Severity.WARNING, "its clock is 8 s behind this machine's"),
        (broker(clock_ahead_s=3_600), Severity.ERROR, "its clock is 3,600 s ahead of this machine's"),
        (broker(clock_ahead_s=1.5), Severity.OK, "clock in sync"),
        (broker(may_write=False), Severity.ERROR, "it rejects messages"),
        (broker(state=replace(WELL, took_ms=90_000)), Severity.WARNING, "it is slow: it took 90,000 ms"),
    ],
)
def test_every_trouble_of_a_broker_is_named(seen: BrokerFacts, mark: Severity, words: str) -> None:
    found = [each for each in diagnose_brokers([seen], names_are_here=False) if each.kind != "no reachable broker"]
    assert (words in findings_text(found), {each.severity for each in found}) == (True, {mark}), findings_text(found)


def test_a_loopback_address_is_fine_where_the_name_server_is_on_this_machine_too() -> None:
    refused = ConnectProbe(ConnectOutcome.REFUSED, 1)
    found = findings_text(list(diagnose_brokers([broker("127.0.0.1:10911", refused)])))
    assert "that machine itself" not in found
    assert "nothing listens at 127.0.0.1:10911" in found


def test_brokers_of_different_releases_are_worth_a_look() -> None:
    newer = broker(state=replace(WELL, name="b", version="V5_5_0"))
    assert "warning brokers: they are of different releases: 4.9.7, 5.5.0" in findings_text(
        list(diagnose_brokers([broker(), newer]))
    )


# -- topics and groups ------------------------------------------------------------------------------------------------


def topic(brokers: int, readable: int, *, may_read: bool = True, may_write: bool = True) -> TopicFacts:
    """Return a topic."""
    return TopicFacts(name="orders", brokers=brokers, readable=readable, may_read=may_read, may_write=may_write)


@pytest.mark.parametrize(
    ("seen", "mark", "words"),
    [
        (topic(0, 0), Severity.WARNING, "no broker that can be reached has it"),
        (topic(1, 0), Severity.ERROR, "it has no queues to read"),
        (topic(1, 8, may_write=False), Severity.WARNING, "it cannot be written to"),
        (topic(1, 8, may_read=False), Severity.WARNING, "it cannot be read"),
    ],
)
def test_every_trouble_of_a_topic_is_named(seen: TopicFacts, mark: Severity, words: str) -> None:
    (finding,) = diagnose_topic(seen)
    assert (finding.severity, words in findings_text([finding])) == (mark, True), findings_text([finding])


def test_topics_that_are_well_are_counted() -> None:
    assert not list(diagnose_topic(topic(1, 8)))
    for topics, words in (((), "there is none yet"), ((topic(1, 8),), "1 topic, with queues")):
        found = [each for each in diagnose(HERE, ClusterFacts(topics=topics, at=NOW)) if each.subject == "topics"]
        assert words in findings_text(found)


QUEUE = Queue("orders", "a", 0)


FACTS = GroupFacts(
    group="billing",
    at_ms=0,
    members=(MemberDescription("c1@sy1", ours=True),),
    queues=(QUEUE,),
    locked={QUEUE: "c1@sy1"},
    our_brokers=frozenset("a"),
)
PAIR = (MemberDescription("c1@sy1", ours=True), MemberDescription("c2@sy1", ours=True))


def view(waiting: int = 0, facts: GroupFacts = FACTS) -> GroupDescription:
    """Return a group with one queue in which so many messages wait."""
    return describe_group(replace(facts, progress={QUEUE: ProgressSample(0, 5, 5 + waiting)}))


OFFLINE = replace(FACTS, members=(), locked={})
TWICE = replace(FACTS, reported=(Finding("duplicate id: c1", "c1 is there twice", next_step="give each an id"),))
STUCK = replace(FACTS, at_ms=90_000, waiting={QUEUE: WaitingQueue(QUEUE, 0, 5, 3, -210_000)})


@pytest.mark.parametrize(
    ("seen", "mark", "words"),
    [
        (GroupHealthFacts(view()), Severity.OK, "1 member online, 1 queue, no lag"),
        (GroupHealthFacts(view(3, OFFLINE)), Severity.WARNING, "no member online and a lag of 3 messages"),
        (GroupHealthFacts(view(0, OFFLINE)), Severity.OK, "no member online"),
        (GroupHealthFacts(view(0, TWICE)), Severity.ERROR, "twice -> give each an id"),
        (
            GroupHealthFacts(view(3, STUCK)),
            Severity.WARNING,
            "no progress for 1 min 30 s in orders@a:0 (offset 5, lag 3), and the oldest waiting message is 5 min old",
        ),
        (GroupHealthFacts(view(3, replace(STUCK, at_ms=30_000))), Severity.OK, "a lag of 3 messages"),
        (
            GroupHealthFacts(view(), dead=2, died_at=NOW - timedelta(minutes=3)),
            Severity.WARNING,
            "2 dead letters, the last 3 min old ->",
        ),
        (
            GroupHealthFacts(view(), dead=2, died_at=NOW - timedelta(days=3)),
            Severity.OK,
            "1 member online, 1 queue, no lag, 2 dead letters",
        ),
        (
            GroupHealthFacts(view(0, replace(FACTS, notes=("c2 could not be asked",)))),
            Severity.WARNING,
            "c2 could not be asked",
        ),
        (GroupHealthFacts(view(0, replace(FACTS, members=PAIR))), Severity.WARNING, "c2@sy1 has nothing to do"),
    ],
)
def test_every_trouble_of_a_group_is_named(seen: GroupHealthFacts, mark: Severity, words: str) -> None:
    cluster = ClusterFacts(groups=(seen,), at=NOW)
    found = [each for each in diagnose(HERE, cluster) if each.subject.startswith("group")]
    assert (words in findings_text(found), {each.severity for each in found}) == (True, {mark}), findings_text(found)


# -- this machine, and all of it --------------------------------------------------------------------------------------


def test_nothing_is_blamed_on_this_machine_while_all_is_well() -> None:
    proxied = replace(HERE, proxies=("ALL_PROXY",), address_source="NAMESRV_ADDR")
    assert {each.severity for each in diagnose_machine(proxied, is_reached=True)} == {Severity.OK}
    found = findings_text(list(diagnose_machine(proxied, is_reached=False)))
    assert "warning this machine: proxies are set (ALL_PROXY), and messaging goes through none" in found


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (replace(HERE, missing=("uvloop",)), "without uvloop (the extra steelyard[fast])"),
        (replace(HERE, missing=("lz4",)), "steelyard 1.0, without lz4 (the extra steelyard[lz4])"),
        (HERE, "steelyard 1.0, with all of fast and lz4"),
        (
            replace(HERE, open_file_limit=256),
            "warning this machine: a process may have only 256 files and connections open",
        ),
        (replace(HERE, java_problem="there is none"), "error spark: Spark has no Java to run on: there is none"),
        (replace(HERE, java="Java 17", missing=("pyarrow",)), "error spark: pyarrow not installed"),
        (replace(HERE, java="Java 17"), "ok spark: it runs on Java 17"),
        (replace(HERE, address_source="context prod"), "ok address: localhost:9876, by context prod"),
        (
            HERE,
            "warning address: no name server is given, so localhost:9876 was tried",
        ),
    ],
)
def test_this_machine_is_checked(here: MachineFacts, words: str) -> None:
    assert words in findings_text(list(diagnose_machine(here, is_reached=False)))
