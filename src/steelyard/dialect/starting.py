"""Where to start in a queue for which nothing is stored: a second question, after 14 was answered with "nothing".

30 GET_MAX_OFFSET              at the end: what is written from now on
31 GET_MIN_OFFSET              at the first message that is still there
29 SEARCH_OFFSET_BY_TIMESTAMP  at the first message stored at a time or later

43 GET_ALL_CONSUMER_OFFSET     what is stored, of all groups

The last one is for release 4.9, which answers 14 with 0 where nothing is stored, as long as the queue has its first
message or none: a new group that wants what comes would be given all that there is. So a 0 of such a broker is looked
into: where the queue has messages before the wanted start, the table of offsets tells whether the 0 is the group's own.
Only slaves ask for that table otherwise, every ten seconds; it is asked for once for each queue that begins so.

The topic of retries always starts at its first message: whoever failed a message there wants it back, however new the
group is. Java starts it at 0, which is the same until messages are deleted, and then costs a round trip more.
"""

from msgspec import Struct

from steelyard.balance.actions import AskOffset, Start, StartAt
from steelyard.model import Queue
from steelyard.model.names import RETRY
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import GroupOffsets
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import Version
from steelyard.wire.fields import Header
from steelyard.wire.headers.common import QueueRequest
from steelyard.wire.headers.group import GetMaxOffset, SearchOffset

__all__ = ["AskStored", "FindStart", "find_start", "has_true_offsets", "is_doubtful", "request_of", "stored_in"]


class FindStart(Struct, frozen=True, tag=True):
    """Ask where a queue starts that has no stored offset: the follow-up of an `AskOffset`."""

    queue: Queue
    start: Start
    in_doubt: bool = False
    """Whether the broker said that 0 is stored, which may not be true."""


class AskStored(Struct, frozen=True, tag=True):
    """Ask whether a group has an offset of a queue; if it has none, it starts where a `FindStart` found."""

    queue: Queue
    found: int


def has_true_offsets(version: int) -> bool:
    """Say whether a broker tells a group without an offset from one that is at 0, by the release it names.

    >>> has_true_offsets(Version.V4_9_7), has_true_offsets(Version.V5_5_0)
    (False, True)
    """
    return version >= Version.V5_0_0


def stored_in(table: bytes, group: str, queue: Queue) -> int | None:
    """Return how far a group is by the table of all offsets (43); None if it never was there.

    >>> stored_in(b'{"offsetTable":{"orders@billing":{0:7}}}', "billing", Queue("orders", "broker-a", 0))
    7
    """
    offsets = decode_body(GroupOffsets, table).offsets.get(f"{queue.topic}@{group}")
    return None if offsets is None else offsets.get(queue.queue_id)


def is_doubtful(queue: Queue, start: Start, offset: int, version: int) -> bool:
    """Say whether an offset may not be what is stored, and it matters."""
    is_early = offset == 0 and start.at is not StartAt.FIRST and not queue.topic.startswith(RETRY)
    return is_early and not has_true_offsets(version)


def find_start(action: AskOffset) -> FindStart:
    """Return the question that follows when nothing is stored.

    >>> find_start(AskOffset(Queue("%RETRY%billing", "broker-a", 0), Start())).start.at.value
    'first'
    """
    if action.queue.topic.startswith(RETRY):
        return FindStart(action.queue, Start(StartAt.FIRST))
    return FindStart(action.queue, action.start)


def request_of(question: FindStart) -> tuple[Code, Header]:
    """Return code and header of the question."""
    topic, _, queue_id = question.queue
    match question.start.at:
        case StartAt.LAST:
            return Code.GET_MAX_OFFSET, GetMaxOffset(topic, queue_id)
        case StartAt.FIRST:
            return Code.GET_MIN_OFFSET, QueueRequest(topic, queue_id)
        case StartAt.TIME:
            return Code.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset(topic, queue_id, question.start.time_ms)
