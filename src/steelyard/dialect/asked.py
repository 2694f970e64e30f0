"""What brokers ask of a client on its own line, and what it answers, where somebody's code or offsets are needed.

309 CONSUME_MESSAGE_DIRECTLY          handle this message now: one record in the body; the answer says how it went
221 GET_CONSUMER_STATUS_FROM_CLIENT   how far are you in this topic: the answer has an offset for each queue
39 and 326 are read in transactions.py and replying.py; the last wants `answered`, the first is oneway.

Answers name the release of our client, not of a server. Left out: what a member answers by itself (requests.py).
"""

from collections.abc import Mapping
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from msgspec import structs

from steelyard.errors import MalformedHeader, MalformedRecord
from steelyard.model import Queue, StoredMessage
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.offsets import MemberOffsets
from steelyard.wire.bodies.running import DirectOutcome, DirectResult
from steelyard.wire.codes import OUR_VERSION, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.group import ConsumeDirectly, GroupAndTopic
from steelyard.wire.maps import ByQueue
from steelyard.wire.stored import messages_of

__all__ = [
    "HandleNow",
    "answered",
    "handled_answer",
    "offsets_answer",
    "only_message",
    "read_handle_now",
    "read_offsets_question",
    "refused",
]

M = TypeVar("M", bound=StoredMessage)

_LONGEST_REMARK = 500


def answered(request: Command, body: bytes = b"") -> Command:
    """Answer a request of a broker: it is done."""
    return structs.replace(answer_to(request, body=body), version=OUR_VERSION)


def refused(request: Command, why: str, code: int = ResponseCode.SYSTEM_ERROR) -> Command:
    """Answer a request of a broker that cannot be done.

    >>> refused(Command(309, opaque=7), "no handler is for that topic").remark
    'request 309 was not served: no handler is for that topic'
    """
    remark = f"request {request.code} was not served: {why[:_LONGEST_REMARK]}"
    return structs.replace(answer_to(request, code, remark=remark), version=OUR_VERSION)


def only_message(make: type[M], request: Command, broker: str) -> M:
    """Return the one message that is a request's body, of the kind wanted; ``broker`` is the name of who has it."""
    found = list(islice(messages_of(make, request.body, broker), 2))
    if len(found) != 1:
        how_many = "no message is" if not found else "several messages are"
        raise MalformedRecord(f"{how_many} in its body, one was announced", where=f"request {request.code}")
    return found[0]


class HandleNow(NamedTuple, Generic[M]):
    """A message that a member of a group is told to handle; ``client_id`` is the member, if the broker names it."""

    group: str
    client_id: str | None
    message: M


def read_handle_now(make: type[M], request: Command, broker: str) -> HandleNow[M]:
    """Read what is to be handled at once (309), as a message of the kind wanted."""
    header = request.header(ConsumeDirectly)
    message = only_message(make, request, header.broker_name or broker)
    return HandleNow(header.consumer_group, header.client_id, message)


def handled_answer(
    request: Command,
    outcome: DirectOutcome,
    *,
    spent_ms: int,
    remark: str | None = None,
    is_orderly: bool = False,
) -> Command:
    """Answer how handling a message went (309); ``remark`` is what the handler raised.

    >>> handled_answer(Command(309), DirectOutcome.SUCCESS, spent_ms=2).body
    b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":2}'
    """
    said = None if remark is None else remark[:_LONGEST_REMARK]
    result = DirectResult(outcome=outcome, order=is_orderly, remark=said, spent_ms=spent_ms)
    return answered(request, encode_body(result))


def read_offsets_question(request: Command) -> tuple[str, str]:
    """Read of which group and topic the offsets are asked for (221)."""
    header = request.header(GroupAndTopic)
    if header.topic is None:
        raise MalformedHeader("the field topic is missing", where="question about offsets")
    return header.group, header.topic


def offsets_answer(request: Command, offsets: Mapping[Queue, int]) -> Command:
    """Answer how far a member is in each of its queues (221).

    >>> offsets_answer(Command(221), {Queue("orders", "a", 3): 41}).body
    b'{"consumerTable":{},"messageQueueTable":{{"brokerName":"a","queueId":3,"topic":"orders"}:41}}'
    """
    return answered(request, encode_body(MemberOffsets(queues=ByQueue(offsets))))
