"""What tests of pull consumers share: topics with queues and messages, and polling until something is true."""

from collections.abc import Callable, Iterable, Sequence

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.pull_consumer import PullConsumer as AsyncPullConsumer
from steelyard.client.pull_consumer.subscribed import SubscribedReader
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import encode_properties
from tests.serve.raw_connection import RawConnection
from tests.waiting import until


def make_topic(cluster: Cluster, topic: str, queues: int = 4) -> list[Queue]:
    """Create a topic on every broker; return its queues, in order."""
    for address in cluster.brokers.values():
        with RawConnection(address) as connection:
            header = CreateTopic(topic, "TBW102", queues, queues, 6, "SINGLE_TAG", False)
            answer = connection.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            assert answer.code == 0, answer.remark
    return [Queue(topic, broker, number) for broker in cluster.brokers for number in range(queues)]


def put_all(cluster: Cluster, queue: Queue, messages: Iterable[bytes], **properties: str) -> None:
    """Store messages in a queue."""
    text = encode_properties(properties).decode()
    topic, broker, queue_id = queue
    header = SendMessageV2(
        "senders", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, text, 0, False, None, False
    )
    with RawConnection(cluster.brokers[broker]) as connection:
        for body in messages:
            answer = connection.request(RequestCode.SEND_MESSAGE_V2, header, body)
            assert answer.code == 0, answer.remark


def fill(cluster: Cluster, queues: Sequence[Queue], each: int) -> set[bytes]:
    """Store so many messages in each queue; return what they are."""
    sent: set[bytes] = set()
    for queue in queues:
        names = [f"{queue.broker}:{queue.queue_id}:{number}".encode() for number in range(each)]
        put_all(cluster, queue, names)
        sent.update(names)
    return sent


def bodies(messages: Iterable[ReceivedMessage]) -> list[bytes]:
    """Return what messages say."""
    return [message.body for message in messages]


def poll_until(
    consumer: PullConsumer, enough: Callable[[list[ReceivedMessage]], bool], most: int | None = None
) -> list[ReceivedMessage]:
    """Poll until what was polled is enough."""
    polled: list[ReceivedMessage] = []
    until(lambda: enough(polled), "enough was polled", meanwhile=lambda: polled.extend(consumer.poll(0.2, most)))
    return polled


def drain(consumer: PullConsumer, count: int, most: int | None = None) -> list[ReceivedMessage]:
    """Poll so many messages, and not one more."""
    polled = poll_until(consumer, lambda polled: len(polled) >= count, most)
    assert len(polled) == count
    return polled


def crash(consumer: PullConsumer) -> None:
    """Let a pull consumer vanish from its brokers as by a crash; then close what is left of it here."""
    consumer._ensure_open().call(lambda: _vanish(consumer._client))
    consumer.close(done=False)


def _vanish(client: AsyncPullConsumer) -> None:
    client._session.abort()
    if isinstance(client._reader, SubscribedReader):
        client._reader.member_runner.close()
        client._reader = None
