"""Where to start in a queue for which nothing is stored: a second question, after 14 was answered with "nothing".

30 GET_MAX_OFFSET              at the end: what is written from now on
31 GET_MIN_OFFSET              at the first message that is still there
29 SEARCH_OFFSET_BY_TIMESTAMP  at the first message stored at a time or later

The topic of retries always starts at its first message: whoever failed a message there wants it back, however new the
group is. Java starts it at 0, which is the same until messages are deleted, and then costs a round trip more.
"""

from msgspec import Struct

from steelyard.balance.actions import AskOffset, Start, StartAt
from steelyard.model import Queue
from steelyard.model.names import RETRY
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.fields import Header
from steelyard.wire.headers.common import QueueRequest
from steelyard.wire.headers.group import GetMaxOffset, SearchOffset

__all__ = ["FindStart", "find_start", "request_of"]


class FindStart(Struct, frozen=True, tag=True):
    """Ask where a queue starts that has no stored offset: the follow-up of an `AskOffset`."""

    queue: Queue
    start: Start


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
