"""Pull requests and responses: every message of a consumer passes here.

Response: batches that were stored as one record are unwrapped. A broker compares only hashes of tags, so the tag itself
is compared here; messages that do not match are left out, and the next pull starts after them. Offsets only grow: a
batch may start before the requested offset, and a broken broker may send anything. Messages before a damaged record are
good, and the next pull starts with the damaged one, so that it is not skipped. Bodies stay compressed, so that many
small bodies never become many large ones here. A response also suggests the broker for the next pull: the master (0),
or a slave while the reader is far behind.

Request of a reader without a group membership: the subscription is in the request (flag 4), so that no heartbeat is
needed. An Apache broker that may filter by properties does not refuse an SQL92 condition that it cannot read: it
returns everything. So the condition is checked before (46) where that matters.
"""

from collections.abc import Mapping
from typing import NamedTuple

from steelyard.balance.group.actions import PullMessages
from steelyard.balance.group.events import Pulled, PullFailed, PullOutcome
from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage, Subscription
from steelyard.wire.codes import RequestCode
from steelyard.wire.codes import ResponseCode as Answer
from steelyard.wire.command import Command
from steelyard.wire.headers import pull as about_pulls
from steelyard.wire.headers.pull import PullMessageResponse
from steelyard.wire.stored_messages import decode_sealed_messages

_BUSY_CODES = frozenset({Answer.SYSTEM_BUSY, Answer.FLOW_CONTROL})


class PullResponse(NamedTuple):
    """What a pull returned, and which broker of the same name to pull from next: 0 is the master."""

    event: Pulled | PullFailed
    suggested_broker_id: int


def decode_pull(
    action: PullMessages,
    answer: Command,
    subscriptions: Mapping[str, Subscription],
    message_type: type[StoredMessage] = StoredMessage,
) -> PullResponse:
    """Decode the response to a pull; a response that cannot be read raises a `SteelyardError`."""
    queue, generation, code = action.queue, action.generation, answer.code
    if code == Answer.SUCCESS:
        header = answer.header(PullMessageResponse)
        wanted = subscriptions.get(queue.topic)
        event = _decode_found(action, answer.body, header.next_begin_offset, wanted, message_type)
        return PullResponse(event, header.suggest_which_broker_id)
    if code in (Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY):
        header = answer.header(PullMessageResponse)
        following = max(header.next_begin_offset, action.offset)
        return PullResponse(Pulled(queue, generation, PullOutcome.NOTHING, following), header.suggest_which_broker_id)
    if code == Answer.PULL_OFFSET_MOVED:
        following = max(answer.header(PullMessageResponse).next_begin_offset, 0)
        # A slave may be behind its master, whose offsets count.
        return PullResponse(Pulled(queue, generation, PullOutcome.OFFSET_MOVED, following), 0)
    return PullResponse(PullFailed(queue, generation, code in _BUSY_CODES), 0)


def _decode_found(
    action: PullMessages,
    body: bytes,
    following: int,
    subscription: Subscription | None,
    message_type: type[StoredMessage],
) -> Pulled | PullFailed:
    filtered = subscription if subscription is not None and subscription.tags else None
    offsets: list[int] = []
    kept: list[StoredMessage] = []
    at, body_bytes = action.offset, 0
    try:
        for message in decode_sealed_messages(message_type, body, action.queue.broker):
            offset = message.offset
            if offset < at:
                continue
            at = offset + 1
            if filtered is None or filtered.matches_tag(message.tags):
                offsets.append(offset)
                kept.append(message)
                body_bytes += len(message.body)
    except SteelyardError as error:
        if at == action.offset:
            return PullFailed(action.queue, action.generation, why=str(error))
        following = at
    return Pulled(action.queue, action.generation, PullOutcome.FOUND, max(following, at), offsets, kept, body_bytes)


LONG_POLL_MS = 15_000

_SUSPEND_FLAG, _SUBSCRIPTION_FLAG = 2, 4


def pull_by_offset_request(group: str, pull: PullMessages, subscription: Subscription) -> Command:
    """Return the request of a pull.

    >>> from steelyard.model import Queue
    >>> pull = PullMessages(Queue("orders", "broker-a", 3), 1, 40)
    >>> request = pull_by_offset_request("report", pull, Subscription("orders", "paid"))
    >>> request.code, request.texts()["subscription"], request.texts()["sysFlag"]
    (<RequestCode.PULL_MESSAGE: 11>, 'paid', '6')
    """
    topic, _, queue_id = pull.queue
    flags = _SUBSCRIPTION_FLAG | (_SUSPEND_FLAG if pull.is_long_poll else 0)
    header = about_pulls.PullMessage(
        group,
        topic,
        queue_id,
        pull.offset,
        pull.max_messages,
        flags,
        0,
        LONG_POLL_MS,
        0,
        subscription.expression,
        subscription.expression_type.value,
    )
    return Command(RequestCode.PULL_MESSAGE, header)
