"""Request-reply: two messages with one correlation id between two clients.

A request is a message with properties that name the waiting client, a correlation id and a time to live. A reply (325)
goes to the topic ``<cluster>_REPLY_TOPIC``, which each broker has with one queue, and repeats those properties. Its
broker pushes it (326) to the waiting client, on the connection by which it knows that client; without one it returns 1.
The client acknowledges the push with 0. Replies are in no queue and never pulled.

A reply is sent to the broker of the request, where the requester has a connection for certain.
"""

from typing import NamedTuple

from msgspec import structs

from steelyard.errors import ConfigurationError, MalformedHeader, ReplyFailed
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.message import host_hex
from steelyard.protocol.send import send_request
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.compression import decompress
from steelyard.wire.headers.send import PushReplyMessage
from steelyard.wire.properties import LazyProperties
from steelyard.wire.property_names import CLUSTER, CORRELATION_ID, MESSAGE_TYPE, REPLY_TO_CLIENT, TTL
from steelyard.wire.sysflag import COMPRESSED, Compression

_WHERE = "pushed reply"
_NO_OFFSET = -1


def request_properties(client_id: str, correlation_id: str, ttl_ms: int) -> dict[str, str]:
    """Return the properties that make a message a request.

    >>> request_properties("10.0.0.7@1@sy1", "c-1", 3_000)
    {'CORRELATION_ID': 'c-1', 'REPLY_TO_CLIENT': '10.0.0.7@1@sy1', 'TTL': '3000'}
    """
    return {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(ttl_ms)}


def is_request(message: StoredMessage) -> bool:
    """Say whether a message requests a reply.

    >>> is_request(StoredMessage(Queue("prices", "a", 0), 7, b"sku-1"))
    False
    """
    properties = message.properties
    return CORRELATION_ID in properties and REPLY_TO_CLIENT in properties and CLUSTER in properties


def reply_request(
    group: str,
    request: StoredMessage,
    body: bytes,
    *,
    unique_key: str,
    now_ms: int,
    compress_from: int | None = None,
    compression: Compression = Compression.ZLIB,
    opaque: int = 0,
) -> Command:
    """Encode a reply to a message, for the broker of that message; ReplyFailed if it is not a request."""
    asked = request.properties
    if not is_request(request):
        missing = [name for name in (CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER) if name not in asked]
        raise ReplyFailed(f"message {request.message_id} of {request.topic!r} has no {' and no '.join(missing)}")
    more = {name: asked[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in asked}
    reply = Message(f"{asked[CLUSTER]}_REPLY_TOPIC", body)
    command = send_request(
        group,
        reply,
        Queue(reply.topic, request.queue.broker, 0),
        unique_key=unique_key,
        now_ms=now_ms,
        extra_properties={MESSAGE_TYPE: "reply", **more},
        compress_from=compress_from,
        compression=compression,
        opaque=opaque,
    )
    return structs.replace(command, code=RequestCode.SEND_REPLY_MESSAGE_V2)


class PushedReply(NamedTuple):
    """A reply, and the correlation id of its request."""

    correlation_id: str
    message: StoredMessage
    """As if it had been stored; its ``offset`` is -1, since it is in no queue."""


def read_pushed_reply(command: Command, broker: str) -> PushedReply:
    """Decode a reply that a broker pushed (326); ``broker`` is its name. An unreadable one is a ProtocolError."""
    header = command.header(PushReplyMessage)
    properties = LazyProperties((header.properties or "").encode("utf-8", "replace"))
    correlation_id = properties.get(CORRELATION_ID)
    if correlation_id is None:
        raise MalformedHeader(f"the property {CORRELATION_ID} is missing", where=_WHERE)
    try:
        host_hex(header.store_host)  # a message id may be made of it
    except ConfigurationError:
        raise MalformedHeader(f"the store host is {header.store_host[:80]!r}", where=_WHERE) from None
    body, sys_flag = command.body, header.sys_flag
    if sys_flag & COMPRESSED and body:
        body, sys_flag = decompress(body, sys_flag), sys_flag & ~COMPRESSED
    message = StoredMessage(
        Queue(header.topic, broker, header.queue_id),
        _NO_OFFSET,
        body,
        properties,
        born_ms=header.born_timestamp,
        stored_ms=header.store_timestamp,
        size=len(command.body),
        flag=header.flag,
        sys_flag=sys_flag,
        reconsume_times=header.reconsume_times or 0,
        born_host=header.born_host,
        store_host=header.store_host,
    )
    return PushedReply(correlation_id, message)
