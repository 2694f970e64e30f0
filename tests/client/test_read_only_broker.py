"""A broker is taken out of service by its setting brokerPermission: producers leave it, and what it has is read."""

from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from tests.client.pull_scene import bodies, drain, fill, make_topic


def _written(namesrv: str) -> set[str]:
    """Return the brokers that a producer writes to that was started now."""
    with Producer(namesrv) as producer:
        return {producer.send(Message("orders", b"new")).queue.broker for _ in range(8)}


def test_producers_leave_a_broker_that_is_only_read_from_and_come_back() -> None:
    with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
        sent = fill(cluster, make_topic(cluster, "orders", 2), 10)
        admin.brokers.set_config("broker-0", {"brokerPermission": "4"})
        assert _written(cluster.namesrv) == {"broker-1"}
        with PullConsumer(cluster.namesrv, "drainers", start_from="first") as consumer:
            consumer.subscribe("orders")
            assert set(bodies(drain(consumer, len(sent) + 8))) == {*sent, b"new"}
        admin.brokers.set_config("broker-0", {"brokerPermission": "6"})
        assert _written(cluster.namesrv) == {"broker-0", "broker-1"}
