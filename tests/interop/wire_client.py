"""What the tests ask of a broker, in our own wire code: make topics, send, pull, commit."""

from collections.abc import Iterable, Iterator

from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.common import OffsetResponse, TopicNameRequest
from steelyard.wire.headers.group import CommitOffset, QueryConsumerOffset
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import MessageRecord, decode_records
from tests.interop.servers import WireConnection

GROUP = "interop"
_ALL_MAY = 6
_SUBSCRIBED = 4
_MOST_BUSY = 20
"""Each of these answers comes after some seconds."""


def create_topic(connection: WireConnection, topic: str, queues: int) -> None:
    """Make a topic with so many queues; a broker that is busy is asked again, a few times."""
    header = CreateTopic(topic, "TBW102", queues, queues, _ALL_MAY, "SINGLE_TAG", False)
    answer = connection.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    for _ in range(_MOST_BUSY):
        if answer.code != ResponseCode.SYSTEM_BUSY:
            break
        answer = connection.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    _fine(answer)


def delete_topic(connection: WireConnection, topic: str) -> None:
    """Remove a topic."""
    _fine(connection.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicNameRequest(topic)))


def create_group(connection: WireConnection, group: str) -> None:
    """Make a group: the newer release knows none that was not made."""
    body = encode_body(SubscriptionGroupConfig(name=group))
    _fine(connection.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body))


def send(
    connection: WireConnection,
    topic: str,
    queue_id: int,
    body: bytes,
    properties: dict[str, str],
    *,
    born_ms: int,
    sys_flag: int = 0,
) -> SendMessageResponse:
    """Send one message."""
    header = _send_header(topic, queue_id, properties, born_ms, sys_flag)
    return _fine(connection.ask(RequestCode.SEND_MESSAGE_V2, header, body)).header(SendMessageResponse)


def send_batch(
    connection: WireConnection, topic: str, queue_id: int, items: Iterable[BatchItem], *, born_ms: int
) -> SendMessageResponse:
    """Send several messages at once."""
    header = _send_header(topic, queue_id, {"WAIT": "true"}, born_ms, 0, batch=True)
    return _fine(connection.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items))).header(
        SendMessageResponse
    )


def _send_header(
    topic: str, queue_id: int, properties: dict[str, str], born_ms: int, sys_flag: int, *, batch: bool = False
) -> SendMessageV2:
    text = encode_properties(properties).decode()
    return SendMessageV2(GROUP, topic, "TBW102", 4, queue_id, sys_flag, born_ms, 7, text, 0, False, 16, batch)


def pull_all(connection: WireConnection, topic: str, queue_id: int) -> Iterator[MessageRecord]:
    """Pull every message of a queue, from the first it has to the last."""
    offset = 0
    while True:
        header = PullMessage(GROUP, topic, queue_id, offset, 32, _SUBSCRIBED, 0, 0, 0, "*", "TAG")
        answer = connection.ask(RequestCode.PULL_MESSAGE, header)
        if answer.code not in (0, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED):
            raise AssertionError(f"a pull of {topic}:{queue_id} at {offset} is answered {answer.code}: {answer.remark}")
        found = answer.header(PullMessageResponse)
        if answer.code == 0:
            yield from decode_records(answer.body, check_crc=True)
        elif found.next_begin_offset <= offset:
            assert offset == found.max_offset, f"{topic}:{queue_id} ends at {offset}, not at {found.max_offset}"
            return
        offset = found.next_begin_offset


def commit(connection: WireConnection, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Say how far a group is."""
    _fine(connection.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(group, topic, queue_id, offset)))


def committed(connection: WireConnection, group: str, topic: str, queue_id: int) -> int:
    """Ask how far a group is; -1 if the broker was never told."""
    answer = connection.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset(group, topic, queue_id, False))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return -1
    return _fine(answer).header(OffsetResponse).offset


def _fine(answer: Command) -> Command:
    assert answer.code == 0, f"the broker answers {answer.code}: {answer.remark}"
    return answer
