"""Questions about offsets: where a queue begins and ends, what was stored at a time, how far a group is.

14 QUERY_CONSUMER_OFFSET and 15 UPDATE_CONSUMER_OFFSET are about a group; 29, 30 and 31 about a queue alone. A 4.9
broker says 0 for a group that never committed anything in a young queue: its table of all offsets (43) has the truth.
"""

from steelyard.balance.actions import Start
from steelyard.client.session import Session
from steelyard.dialect.starting import FindStart, has_true_offsets, request_of, stored_in
from steelyard.errors import NotFound, ProtocolError, ServerError
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetAnswer
from steelyard.wire.headers.group import CommitOffset, QueryOffset

__all__ = ["ask_committed", "ask_offset", "commit_offset"]

_TABLE_MS = 10_000


async def ask_offset(session: Session, queue: Queue, start: Start) -> int:
    """Return the offset of a place in a queue: its first message, behind its last one, or the first of a time."""
    code, header = request_of(FindStart(queue, start))
    answer = await session.ask_well(queue.broker, Command(code, header))
    return answer.header(OffsetAnswer).offset


async def ask_committed(session: Session, group: str, queue: Queue) -> int | None:
    """Return how far a group is in a queue; None if it never committed anything."""
    topic, broker, queue_id = queue
    header = QueryOffset(group, topic, queue_id, set_zero_if_not_found=False)
    try:
        answer = await session.ask_well(broker, Command(RequestCode.QUERY_CONSUMER_OFFSET, header))
    except NotFound:
        return None
    offset = answer.header(OffsetAnswer).offset
    if offset or has_true_offsets(answer.version):
        return offset
    request = Command(RequestCode.GET_ALL_CONSUMER_OFFSET, {})
    try:
        answer = await session.ask_well(broker, request, timeout_ms=_TABLE_MS)
        return stored_in(answer.body, group, queue)
    except (ServerError, ProtocolError):
        return offset


async def commit_offset(session: Session, group: str, queue: Queue, offset: int) -> None:
    """Store how far a group is in a queue, whoever reads it."""
    topic, broker, queue_id = queue
    header = CommitOffset(group, topic, queue_id, offset)
    await session.ask_well(broker, Command(RequestCode.UPDATE_CONSUMER_OFFSET, header))
