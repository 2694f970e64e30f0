"""What goes wrong is said in a sentence with what to do about it."""

import logging
import secrets

import pytest

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, PullConsumer, Queue
from steelyard.errors import (
    ConfigurationError,
    GroupNotFound,
    NoNameServer,
    SteelyardError,
    SubscriptionUnreadable,
    TopicNotFound,
)
from tests.live.clusters import Live, closed_port, until
from tests.live.handled import Handled, send_all


def test_a_topic_that_is_not_there_is_reported_with_the_one_that_was_meant(
    admin: Admin, cluster: Live, topic: str, group: str
) -> None:
    wrong = topic[:-1]
    brokers = ", ".join(cluster.brokers)
    expected = (
        rf"topic '{wrong}' does not exist on {cluster.namesrv} \(asked {brokers}\)\. "
        rf"Did you mean '{topic}'\? Create it with: steelyard topic create {wrong}"
    )
    with pytest.raises(TopicNotFound, match=expected):
        admin.topics.describe(wrong)
    with (
        PullConsumer(cluster.namesrv, group=group) as pull_consumer,
        pytest.raises(TopicNotFound, match=f"'{wrong}' does not exist.*Did you mean '{topic}'"),
    ):
        pull_consumer.queues(wrong)


def test_a_group_that_is_not_there_is_reported_with_the_one_that_was_meant(admin: Admin, group: str) -> None:
    admin.groups.create(group)
    with pytest.raises(GroupNotFound, match=f"group '{group[:-1]}' does not exist .*Did you mean '{group}'"):
        admin.groups.describe(group[:-1])


@pytest.mark.parametrize("client", [Producer, Admin, lambda where: PullConsumer(where, group="g")])
def test_nobody_listens_there(client: type[Producer]) -> None:
    with closed_port() as port:
        unopened = client(ClientConfig(f"127.0.0.1:{port}", timeout_s=0.2))
        expected = (
            rf"no name server of 127.0.0.1:{port} was reached in 0.2 s .*refused.*; check the address.* steelyard up"
        )
        with pytest.raises(NoNameServer, match=expected):
            unopened.open()
        unopened.close()


def test_a_consumer_cannot_start_where_nobody_listens() -> None:
    with closed_port() as port:
        consumer = Consumer(ClientConfig(f"127.0.0.1:{port}", timeout_s=0.2), group="g")
        consumer.handles("orders")(Handled())
        with pytest.raises(NoNameServer, match="check the address"):
            consumer.run()


def test_one_of_two_name_servers_is_enough(cluster: Live, topic: str, group: str) -> None:
    with closed_port() as port, Producer(f"127.0.0.1:{port};{cluster.namesrv}", group=group) as producer:
        assert producer.send(Message(topic, b"x")).queue.topic == topic


def test_a_consumer_waits_for_a_topic_that_is_not_there_and_reports_it(
    admin: Admin, producer: Producer, cluster: Live, group: str
) -> None:
    name = f"awaited-{secrets.token_hex(6)}"
    findings: list[str] = []
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(name)(handled)
    consumer.on_warning(lambda finding: findings.append(finding.message))
    with consumer:
        until(
            lambda: any(f"topic '{name}' is not known to {cluster.namesrv}" in each for each in findings), "it is said"
        )
        assert name in str(consumer.explain())
        admin.topics.create(name, 1)
        send_all(producer, name, ["at last"])
        handled.wait(1)


def test_a_queue_that_is_not_there_is_refused(producer: Producer, cluster: Live, topic: str) -> None:
    with pytest.raises(SteelyardError, match="99"):
        producer.send(Message(topic, b"x"), queue=Queue(topic, cluster.brokers[0], 99), timeout_s=2)
    with pytest.raises(SteelyardError, match="nowhere"):
        producer.send(Message(topic, b"x"), queue=Queue(topic, "nowhere", 0), timeout_s=2)


def test_a_selector_that_fails_is_named(producer: Producer, topic: str) -> None:
    with pytest.raises(SteelyardError, match="ZeroDivisionError"):
        producer.send(Message(topic, b"x"), select=lambda queues, _: queues[1 // 0])


def test_a_topic_that_may_not_be_written_is_reported(admin: Admin, producer: Producer) -> None:
    name = f"closed-{secrets.token_hex(6)}"
    admin.topics.create(name, 2, write=False)
    with pytest.raises(SteelyardError, match=name):
        producer.send(Message(name, b"x"), timeout_s=2)


def test_a_condition_that_cannot_be_read_is_refused_at_once(cluster: Live, topic: str, group: str) -> None:
    consumer = Consumer(cluster.namesrv, group=group)
    consumer.handles(topic, sql="amount >")(Handled())
    with pytest.raises(SubscriptionUnreadable, match="amount >"):
        consumer.start()
    consumer.close()
    with PullConsumer(cluster.namesrv, group=group) as pull_consumer:
        pull_consumer.subscribe(topic, sql="amount >")
        with pytest.raises(SubscriptionUnreadable, match="amount >"):
            pull_consumer.poll()


def test_what_is_closed_stays_closed(cluster: Live, group: str) -> None:
    for client in (Producer(cluster.namesrv), PullConsumer(cluster.namesrv, group=group), Admin(cluster.namesrv)):
        client.open()
        client.close()
        client.close()
        with pytest.raises(ConfigurationError, match="closed; make another one"):
            client.open()


def test_a_handler_that_raises_is_reported_with_the_message_it_raised_at(
    cluster: Live, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic)
    def bill(message: object) -> None:
        raise ValueError(f"no such account in {message}")

    consumer.handles(f"{topic}-2")(handled)
    with caplog.at_level(logging.WARNING, "steelyard"), consumer:
        sent = producer.send(Message(topic, b"x"))
        until(lambda: any(sent.message_id in record.getMessage() for record in caplog.records), "it is in the log")
