"""The scene that the administrator's tool is shown: a topic with messages, a group that runs, one that went away."""

from dataclasses import dataclass

from tests.interop.clients import until
from tests.interop.java_clients import JavaClients, JavaProducer, JavaPushConsumer, JavaSendResult, every
from tests.interop.wire_client import committed

QUEUES = 4


@dataclass(frozen=True, slots=True)
class Shop:
    """Names are the test's own, so that scenes do not meet."""

    topic: str
    buyers: str
    idlers: str
    sellers: str
    sent: list[JavaSendResult]
    consumer: JavaPushConsumer
    producer: JavaProducer


def open_shop(hands: JavaClients, topic: str, group: str) -> Shop:
    """Send two messages to each queue, which both groups handle, and one more to the last, after the idlers left."""
    sellers, idlers = f"{group}-sellers", f"{group}-idlers"
    producer = hands.producer(sellers, heartbeatBrokerInterval=1000)
    sent = [
        producer.send_selected(topic, f"body {number}", number % QUEUES, tags="T", keys=f"k{number} all")
        for number in range(2 * QUEUES)
    ]
    gone = hands.push(idlers, every(topic))
    consumer = hands.push(group, every(topic))
    gone.wait(2 * QUEUES)
    _reported(hands, gone, topic, idlers, [2, 2, 2, 2])
    gone.stop()
    sent.append(producer.send_selected(topic, "more", QUEUES - 1, tags="T", keys="m"))
    consumer.wait(2 * QUEUES + 1)
    _reported(hands, consumer, topic, group, [2, 2, 2, 3])
    return Shop(topic, group, idlers, sellers, sent, consumer, producer)


def _reported(hands: JavaClients, consumer: JavaPushConsumer, topic: str, group: str, offsets: list[int]) -> None:
    """Wait until the broker was told how far a group is."""

    def known() -> list[int]:
        consumer.persist()
        with hands.cluster.connection() as connection:
            return [committed(connection, group, topic, number) for number in range(QUEUES)]

    until(known, lambda found: found == offsets)
