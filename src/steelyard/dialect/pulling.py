"""The answer to a pull as an event: every message of a consumer passes here.

Rules. Batches that were stored as one record are unwrapped. A broker compares hashes of tags only, so the tag itself is
compared here; what is not wanted is left out, and the pull goes on behind it. Offsets only go up: a batch may begin
before the offset that was asked for, and a broken broker may say anything. Messages before a damaged record are good,
and the next pull begins with the damaged one, so that it is met again and not skipped.

Bodies stay as they are stored: who hands a message out opens it, and finds there what cannot be opened. So many small
bodies never become many large ones here.

An answer also suggests where to pull next: at the master (0), or at a slave, while the reader is far behind.
"""

from collections.abc import Mapping
from typing import NamedTuple

from steelyard.balance.actions import Pull
from steelyard.balance.events import Pulled, PullFailed, PullOutcome
from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage, Subscription
from steelyard.wire.codes import ResponseCode as Answer
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullAnswer
from steelyard.wire.stored import sealed_of

__all__ = ["Answered", "pulled", "takes"]

_BUSY = frozenset({Answer.SYSTEM_BUSY, Answer.FLOW_CONTROL})


class Answered(NamedTuple):
    """What a pull brought, and which broker of the same name to pull from next: 0 is the master."""

    event: Pulled | PullFailed
    broker_id: int


def pulled(
    action: Pull, answer: Command, wanted: Mapping[str, Subscription], make: type[StoredMessage] = StoredMessage
) -> Answered:
    """Return what a pull brought; only errors of the house's tree are raised, by an answer that cannot be read."""
    queue, generation, code = action.queue, action.generation, answer.code
    if code == Answer.SUCCESS:
        header = answer.header(PullAnswer)
        event = _found(action, answer.body, header.next_begin_offset, wanted.get(queue.topic), make)
        return Answered(event, header.suggest_which_broker_id)
    if code in (Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY):
        header = answer.header(PullAnswer)
        following = max(header.next_begin_offset, action.offset)
        return Answered(Pulled(queue, generation, PullOutcome.NOTHING, following), header.suggest_which_broker_id)
    if code == Answer.PULL_OFFSET_MOVED:
        following = max(answer.header(PullAnswer).next_begin_offset, 0)
        # A slave may be behind its master, whose word counts.
        return Answered(Pulled(queue, generation, PullOutcome.MOVED, following), 0)
    return Answered(PullFailed(queue, generation, code in _BUSY), 0)


def _found(
    action: Pull, body: bytes, following: int, subscription: Subscription | None, make: type[StoredMessage]
) -> Pulled | PullFailed:
    filtered = subscription if subscription is not None and subscription.tags else None
    offsets: list[int] = []
    kept: list[StoredMessage] = []
    at, body_bytes = action.offset, 0
    try:
        for message in sealed_of(make, body, action.queue.broker):
            offset = message.offset
            if offset < at:
                continue
            at = offset + 1
            if filtered is None or takes(filtered, message):
                offsets.append(offset)
                kept.append(message)
                body_bytes += len(message.body)
    except SteelyardError as error:
        if at == action.offset:
            return PullFailed(action.queue, action.generation, why=str(error))
        following = at
    return Pulled(action.queue, action.generation, PullOutcome.FOUND, max(following, at), offsets, kept, body_bytes)


def takes(subscription: Subscription, message: StoredMessage) -> bool:
    """Say whether a message is wanted, by the tag itself."""
    return subscription.takes(message.tags)
