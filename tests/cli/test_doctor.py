"""`steelyard doctor` against real servers, and against what is often taken for one."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from steelyard.cli.main import main
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.client import cluster_facts
from steelyard.client.cluster_facts import probe_addresses
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.topics import BrokerEntry, ClusterBody
from steelyard.wire.command import response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.json_body import ById
from tests.waiting import until


def examined(capsys: pytest.CaptureFixture[str], namesrv: str, *words: str) -> tuple[int, list[dict[str, str]]]:
    """Run the doctor; return its exit code and what it found."""
    code = main(["doctor", *words, "--output", "json", "--namesrv", namesrv])
    return code, json.loads(capsys.readouterr().out)


def sentence(found: list[dict[str, str]], about: str) -> str:
    """Return what is said of something, with its mark in front."""
    return "\n".join(f"{each['mark']} {each['what']}" for each in found if each["about"] == about)


def test_a_cluster_that_is_well_has_nothing_wrong(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys, cluster.namesrv)
    assert code == ExitCode.DONE
    assert {each["mark"] for each in found} == {"ok"}
    about = [each["about"] for each in found]
    assert about[:3] == ["this machine", "address", f"name server {cluster.namesrv}"]
    assert about[3:5] == ["broker broker-0", "broker broker-1"]
    assert "clock in sync" in sentence(found, "broker broker-0")


def test_people_get_a_list_with_what_to_do_next(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("unread", 1)
        admin.groups.create("absent")
        admin.offsets.reset("absent", "unread", "last")
        producer.send(Message("unread", b"1"))
        assert main(["doctor", "--group", "absent", "--namesrv", cluster.namesrv]) == ExitCode.DONE
        admin.groups.delete("absent")
        admin.topics.delete("unread")
    reported = capsys.readouterr()
    assert (
        "look  group absent: group absent has no member online and a lag of 1 message\n      → start its"
        in reported.out
    )
    assert reported.err.strip().endswith("1 look")


def test_a_group_that_is_not_there_is_wrong(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys, cluster.namesrv, "--group", "nobody")
    assert (code, "wrong group 'nobody' does not exist" in sentence(found, "group")) == (ExitCode.FAILED, True)


def test_a_broker_that_is_taken_for_a_name_server_is_named(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    address = cluster.brokers["broker-0"]
    code, found = examined(capsys, address)
    assert code == ExitCode.UNREACHABLE
    assert "wrong a broker answers there, and no name server" in sentence(found, f"name server {address}")


def test_tls_where_there_is_none_is_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys, cluster.namesrv, "--tls", "--timeout", "2")
    assert code == ExitCode.UNREACHABLE
    assert "wrong it does not use TLS, and --tls was given" in sentence(found, f"name server {cluster.namesrv}")


def test_one_dead_name_server_of_two_is_worth_a_look_and_the_rest_is_checked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = examined(capsys, f"127.0.0.1:1;{cluster.namesrv}")
    assert code == ExitCode.DONE
    assert "look nothing listens at port 1" in sentence(found, "name server 127.0.0.1:1")
    assert "ok" in sentence(found, "broker broker-0")


def test_a_name_that_is_nowhere_is_exit_code_five_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys, "nowhere.invalid:9876", "--timeout", "5")
    assert code == ExitCode.UNREACHABLE
    assert "has no address here" in sentence(found, "name server nowhere.invalid:9876")


class _WebServer(StreamRequestHandler):
    """A web server that waits for a whole request, as some do."""

    def handle(self) -> None:
        """Answer a request once its headers have ended."""
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")


@contextmanager
def served(by: type[StreamRequestHandler]) -> Iterator[str]:
    """Run a server, and return its address."""
    with ThreadingTCPServer(("127.0.0.1", 0), by) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_web_server_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with served(_WebServer) as address:
        code, found = examined(capsys, address, "--timeout", "1")
    assert code == ExitCode.UNREACHABLE
    assert "wrong a web server answers there" in sentence(found, f"name server {address}")


def test_a_server_that_never_answers_does_not_block_it(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        code, found = examined(capsys, address, "--timeout", "0.3")
    assert code == ExitCode.UNREACHABLE
    assert "wrong the port accepts connections but nothing answers" in sentence(found, f"name server {address}")


class _Names(StreamRequestHandler):
    """A name server that tells of one broker, at an address where nobody listens."""

    reported = "127.0.0.1:1"

    def handle(self) -> None:
        """Answer whatever is asked with the same."""
        entry = BrokerEntry(broker_name="broker-a", cluster="c", addresses=ById({0: self.reported}))
        body = encode_body(ClusterBody(brokers={"broker-a": entry}, clusters={"c": ("broker-a",)}))
        splitter = FrameDecoder()
        while data := self.request.recv(65_536):
            for command in splitter.feed(data):
                self.wfile.write(encode_frame(response_to(command, body=body)))


def test_brokers_that_cannot_be_reached_from_here_are_named_and_not_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served(_Names) as address:
        code, found = examined(capsys, address)
    assert code == ExitCode.FAILED
    assert "ok it answers in" in sentence(found, f"name server {address}")
    assert "wrong nothing listens at 127.0.0.1:1" in sentence(found, "broker broker-a")
    assert "wrong name servers answer, and none of their brokers" in sentence(found, "brokers")


def test_a_broker_that_accepts_connections_and_never_answers_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_facts, "_ANSWER_S", 0.1)
    monkeypatch.setattr(cluster_facts, "_PART_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute, served(_Names) as address:
        monkeypatch.setattr(_Names, "reported", f"127.0.0.1:{mute.getsockname()[1]}")
        code, found = examined(capsys, address)
    assert code == ExitCode.FAILED
    assert "wrong it does not report its state (no answer" in sentence(found, "broker broker-a")


def test_members_that_filter_a_topic_differently_are_wrong(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create("filtered", 1)
    members = [Consumer(cluster.namesrv, "filterers", name=tag) for tag in ("paid", "sent")]
    for member, tag in zip(members, ("paid", "sent"), strict=True):
        member.handles("filtered", tags=tag)(len)
    with members[0], members[1], Admin(cluster.namesrv) as admin:
        until(lambda: bool(admin.groups.describe("filterers").findings))
        code, found = examined(capsys, cluster.namesrv, "--group", "filterers")
        assert code == ExitCode.FAILED
        assert "wrong members of group filterers have different subscriptions to filtered" in sentence(
            found, "group filterers"
        )
    with Admin(cluster.namesrv) as admin:
        admin.groups.delete("filterers")
        admin.topics.delete("filtered")


def test_members_of_ours_with_different_subscriptions_are_worth_a_look_and_not_wrong(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Admin(cluster.namesrv) as admin:
        for topic in ("these", "those"):
            admin.topics.create(topic, 1)
    members = [Consumer(cluster.namesrv, "quarrelling", name=topic) for topic in ("these", "those")]
    for member, topic in zip(members, ("these", "those"), strict=True):
        member.handles(topic)(len)
    with members[0], members[1], Admin(cluster.namesrv) as admin:
        until(lambda: bool(admin.groups.describe("quarrelling").findings))
        code, found = examined(capsys, cluster.namesrv, "--group", "quarrelling")
        assert code == ExitCode.DONE
        output = sentence(found, "group quarrelling")
        assert "look members of group quarrelling have different subscriptions, other topics than most" in output
        assert "each topic is shared among its subscribers and all queues are read" in output
        assert main(["check", "group", "quarrelling", "--namesrv", cluster.namesrv]) == 1
        assert "WARNING group quarrelling: members" in capsys.readouterr().out
    with Admin(cluster.namesrv) as admin:
        admin.groups.delete("quarrelling")
        for topic in ("these", "those"):
            admin.topics.delete(topic)


def test_addresses_that_are_none_are_reported_and_not_raised() -> None:
    found = asyncio.run(probe_addresses(["", "nowhere", "10.0.0.1:99999", "nowhere.invalid:1"], 2.0))
    assert all(each.why for each in found.values())
