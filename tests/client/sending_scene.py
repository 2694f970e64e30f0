"""What tests of the producer share: a cluster with topics, what is stored in it, and waiting for something to be so."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from steelyard.broker.options import BrokerOptions
from steelyard.client.sync.admin import Admin
from steelyard.model import Queue, StoredMessage
from steelyard.serve.embedded import Cluster
from steelyard.wire.stored_messages import record_to_message
from tests.serve.raw_connection import RawConnection, pull_all


@contextmanager
def scene(
    brokers: int = 1, *, queues: int = 4, options: BrokerOptions | None = None, topic: str = "orders"
) -> Iterator[Cluster]:
    """Run a cluster that has a topic, with so many queues on each broker."""
    with Cluster(brokers=brokers, broker_options=options) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.topics.create(topic, queues)
        yield cluster


def stored(
    cluster: Cluster, topic: str = "orders", queues: int = 4, *, brokers: Collection[str] | None = None
) -> dict[Queue, list[StoredMessage]]:
    """Read all messages of a topic, by queue, from all brokers or from some."""
    found: dict[Queue, list[StoredMessage]] = {}
    for broker in cluster.brokers if brokers is None else brokers:
        with RawConnection(cluster.brokers[broker]) as connection:
            for queue_id in range(queues):
                records = pull_all(connection, topic, queue_id=queue_id)
                found[Queue(topic, broker, queue_id)] = [record_to_message(record, broker) for record in records]
    return found


def stored_bodies(cluster: Cluster, topic: str = "orders", queues: int = 4) -> list[bytes]:
    """Read the bodies of all messages of a topic."""
    return [message.body for messages in stored(cluster, topic, queues).values() for message in messages]
