"""A client that is still connected when a test is over is named."""

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from steelyard import Consumer, Message, Producer, StoredMessage
from steelyard.client.sync.client import open_clients
from steelyard.errors import NotAsExpected
from steelyard.testing import cluster
from tests.testing.billing import billing
from tests.testing.foreign_client import ForeignClient


def test_clients_that_were_closed_are_no_leak() -> None:
    with cluster(brokers=2) as mq:
        mq.send("orders", b"1")
        mq.admin.topics.list()
        with billing(mq), Producer(mq.address) as producer:
            producer.send(Message("orders", b"2"))
        with ForeignClient(mq.address) as client:
            client.route("orders")


def test_a_member_a_producer_and_a_connection_that_stay_are_named() -> None:
    left = ExitStack()
    names: list[str] = []

    def forget() -> None:
        with cluster() as mq:
            producer = left.enter_context(Producer(mq.address, group="shop"))
            producer.send(Message("orders", b"1"))
            names.append(producer.client_id)
            left.enter_context(billing(mq))
            left.enter_context(ForeignClient(mq.brokers["broker-0"])).send("orders", b"2")
            mq.wait_until_handled("orders", group="billing")
            names.extend(member.id for member in mq.admin.groups.members("billing"))

    with left:
        output = _messages(forget)
    assert f"producer {names[0]} of group shop, connected to broker-0" in output
    assert f"member {names[1]} of group billing, online at broker-0" in output
    assert "to broker-0, last request SEND_MESSAGE" in output
    assert "@pytest.mark.mq(leaks=False)" in output


def test_a_client_that_only_reached_the_name_server_is_a_leak_too() -> None:
    left = ExitStack()

    def forget() -> None:
        with cluster() as mq:
            left.enter_context(ForeignClient(mq.address)).route("orders")

    with left:
        assert "connections to the name servers, one for each client: from 127.0.0.1:" in _messages(forget)


def test_leaks_can_be_allowed() -> None:
    with ExitStack() as left, cluster(leaks=False) as mq:
        left.enter_context(ForeignClient(mq.address)).route("orders")


def test_leaks_are_not_looked_for_where_something_else_failed() -> None:
    left = ExitStack()

    def fail() -> None:
        with cluster() as mq:
            left.enter_context(ForeignClient(mq.address)).route("orders")
            raise ZeroDivisionError

    with left, pytest.raises(ZeroDivisionError):
        fail()


def _messages(forget: Callable[[], None]) -> str:
    with pytest.raises(NotAsExpected) as caught:
        forget()
    return str(caught.value)


@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_consumer_that_nobody_stops_is_stopped_with_its_cluster(is_stuck: bool) -> None:
    go_on, came = threading.Event(), threading.Event()
    with cluster(leaks=False) as mq:
        mq.send("orders", b"1")
        consumer = Consumer(mq.address, "billing", start_from="first")

        @consumer.handles("orders")
        def bill(message: StoredMessage) -> None:
            assert message.body == b"1"
            came.set()
            if is_stuck:
                go_on.wait(20)

        consumer.start()
        assert came.wait(20)
    go_on.set()
    assert consumer not in open_clients()
