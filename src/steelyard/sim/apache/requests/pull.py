"""Pulling, as Apache serves it: 11.

What is wanted is in the request (bit 4), or is what the group's heartbeats said last: 24 where the broker knows nobody
of the group or the group does not want the topic, 25 where the member knows of a later subscription. Bit 1 commits an
offset on the way, before anything else happens. With nothing to give, a pull that allows it (bit 2) is held once.

Left out: SQL92 (everything passes), slaves, limits of bytes.
"""

from collections.abc import Mapping

from steelyard.model import Subscription
from steelyard.sim.apache.held import HeldPull
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.requests.offsets import commit
from steelyard.sim.apache.requests.send import bad_queue
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull, PullAnswer

__all__ = ["HANDLERS", "pull_again"]

_COMMITS, _MAY_WAIT, _HAS_SUBSCRIPTION = 1, 2, 4
_MOST = 32
_NO_SUCH = "the consumer's group info not exist"


def _pull(state: State, request: Command, line: Line, now_ms: int) -> Command | None:
    return _serve(state, request, line, now_ms, may_wait=True)


def pull_again(state: State, request: Command, line: Line, now_ms: int) -> Command | None:
    """Serve a pull that was held, and is not held again."""
    return _serve(state, request, line, now_ms, may_wait=False)


def _serve(state: State, request: Command, line: Line, now_ms: int, *, may_wait: bool) -> Command | None:
    header = request.header(Pull)
    state.groups.add(header.consumer_group)
    topic = state.topics.get(header.topic)
    if topic is None:
        return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{header.topic}] not exist")
    if not 0 <= header.queue_id < topic.read_queues:
        return state.answer(request, bad_queue(state), remark=f"queueId[{header.queue_id}] is illegal")
    hashes = _wanted(state, header)
    if isinstance(hashes, ResponseCode):
        return state.answer(request, hashes, remark=_NO_SUCH)
    if header.sys_flag & _COMMITS and may_wait:
        commit(state, line, header.consumer_group, state.queue(header.topic, header.queue_id), header.commit_offset)
    code, next_offset, body = _read(state, header, hashes)
    if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & _MAY_WAIT and may_wait:
        until_ms = now_ms + header.suspend_timeout_millis
        pull = HeldPull(line, request, header.queue_offset, hashes, until_ms)
        state.held.add((header.topic, header.queue_id), pull)
        return None
    flags = 0 if state.release is Release.V5 else None
    fields = PullAnswer(
        suggest_which_broker_id=0,
        next_begin_offset=next_offset,
        min_offset=0,
        max_offset=state.log.end(header.topic, header.queue_id),
        topic_sys_flag=flags,
        group_sys_flag=flags,
    )
    return state.answer(request, code, fields, body)


def _wanted(state: State, header: Pull) -> tuple[int, ...] | ResponseCode:
    """Return the hashes of the tags that are wanted, none for all; or why it is not known."""
    if header.sys_flag & _HAS_SUBSCRIPTION:
        return Subscription(header.topic, header.subscription or "*").hashes
    group = state.registry.get(header.consumer_group)
    if group is None:
        return ResponseCode.SUBSCRIPTION_NOT_EXIST
    known = group.subscriptions.get(header.topic)
    if known is None:
        return ResponseCode.SUBSCRIPTION_NOT_EXIST
    if known.version < header.sub_version:
        return ResponseCode.SUBSCRIPTION_NOT_LATEST
    return known.hashes


def _read(state: State, header: Pull, hashes: tuple[int, ...]) -> tuple[ResponseCode, int, bytes]:
    """Return how it went, where to go on, and the messages."""
    topic, queue_id, offset = header.topic, header.queue_id, header.queue_offset
    end = state.log.end(topic, queue_id)
    if offset == end:
        return ResponseCode.PULL_NOT_FOUND, offset, b""
    if not 0 <= offset < end:
        return ResponseCode.PULL_OFFSET_MOVED, 0 if offset < 0 else end, b""
    found = state.log.read(topic, queue_id, offset, min(end, offset + min(header.max_msg_nums, _MOST)))
    matching = [entry.raw for entry in found if not hashes or entry.tag in hashes]
    next_offset = offset + len(found)
    if not matching:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset, b""
    return ResponseCode.SUCCESS, next_offset, b"".join(matching)


HANDLERS: Mapping[int, Handler] = {RequestCode.PULL_MESSAGE: _pull}
