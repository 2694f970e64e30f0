"""What tests of pullers share: topics with some queues, messages in them, and polling until something is true."""

import time
from collections.abc import Callable, Iterable, Sequence

from tests.serve.line import Line

from steelyard.client.blocking.puller import Puller
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.puller import Puller as AsyncPuller
from steelyard.client.pulling.shared import Shared
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.send import SendShort
from steelyard.wire.properties import encode_properties

__all__ = ["bodies", "crash", "drain", "fill", "make_topic", "poll_until", "put_all"]


def make_topic(cluster: Cluster, topic: str, queues: int = 4) -> list[Queue]:
    """Create a topic on every broker; return its queues, in order."""
    for address in cluster.brokers.values():
        with Line(address) as line:
            header = CreateTopic(topic, "TBW102", queues, queues, 6, "SINGLE_TAG", False)
            answer = line.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            assert answer.code == 0, answer.remark
    return [Queue(topic, broker, number) for broker in cluster.brokers for number in range(queues)]


def put_all(cluster: Cluster, queue: Queue, messages: Iterable[bytes], **properties: str) -> None:
    """Store messages in a queue."""
    text = encode_properties(properties).decode()
    topic, broker, queue_id = queue
    header = SendShort("senders", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, text, 0, False, None, False)
    with Line(cluster.brokers[broker]) as line:
        for body in messages:
            answer = line.ask(RequestCode.SEND_MESSAGE_V2, header, body)
            assert answer.code == 0, answer.remark


def fill(cluster: Cluster, queues: Sequence[Queue], each: int) -> set[bytes]:
    """Store so many messages in each queue; return what they are."""
    sent: set[bytes] = set()
    for queue in queues:
        names = [f"{queue.broker}:{queue.queue_id}:{number}".encode() for number in range(each)]
        put_all(cluster, queue, names)
        sent.update(names)
    return sent


def bodies(messages: Iterable[Received]) -> list[bytes]:
    """Return what messages say."""
    return [message.body for message in messages]


def poll_until(puller: Puller, enough: Callable[[list[Received]], bool], most: int | None = None) -> list[Received]:
    """Poll until what was polled is enough."""
    polled: list[Received] = []
    end = time.monotonic() + 20
    while not enough(polled):
        assert time.monotonic() < end, f"only {len(polled)} messages came"
        polled += puller.poll(0.2, most)
    return polled


def drain(puller: Puller, count: int, most: int | None = None) -> list[Received]:
    """Poll so many messages, and not one more."""
    polled = poll_until(puller, lambda polled: len(polled) >= count, most)
    assert len(polled) == count
    return polled


def crash(puller: Puller) -> None:
    """Let a puller vanish from its brokers as by a crash; then close what is left of it here."""
    puller._ready().call(lambda: _vanish(puller._client))
    puller.close(done=False)


def _vanish(client: AsyncPuller) -> None:
    client._session.abandon()
    if isinstance(client._reading, Shared):
        client._reading.membership.end()
        client._reading = None
