"""The doctor names causes: a table of what was seen, and what is said about it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.parsing import complaint_about

from steelyard import __version__
from steelyard.balance.hazards import Progress
from steelyard.cli.doctor.finding import Finding, Mark
from steelyard.cli.doctor.here import Here
from steelyard.cli.doctor.judge_groups import judge_groups, judge_topics
from steelyard.cli.doctor.judge_here import judge_here
from steelyard.cli.doctor.judge_servers import judge_brokers, judge_name_servers
from steelyard.cli.doctor.judging import exit_of, findings_of
from steelyard.cli.frame.exits import Exit
from steelyard.client.admin.broker_reports import LostBytes, Reports
from steelyard.client.admin.cluster import Broker
from steelyard.client.admin.group_view import Facts, GroupView, Member, look_at
from steelyard.client.admin.topics import Topic, TopicKind
from steelyard.client.checkup.facts import (
    BrokerSeen,
    ClusterSeen,
    Dialling,
    Door,
    GroupSeen,
    NameServerSeen,
    ServerKind,
)
from steelyard.client.checkup.spoken import who_speaks
from steelyard.model import BrokerPlace, Permission, Queue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
OPEN = Dialling(Door.OPEN, 1)


def told(findings: Sequence[Finding]) -> str:
    """Return findings as one text; a command that one of them names is one that we have."""
    for each in findings:
        for line in re.findall(r"steelyard [a-z][^;]*", each.next_step):
            assert complaint_about(line) is None
    return "\n".join(f"{each.mark.value} {each.about}: {each.what} -> {each.next_step}" for each in findings)


def names(address: str, *brokers: str, host: str = "10.0.0.1") -> NameServerSeen:
    """Return a name server that works, and whose brokers are at one host."""
    places = {name: BrokerPlace(name, "c", {0: f"{host}:10911"}) for name in brokers}
    return NameServerSeen(address, ("10.0.0.9",), "", OPEN, ServerKind.NAME_SERVER, took_ms=2, brokers=places)


# -- name servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (NameServerSeen("mq:9876", no_ip="name or service not known"), "the name mq has no address here"),
        (NameServerSeen("mq:9876", ("10.0.0.1",), dialled=Dialling(Door.REFUSED, 1)), "nobody listens at port 9876"),
        (NameServerSeen("mq:9876", ("10.0.0.1",), dialled=Dialling(Door.SILENT, 1, "no answer")), "firewall"),
        (NameServerSeen("mq:9876", ("10.0.0.1",), dialled=Dialling(Door.NO_WAY, 1, "no route")), "no way to 10.0.0.1"),
        (NameServerSeen("mq:9876", ("10.0.0.1",), dialled=Dialling(Door.FAILED, 1, "odd")), "cannot be dialled"),
        *(
            (NameServerSeen("mq:9876", ("10.0.0.1",), dialled=OPEN, kind=kind), words)
            for kind, words in {
                ServerKind.BROKER: "a broker answers there, and no name server",
                ServerKind.STRANGER: "no name server, such as a controller",
                ServerKind.HTTP: "a web server answers there",
                ServerKind.HTTP2: "gRPC",
                ServerKind.TLS: "say --tls",
                ServerKind.PLAIN: "leave --tls out",
                ServerKind.DISTRUSTED: "--tls-ca FILE",
                ServerKind.MUTE: "never answers",
                ServerKind.HANGS_UP: "hangs up",
                ServerKind.WANTS_CERTIFICATE: "certificates of their own",
                ServerKind.UNKNOWN: "does not speak the protocol",
            }.items()
        ),
    ],
)
def test_every_way_in_which_a_name_server_fails_has_a_sentence_of_its_own(seen: NameServerSeen, words: str) -> None:
    (finding,) = judge_name_servers([seen])
    assert finding.mark is Mark.WRONG
    assert words in told([finding])
    assert finding.next_step


def test_name_servers_that_tell_the_same_are_well() -> None:
    found = list(judge_name_servers([names("n1:9876", "a", "b"), names("n2:9876", "a", "b")]))
    assert {each.mark for each in found} == {Mark.OK}
    assert "all 2 tell the same" in told(found)


def test_name_servers_that_disagree_are_wrong() -> None:
    missing = told(list(judge_name_servers([names("n1:9876", "a", "b"), names("n2:9876", "a")])))
    assert "wrong broker b: n2:9876 does not know it, other name servers do" in missing
    other = told(list(judge_name_servers([names("n1:9876", "a"), names("n2:9876", "a", host="10.0.0.2")])))
    assert "wrong broker a: name servers tell different addresses of it: 10.0.0.1:10911 and 10.0.0.2:10911" in other


def test_a_cluster_without_a_broker_is_wrong() -> None:
    assert "wrong brokers: no broker is registered -> start one with namesrvAddr=n1:9876" in told(
        list(judge_name_servers([names("n1:9876")]))
    )


@pytest.mark.parametrize(
    ("heard", "hung_up", "kind"),
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
def test_who_speaks_is_known_by_the_first_bytes(heard: bytes, hung_up: bool, kind: ServerKind) -> None:
    assert who_speaks(heard, hung_up=hung_up) is kind


@given(st.binary(max_size=300), st.booleans())
def test_whatever_speaks_is_named(heard: bytes, hung_up: bool) -> None:
    assert isinstance(who_speaks(heard, hung_up=hung_up), ServerKind)


# -- brokers ----------------------------------------------------------------------------------------------------------

WELL = Broker("a", "c", {0: "10.0.0.1:10911"}, version="V4_9_7", disk_used=0.2)


def broker(
    address: str = "10.0.0.1:10911",
    door: Dialling = OPEN,
    *,
    state: Broker = WELL,
    clock_ahead: timedelta = timedelta(0),
    may_write: bool = True,
) -> BrokerSeen:
    """Return a broker that is well, but for what is said."""
    return BrokerSeen("a", {address: door}, state, clock_ahead, may_write)


@pytest.mark.parametrize(
    ("seen", "mark", "words"),
    [
        (broker(), Mark.OK, "10.0.0.1:10911 opens in 1 ms, release 4.9.7, disk 20 % full, clock as ours"),
        (broker("127.0.0.1:10911", Dialling(Door.REFUSED, 1)), Mark.WRONG, "which is every machine itself"),
        (broker("172.17.0.2:10911", Dialling(Door.SILENT, 1, "no answer")), Mark.WRONG, "such as Docker's"),
        (broker("8.8.4.4:10911", Dialling(Door.SILENT, 1, "no answer")), Mark.WRONG, "cannot be reached from here"),
        (broker(door=Dialling(Door.REFUSED, 1)), Mark.WRONG, "nobody listens at 10.0.0.1:10911"),
        (broker(state=replace(WELL, problem="it timed out")), Mark.WRONG, "does not tell how it is (it timed out)"),
        (
            broker(state=replace(WELL, problem="No accessKey is configured")),
            Mark.WRONG,
            "say who you are: --access-key",
        ),
        (broker(state=replace(WELL, addresses={1: "x:1"})), Mark.WRONG, "no master, only replicas"),
        (broker(state=replace(WELL, version="V4_2_0")), Mark.LOOK, "it is of release 4.2.0"),
        (broker(state=replace(WELL, version="V5_10_0")), Mark.OK, "release 5.10.0"),
        (broker(state=replace(WELL, disk_used=0.8)), Mark.LOOK, "its disk is 80 % full"),
        (broker(state=replace(WELL, disk_used=0.95)), Mark.WRONG, "from 90 % on brokers take no messages"),
        (broker(state=replace(WELL, reports=Reports(refusal="no space"))), Mark.WRONG, "takes no messages: no space"),
        (
            broker(state=replace(WELL, reports=Reports(damages=1, lost=(LostBytes("log", 0, 2_000, 7, "damaged"),)))),
            Mark.WRONG,
            "7 messages are lost",
        ),
        (broker(clock_ahead=timedelta(seconds=-8)), Mark.LOOK, "its clock is 8 s behind this machine's"),
        (broker(clock_ahead=timedelta(hours=1)), Mark.WRONG, "its clock is 3,600 s ahead of this machine's"),
        (broker(clock_ahead=timedelta(seconds=1.5)), Mark.OK, "clock as ours"),
        (broker(may_write=False), Mark.WRONG, "it takes no messages"),
    ],
)
def test_every_trouble_of_a_broker_is_named(seen: BrokerSeen, mark: Mark, words: str) -> None:
    found = list(judge_brokers([seen], [names("n1:9876", "a")]))
    assert (words in told(found), {each.mark for each in found}) == (True, {mark}), told(found)


def test_a_loopback_address_is_fine_where_the_name_server_is_on_this_machine_too() -> None:
    here = replace(names("localhost:9876", "a"), ips=("127.0.0.1",))
    found = told(list(judge_brokers([broker("127.0.0.1:10911", Dialling(Door.REFUSED, 1))], [here])))
    assert "every machine itself" not in found
    assert "nobody listens at 127.0.0.1:10911" in found


def test_brokers_of_different_releases_are_worth_a_look() -> None:
    newer = replace(broker(), name="b", state=replace(WELL, version="V5_5_0"))
    assert "look brokers: they are of different releases: 4.9.7, 5.5.0" in told(
        list(judge_brokers([broker(), newer], []))
    )


# -- topics and groups ------------------------------------------------------------------------------------------------

BOTH = Permission.READ | Permission.WRITE


@pytest.mark.parametrize(
    ("topic", "mark", "words"),
    [
        (Topic("orders", TopicKind.USERS, 8, ("a",), BOTH), Mark.OK, "1 topic, with queues"),
        (Topic("orders", TopicKind.USERS, 0, (), Permission(0)), Mark.LOOK, "no broker that can be reached has it"),
        (Topic("orders", TopicKind.USERS, 0, ("a",), BOTH), Mark.WRONG, "it has no queues to read"),
        (Topic("orders", TopicKind.USERS, 8, ("a",), Permission.READ), Mark.LOOK, "it cannot be written to"),
        (Topic("orders", TopicKind.USERS, 8, ("a",), Permission.WRITE), Mark.LOOK, "it cannot be read"),
        (Topic("rmq_sys_x", TopicKind.SYSTEM, 0, ("a",), Permission(0)), Mark.OK, "there is none yet"),
    ],
)
def test_every_trouble_of_a_topic_is_named(topic: Topic, mark: Mark, words: str) -> None:
    (finding,) = judge_topics([topic])
    assert (finding.mark, words in told([finding])) == (mark, True), told([finding])


QUEUE = Queue("orders", "a", 0)


FACTS = Facts(
    group="billing",
    at_ms=0,
    members=(Member("c1@sy1", ours=True),),
    queues=(QUEUE,),
    locked={QUEUE: "c1@sy1"},
    our_brokers=frozenset("a"),
)
PAIR = (Member("c1@sy1", ours=True), Member("c2@sy1", ours=True))


def view(waiting: int = 0, facts: Facts = FACTS) -> GroupView:
    """Return a group with one queue in which so many messages wait."""
    return look_at(replace(facts, progress={QUEUE: Progress(0, 5, 5 + waiting)}))


OFFLINE = replace(FACTS, members=(), locked={})
TWICE = replace(FACTS, told={"a": ("c1 is there twice; give each an id",)})


@pytest.mark.parametrize(
    ("seen", "mark", "words"),
    [
        (GroupSeen(view()), Mark.OK, "1 member online, 1 queue, nothing waiting"),
        (GroupSeen(view(3, OFFLINE)), Mark.LOOK, "nobody is online, and 3 messages wait"),
        (GroupSeen(view(0, OFFLINE)), Mark.OK, "nobody online"),
        (GroupSeen(view(0, TWICE)), Mark.WRONG, "twice -> give each an id"),
        (GroupSeen(view(3), {QUEUE: timedelta(minutes=5)}), Mark.LOOK, "oldest message has waited for 5m"),
        (GroupSeen(view(3), {QUEUE: timedelta(seconds=5)}), Mark.OK, "3 messages waiting"),
        (GroupSeen(view(), dead=2, died_at=NOW - timedelta(minutes=3)), Mark.LOOK, "2 messages, the last 3m ago ->"),
        (GroupSeen(view(), dead=2, died_at=NOW - timedelta(days=3)), Mark.LOOK, "2 messages, the last 3d ago ->"),
        (GroupSeen(view(0, replace(FACTS, notes=("c2 could not be asked",)))), Mark.LOOK, "c2 could not be asked"),
        (GroupSeen(view(0, replace(FACTS, members=PAIR))), Mark.LOOK, "c2@sy1 has nothing to do"),
    ],
)
def test_every_trouble_of_a_group_is_named(seen: GroupSeen, mark: Mark, words: str) -> None:
    found = list(judge_groups([seen], NOW))
    assert (words in told(found), {each.mark for each in found}) == (True, {mark}), told(found)


# -- this machine, and all of it --------------------------------------------------------------------------------------


def test_nothing_is_blamed_on_this_machine_while_all_is_well() -> None:
    proxied = Here(system="Linux x86_64", proxies=("ALL_PROXY",), said_by="NAMESRV_ADDR")
    assert {each.mark for each in judge_here(proxied, is_reached=True)} == {Mark.OK}
    found = told(list(judge_here(proxied, is_reached=False)))
    assert "look this machine: ALL_PROXY is set, and messaging goes through no proxy" in found


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (Here(missing=("uvloop",)), "without uvloop (the extra steelyard[fast])"),
        (Here(missing=("lz4",)), f"steelyard {__version__}, without lz4 (the extra steelyard[lz4])"),
        (Here(), f"steelyard {__version__}, with all of fast and lz4"),
        (Here(open_files=256), "look this machine: a process may have only 256 files and lines open"),
        (Here(no_java="there is none"), "wrong spark: Spark has no Java to run on: there is none"),
        (Here(java="Java 17", missing=("pyarrow",)), "wrong spark: pyarrow not installed"),
        (Here(java="Java 17"), "ok spark: it runs on Java 17"),
        (Here(said_by="context prod"), "ok address: localhost:9876, by context prod"),
        (Here(), "look address: nothing was said about where the cluster is, so localhost:9876 was tried"),
    ],
)
def test_this_machine_is_judged(here: Here, words: str) -> None:
    assert words in told(list(judge_here(here, is_reached=False)))


def test_the_exit_code_says_whether_something_is_wrong_or_nobody_is_there() -> None:
    def code(seen: ClusterSeen) -> Exit:
        return exit_of(findings_of(Here(), seen), seen)

    well = ClusterSeen(name_servers=(names("n1:9876", "a"),), brokers=(broker(),), topics=(), at=NOW)
    assert code(well) is Exit.DONE
    assert code(replace(well, left_out=("groups could not be looked at",))) is Exit.DONE
    assert code(replace(well, not_there=(("group 'x' does not exist.", "make it"),))) is Exit.FAILED
    assert code(replace(well, brokers=(broker(door=Dialling(Door.REFUSED, 1)),))) is Exit.FAILED
    gone = NameServerSeen("n2:9876", no_ip="who?")
    assert code(replace(well, name_servers=(*well.name_servers, gone))) is Exit.FAILED
    assert code(ClusterSeen(name_servers=(gone,), at=NOW)) is Exit.UNREACHABLE
