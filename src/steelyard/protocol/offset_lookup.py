"""Offset lookup: where to start in a queue without a committed offset (ConsumeFromWhere).

30 GET_MAX_OFFSET              at the end: what is stored from now on
31 GET_MIN_OFFSET              at the first message that is still stored
29 SEARCH_OFFSET_BY_TIMESTAMP  at the first message stored at a time or later
43 GET_ALL_CONSUMER_OFFSET     the committed offsets of all groups

The last one is for release 4.9, which returns 0 for a missing offset as long as the queue has its first message: a new
group that starts at the end would get all messages. So if the queue has messages before the wanted start, the table of
all offsets shows whether the 0 was committed. It is queried once for each queue that starts so.

The retry topic always starts at its first message, however new the group is. Java starts it at 0, which is the same
until messages are deleted, and then costs one more round trip.
"""

from msgspec import Struct

from steelyard.balance.group.actions import QueryStartOffset, StartAt, StartPosition
from steelyard.model import Queue
from steelyard.model.reserved_names import RETRY_PREFIX
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import ConsumerOffsetTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import Version
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.common import QueueRequest
from steelyard.wire.headers.group import GetMaxOffset, SearchOffset


class FindStartOffset(Struct, frozen=True, tag=True):
    """Query the start of a queue without a committed offset, after a `QueryStartOffset`."""

    queue: Queue
    start: StartPosition
    is_zero_doubtful: bool = False
    """Whether the broker returned 0, which may not be committed."""


class QueryStoredOffset(Struct, frozen=True, tag=True):
    """Query whether a group has an offset of a queue; if not, it starts where `FindStartOffset` found."""

    queue: Queue
    found_offset: int


def reports_missing_offsets(version: int) -> bool:
    """Say whether a broker distinguishes a missing offset from 0, by its release.

    >>> reports_missing_offsets(Version.V4_9_7), reports_missing_offsets(Version.V5_5_0)
    (False, True)
    """
    return version >= Version.V5_0_0


def stored_offset(table: bytes, group: str, queue: Queue) -> int | None:
    """Return the offset of a group in the table of all offsets (43), or None.

    >>> stored_offset(b'{"offsetTable":{"orders@billing":{0:7}}}', "billing", Queue("orders", "broker-a", 0))
    7
    """
    offsets = decode_body(ConsumerOffsetTable, table).offsets.get(f"{queue.topic}@{group}")
    return None if offsets is None else offsets.get(queue.queue_id)


def is_offset_doubtful(queue: Queue, start: StartPosition, offset: int, version: int) -> bool:
    """Say whether an offset may not be committed, and it matters."""
    is_early = offset == 0 and start.at is not StartAt.FIRST and not queue.topic.startswith(RETRY_PREFIX)
    return is_early and not reports_missing_offsets(version)


def find_start_offset(action: QueryStartOffset) -> FindStartOffset:
    """Return the query that follows when no offset is stored.

    >>> find_start_offset(QueryStartOffset(Queue("%RETRY%billing", "broker-a", 0), StartPosition())).start.at.value
    'first'
    """
    if action.queue.topic.startswith(RETRY_PREFIX):
        return FindStartOffset(action.queue, StartPosition(StartAt.FIRST))
    return FindStartOffset(action.queue, action.start)


def start_offset_request(query: FindStartOffset) -> tuple[Code, Header]:
    """Return code and header of the query."""
    topic, _, queue_id = query.queue
    match query.start.at:
        case StartAt.LAST:
            return Code.GET_MAX_OFFSET, GetMaxOffset(topic, queue_id)
        case StartAt.FIRST:
            return Code.GET_MIN_OFFSET, QueueRequest(topic, queue_id)
        case StartAt.TIME:
            return Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(topic, queue_id, query.start.time_ms)
