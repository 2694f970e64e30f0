"""What tests of consumers share: messages that are put into queues, what handlers saw, and waiting for it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.admin import Admin
from steelyard.serve.embedded import Cluster
from steelyard.testing.clock import AdvanceableClock, ClusterClock
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import encode_properties
from tests.serve.raw_connection import RawConnection
from tests.waiting import until


@contextmanager
def clocked() -> Iterator[tuple[Cluster, Callable[[], None]]]:
    """Run a cluster, and give what lets a second pass there at once."""
    clock = AdvanceableClock()
    with Cluster(clock=clock) as cluster:
        yield cluster, lambda: ClusterClock(cluster, clock).advance(seconds=1)


class Seen:
    """What handlers were given, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.messages: list[ReceivedMessage] = []
        self.now = 0
        """How many handlers are at work."""
        self.most = 0

    def record_message(self, message: ReceivedMessage) -> None:
        """Record a message."""
        with self._lock:
            self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        """What was seen, in order."""
        with self._lock:
            return [message.body for message in self.messages]

    def counts(self) -> Counter[bytes]:
        """Return how often each body was seen."""
        return Counter(self.bodies)

    def wait(self, bodies: Iterable[bytes]) -> None:
        """Wait until all of these were seen."""
        wanted = set(bodies)
        until(lambda: wanted <= set(self.bodies), f"seeing all of {len(wanted)} messages")


def make_topic(cluster: Cluster, topic: str, queues: int = 4) -> None:
    """Make a topic."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(topic, queues)


def put(
    cluster: Cluster,
    topic: str,
    queue_id: int,
    bodies: Iterable[bytes],
    *,
    broker: str = "broker-0",
    sys_flag: int = 0,
    **properties: str,
) -> None:
    """Store messages in one queue, in order; a system flag may say of their bodies what is not so."""
    text = encode_properties(properties).decode()
    header = SendMessageV2(
        "senders", topic, "TBW102", 4, queue_id, sys_flag, 1_700_000_000_000, 0, text, 0, False, None, False
    )
    with RawConnection(cluster.brokers[broker]) as connection:
        for body in bodies:
            answer = connection.request(RequestCode.SEND_MESSAGE_V2, header, body)
            assert answer.code == 0, answer.remark


def fill(
    cluster: Cluster, topic: str, count: int, *, queues: int = 4, brokers: Iterable[str] = ("broker-0",)
) -> list[bytes]:
    """Store messages with bodies of their own, spread over all queues; return the bodies."""
    places = [(broker, queue_id) for broker in brokers for queue_id in range(queues)]
    stored: list[bytes] = []
    for turn, (broker, queue_id) in enumerate(places):
        bodies = [f"{topic}-{number}".encode() for number in range(turn, count, len(places))]
        put(cluster, topic, queue_id, bodies, broker=broker)
        stored += bodies
    return stored
