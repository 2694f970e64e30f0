"""Request and reply: a consumer answers a message (324, 325), and its sender gets the answer pushed (326).

Spec facts. The reply's property REPLY_TO_CLIENT names the client that asked, which must have a line to this broker; if
it has none, or nobody is named, the answer is 1. What is pushed has PUSH_REPLY_TIME added. Replies are not stored: the
answer has the id ``0``, as Apache's has with ``storeReplyMessageEnable=false``.

Unlike Apache, the broker does not wait for the asker to confirm that it got the push before it answers the replier.
"""

from collections.abc import Mapping

from msgspec import structs

from steelyard.broker.handlers import Handler
from steelyard.broker.refusals import refusal, refused
from steelyard.broker.requests.send import check_place
from steelyard.broker.state import State
from steelyard.broker.storing import as_text
from steelyard.errors import LimitExceeded, SteelyardError
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.send import PushReply, Send, SendAnswer, SendShort
from steelyard.wire.peers import Peer
from steelyard.wire.properties import parse_properties
from steelyard.wire.property_names import PUSH_REPLY_TIME, REGION, REPLY_TO_CLIENT, TRACE_ON

__all__ = ["HANDLERS"]


def _take_long(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    return _take(state, request, peer, now_ms, Send)


def _take_short(state: State, request: Command, peer: Peer, now_ms: int) -> Command:
    return _take(state, request, peer, now_ms, SendShort)


def _take(state: State, request: Command, peer: Peer, now_ms: int, kind: type[Send] | type[SendShort]) -> Command:
    try:
        return _push(state, request, peer, now_ms, request.header(kind))
    except SteelyardError as error:
        return structs.replace(refused(request, error), fields=state.stamps.on_refusals)


def _push(state: State, request: Command, peer: Peer, now_ms: int, header: Send | SendShort) -> Command:
    """Push a reply to the client that waits for it."""
    queue_id = check_place(state, header).queue_id
    if len(request.body) > state.options.max_message_bytes:
        raise LimitExceeded("the body", where="reply", limit=state.options.max_message_bytes, found=len(request.body))
    properties = parse_properties((header.properties or "").encode())
    client_id = properties.get(REPLY_TO_CLIENT)
    if client_id is None:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"reply message properties[{REPLY_TO_CLIENT}] is null")
    asker = state.producers.by_id(client_id)
    if asker is None:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"push reply message fail, channel of <{client_id[:255]}> not found.")
    stamps = state.stamps
    properties |= {REGION: stamps.region, TRACE_ON: stamps.trace, PUSH_REPLY_TIME: str(now_ms)}
    fields = PushReply(
        header.producer_group,
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        header.queue_id,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        as_text(properties).decode(),
        header.reconsume_times,
        header.unit_mode or False,
        born_host=peer.address,
        store_host=state.options.address,
        store_timestamp=now_ms,
    )
    code, opaque = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, state.next_opaque()
    state.post(asker, Command(code, fields, request.body, opaque=opaque, version=SERVER_VERSION))
    answer = SendAnswer("0", queue_id, 0, msg_region=stamps.region, trace_on=stamps.trace)
    return answer_to(request, fields=answer)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_REPLY_MESSAGE: _take_long,
    RequestCode.SEND_REPLY_MESSAGE_V2: _take_short,
}
