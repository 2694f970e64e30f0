"""What failed with a member of ours is seen by Java: the error of a retry, and the stack of a handler that hangs."""

import threading

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from tests.interop.clients import until
from tests.interop.java_clients import JavaClients, every
from tests.interop.mqadmin import Mqadmin


def test_a_java_member_gets_a_retry_with_the_error_of_ours(hands: JavaClients, topic: str, group: str) -> None:
    namesrv = hands.cluster.name_server
    failed = threading.Event()
    consumer = Consumer(namesrv, group, start_from="first")

    @consumer.handles(topic)
    def bill(message: ReceivedMessage) -> None:
        failed.set()
        raise ValueError(f"no customer “Żółć” for {message.keys[0]}")

    with Producer(namesrv) as producer, consumer:
        producer.send(Message(topic, b"order 1", keys="order-1", properties={"region": "eu"}))
        assert failed.wait(30)
    (again,) = hands.push(group, every(topic)).wait(1)
    assert (again.topic, again.body, again.times) == (topic, "order 1", 1)
    assert again.properties["region"] == "eu"
    # Apache's brokers take no error with a send-back.
    wanted = "ValueError: no customer “Żółć” for order-1" if hands.cluster.is_ours else None
    assert again.properties.get("STEELYARD_ERROR") == wanted


def test_the_error_of_ours_is_gone_once_a_java_member_failed(hands: JavaClients, topic: str, group: str) -> None:
    namesrv = hands.cluster.name_server
    consumer, failed = Consumer(namesrv, group, start_from="first"), threading.Event()

    @consumer.handles(topic)
    def bill(message: ReceivedMessage) -> None:
        failed.set()
        message.later(delay_s=1)

    with Producer(namesrv) as producer, consumer:
        producer.send(Message(topic, b"order 1", properties={"fails": "2", "again_level": "1"}))
        assert failed.wait(30)
    errors = [each.properties.get("STEELYARD_ERROR") for each in hands.push(group, every(topic)).wait(2)]
    assert errors == (["the handler called later()", None] if hands.cluster.is_ours else [None, None])


def test_mqadmin_prints_the_stack_of_a_handler_of_ours_that_hangs(
    hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    namesrv = hands.cluster.name_server
    entered, opened = threading.Event(), threading.Event()
    consumer = Consumer(namesrv, group, start_from="first")

    @consumer.handles(topic)
    def charge(_message: ReceivedMessage) -> None:
        entered.set()
        opened.wait()

    with Producer(namesrv) as producer, consumer:
        sent = producer.send(Message(topic, b"order 1"))
        try:
            assert entered.wait(30)
            shown = mqadmin("consumerStatus", "-g", group, "-i", consumer.id, "-s").out
        finally:
            opened.set()
    assert f"with message {sent.message_id} of {sent.queue}, offset {sent.offset}\n" in shown
    assert "in charge\n    opened.wait()\n" in shown


def test_the_stacks_of_a_java_member_are_shown(hands: JavaClients, topic: str, group: str) -> None:
    member = hands.push(group, every(topic))
    with Admin(hands.cluster.name_server) as admin:
        until(lambda: [each.id for each in admin.groups.members(group)], lambda ids: ids == [member.client_id])
        status = admin.groups.member_status(group, member.client_id, stacks=True)
        assert status.running is None
        assert "java.base" in (status.stacks or "")
        assert admin.groups.member_status(group, member.client_id).stacks is None
