"""A consumer goes on when servers go and come back, and says so when it waits for something that is not there."""

import logging

import pytest
from msgspec import structs

from steelyard.client.consumer.member_runner import MemberRunner
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.errors import NoPermission, SteelyardError
from steelyard.model import Message
from steelyard.model.finding import Finding
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from tests.client.consumer_scene import Seen, fill, make_topic, put
from tests.serve.refused_pulls import RefusedPulls
from tests.waiting import until


def test_a_topic_that_is_not_there_is_waited_for_and_that_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    findings, seen = list[Finding](), Seen()
    with Cluster() as cluster:
        consumer = Consumer(cluster.namesrv, group="patient", start_from="first")
        consumer.handles("someday")(seen.record_message)
        consumer.on_warning(findings.append)
        with caplog.at_level(logging.WARNING, "steelyard"), consumer:
            until(lambda: [finding for finding in findings if finding.kind == "no topic someday"], "hearing of it")
            assert "topic 'someday' is not known" in str(consumer.explain())
            with Producer(cluster.namesrv) as producer:
                producer.send(Message("someday", b"at last"))
            seen.wait([b"at last"])
            until(lambda: "not known" not in str(consumer.explain()), "the warning's end")
    assert len([record for record in caplog.records if "is not known to" in record.getMessage()]) == 1


def test_a_queue_that_a_broker_does_not_let_it_read_is_reported_once_and_read_again_when_it_may(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings, seen = list[Finding](), Seen()
    with Cluster() as cluster:
        make_topic(cluster, "shut", 1)
        put(cluster, "shut", 0, [b"at last"])
        refusing = RefusedPulls(monkeypatch, "shut", ResponseCode.NO_PERMISSION)
        consumer = Consumer(cluster.namesrv, group="refused", start_from="first")
        consumer.handles("shut")(seen.record_message)
        consumer.on_warning(findings.append)
        with caplog.at_level(logging.WARNING, "steelyard"), consumer:
            until(lambda: findings, "hearing of it")
            (queue,) = consumer.refused
            assert isinstance(consumer.refused[queue], NoPermission)
            assert f"{queue} cannot be read: broker-0 answered 16: permission denied" in str(consumer.explain())
            refusing.left = 0
            seen.wait([b"at last"])
            until(lambda: not consumer.refused, "the warning's end")
    assert [finding.kind for finding in findings] == [f"refused {queue}"]
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1


def test_a_record_that_cannot_be_decoded_stops_its_queue_and_is_reported_until_it_can(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings, seen, is_damaged = list[Finding](), Seen(), True
    receive = MemberRunner.command_received

    def received(runner: MemberRunner, server: str | None, command: Command) -> None:
        if is_damaged and b"at last" in command.body:
            command = structs.replace(command, body=bytes(command.body).replace(b"marred", b"\xffarred"))
        receive(runner, server, command)

    monkeypatch.setattr(MemberRunner, "command_received", received)
    with Cluster() as cluster:
        make_topic(cluster, "marred", 1)
        put(cluster, "marred", 0, [b"at last"])
        # What to do with bodies that cannot be read says nothing about this: nobody knows where the record ends.
        consumer = Consumer(cluster.namesrv, group="careful", start_from="first", on_unreadable="skip")
        consumer.handles("marred")(seen.record_message)
        consumer.on_warning(findings.append)
        with caplog.at_level(logging.WARNING, "steelyard"), consumer:
            until(lambda: findings, "hearing of it")
            assert "marred@broker-0:0 stands still" in findings[0].message
            assert "marred@broker-0:0" in str(consumer.explain())
            assert "marred@broker-0:0 stands still" in caplog.text
            is_damaged = False
            seen.wait([b"at last"])


def test_a_consumer_does_not_need_the_name_server_while_it_works() -> None:
    seen = Seen()
    with Cluster() as cluster:
        make_topic(cluster, "steady")
        bodies = fill(cluster, "steady", 20)
        consumer = Consumer(cluster.namesrv, group="steady-group", start_from="first")
        consumer.handles("steady")(seen.record_message)
        with consumer:
            seen.wait(bodies)
            cluster.stop_name_server()
            put(cluster, "steady", 0, [b"without"])
            seen.wait([b"without"])
            cluster.start_name_server()
            until(lambda: _is_back(cluster), "being registered again")
            with Admin(cluster.namesrv) as admin:
                admin.topics.add_queues("steady", 6)
            until(lambda: sum(queue.topic == "steady" for queue in consumer.assignment) == 6, "seeing new queues")
            put(cluster, "steady", 5, [b"new queue"])
            seen.wait([b"new queue"])


def _is_back(cluster: Cluster) -> bool:
    try:
        with Producer(cluster.namesrv) as producer:
            producer.send(Message("steady", b"probe"))
    except SteelyardError:
        return False
    return True


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_consumer_goes_on_after_its_broker_was_restarted(how: str, tmp_path: object) -> None:
    seen = Seen()
    with Cluster(data=str(tmp_path)) as cluster:
        make_topic(cluster, "reborn")
        bodies = fill(cluster, "reborn", 40)
        consumer = Consumer(cluster.namesrv, group="reborn-group", start_from="first")
        consumer.handles("reborn")(seen.record_message)
        with consumer:
            seen.wait(bodies)
            if how == "stopped":
                cluster.stop_broker("broker-0")
            else:
                cluster.kill_broker("broker-0")
            cluster.start_broker("broker-0")
            put(cluster, "reborn", 1, [b"after"])
            seen.wait([b"after"])
    if how == "stopped":
        assert seen.counts() == dict.fromkeys([*bodies, b"after"], 1)


def test_a_callback_that_fails_does_not_stop_anything(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    def fail(event: object) -> None:
        raise RuntimeError(f"cannot take {event}")

    with Cluster() as cluster:
        make_topic(cluster, "careless")
        bodies = fill(cluster, "careless", 10)
        consumer = Consumer(cluster.namesrv, group="careless-group", start_from="first")
        consumer.handles("careless")(seen.record_message)
        consumer.on_rebalance(fail)
        with caplog.at_level(logging.ERROR, "steelyard"), consumer:
            seen.wait(bodies)
            until(lambda: "a callback failed" in caplog.text, "being told")
    assert seen.counts() == dict.fromkeys(bodies, 1)


def test_a_handler_that_ends_its_thread_does_not_end_the_worker() -> None:
    seen = Seen()
    with Cluster() as cluster:
        make_topic(cluster, "exiting", queues=1)
        put(cluster, "exiting", 0, [b"exit", b"go on"])
        consumer = Consumer(cluster.namesrv, group="exiting-group", start_from="first", workers=1)

        @consumer.handles("exiting")
        def handle(message: ReceivedMessage) -> None:
            seen.record_message(message)
            if message.body == b"exit":
                raise SystemExit(1)

        with consumer:
            seen.wait([b"exit", b"go on"])
