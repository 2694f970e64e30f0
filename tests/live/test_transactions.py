"""Half a message is seen by nobody; a commit shows it, a roll-back drops it, and who said neither is asked."""

import threading

import pytest

from steelyard import Admin, Message, Producer, StoredMessage
from tests.live.clusters import Live, until
from tests.live.handled import shown


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


def test_leaving_a_transaction_commits_it(producer: Producer, admin: Admin, topic: str) -> None:
    with producer.transaction(Message(topic, b"paid", keys="order-1", tags="t")) as transaction:
        assert shown(admin, topic) == set()
    until(lambda: shown(admin, topic) == {b"paid"}, "the message is shown")
    (found,) = admin.messages.list(topic)
    assert (found.keys, found.tags, found.message_id) == (("order-1",), "t", transaction.message_id)


def test_an_exception_rolls_it_back(producer: Producer, admin: Admin, topic: str) -> None:
    with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"never")):
        raise ZeroDivisionError
    with producer.transaction(Message(topic, b"paid")):
        pass
    until(lambda: shown(admin, topic) == {b"paid"}, "only the other message is shown")


def test_both_ends_may_be_said_by_hand(producer: Producer, admin: Admin, topic: str) -> None:
    kept, dropped = producer.transaction(Message(topic, b"kept")), producer.transaction(Message(topic, b"dropped"))
    kept.begin()
    dropped.begin()
    assert dropped.rollback() is True
    assert kept.commit() is True
    until(lambda: shown(admin, topic) == {b"kept"}, "what was kept is shown")


def test_the_broker_asks_another_process_what_became_of_one(
    cluster: Live, admin: Admin, topic: str, group: str
) -> None:
    asked: list[StoredMessage] = []
    enough = threading.Event()

    def check(message: StoredMessage) -> bool | None:
        asked.append(message)
        if len(asked) >= 4:
            enough.set()
        return None if len(asked) == 1 else message.tags == "paid"

    with Producer(cluster.namesrv, group=group) as crashed:
        crashed.transaction(Message(topic, b"kept", tags="paid", keys="k")).begin()
        crashed.transaction(Message(topic, b"dropped", tags="unpaid")).begin()
    with Producer(cluster.namesrv, group=group, check=check) as successor:
        successor.send(Message(topic, b"hello"))
        until(lambda: shown(admin, topic) == {b"hello", b"kept"}, "the transaction is settled", cluster.pass_time)
        until(
            lambda: {each.body for each in asked} == {b"kept", b"dropped"}, "both were asked about", cluster.pass_time
        )
    assert {each.topic for each in asked} == {topic}
    assert {each.keys for each in asked if each.body == b"kept"} == {("k",)}


def test_a_transaction_that_is_open_here_is_not_checked(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    others: list[bytes] = []

    def check(message: StoredMessage) -> bool:
        others.append(message.body)
        return True

    with Producer(cluster.namesrv, group=group, check=check) as producer:
        patient = producer.transaction(Message(topic, b"patient")).begin()
        with Producer(cluster.namesrv, group=group) as crashed:
            crashed.transaction(Message(topic, b"crashed")).begin()
        until(lambda: shown(admin, topic) == {b"crashed"}, "the other was asked about later", cluster.pass_time)
        patient.rollback()
    assert others.count(b"patient") == 0
    assert shown(admin, topic) == {b"crashed"}
