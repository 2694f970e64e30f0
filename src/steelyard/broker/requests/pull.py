"""Pulling: 11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE, which do not differ here.

Flags: 1 the commit offset counts, 2 the pull may be held, 4 the filter comes with it; others are ignored. Order: may
the group read (fetch.py), the messages, the commit, and if there is no message, holding: as long as the client wants up
to a limit, and not at all if too many pulls are held. long_polling.py answers held pulls.

Apache returns 32 messages and 256 KiB at most. A client that requests more than 32 gets up to 1,024, within 256 KiB if
it names no bytes, else within those, up to 4 MiB. Left out: slaves, static topics, offsets of broadcasting members.
"""

from collections.abc import Mapping
from contextlib import suppress

from steelyard.broker.commit_fencing import commit_offset
from steelyard.broker.fetch import choose_filter, compile_subscription, read_messages, resolve_target
from steelyard.broker.held_pulls import HeldPull, PullSpec
from steelyard.broker.options import BrokerOptions
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.errors import ServerError
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, Command, Peer
from steelyard.wire.headers.pull import PullMessage

_FLAG_COMMIT_OFFSET, _FLAG_SUSPEND, _FLAG_SUBSCRIPTION = 1, 2, 4
_JAVA_MAX_MESSAGES = 32
_MAX_SUSPEND_MS = 300_000
"""A pull is not held for longer; its client pulls again."""


def _pull(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(PullMessage)
    flags, queue_id = header.sys_flag, header.queue_id
    target = resolve_target(state, header.consumer_group, header.topic, queue_id, request, now_ms)
    if isinstance(target, Command):
        return target
    group, topic = target.group.name, target.topic.name
    own_filter = None
    if flags & _FLAG_SUBSCRIPTION:
        own_filter = compile_subscription(state, header.expression_type, header.subscription)
    limits = _pull_limits(header, state.options)
    spec = PullSpec(group, topic, queue_id, header.queue_offset, *limits, own_filter, header.sub_version)
    message_filter = choose_filter(state, spec, target.group, request, peer)
    if isinstance(message_filter, Command):
        return message_filter
    answer = read_messages(state, spec, target, message_filter, request, peer, spec.offset)
    if flags & _FLAG_COMMIT_OFFSET and header.commit_offset >= 0:
        with suppress(ServerError):  # no room for one more offset is no reason not to read
            commit_offset(state, peer, group, topic, queue_id, header.commit_offset, None, now_ms)
    wait_ms = min(header.suspend_timeout_millis, _MAX_SUSPEND_MS)
    if (
        answer.code != ResponseCode.PULL_NOT_FOUND
        or not flags & _FLAG_SUSPEND
        or wait_ms <= 0
        or request.flag & ONEWAY_FLAG
        or len(state.held_pulls) >= state.options.max_held_pulls
    ):
        return answer
    key = target.topic.name_bytes
    state.held_pulls.hold(
        HeldPull(spec, key, peer, request.opaque, request.header_type, now_ms + wait_ms, message_filter, spec.offset)
    )
    if state.store.has_unflushed:
        # A message from the same read of the socket, not in the log yet, came before the pull was held.
        state.held_pulls.notify_arrival(key, spec.queue_id)
    return None


def _pull_limits(header: PullMessage, options: BrokerOptions) -> tuple[int, int]:
    """Return how many messages and bytes the response may have."""
    messages = max(1, min(header.max_msg_nums, options.max_pull_messages))
    max_bytes = header.max_msg_bytes
    if max_bytes is None or max_bytes <= 0:
        return messages, options.default_pull_bytes
    return messages, min(
        max_bytes, options.max_pull_bytes if messages > _JAVA_MAX_MESSAGES else options.default_pull_bytes
    )


HANDLERS: Mapping[int, RequestHandler] = {RequestCode.PULL_MESSAGE: _pull, RequestCode.LITE_PULL_MESSAGE: _pull}
