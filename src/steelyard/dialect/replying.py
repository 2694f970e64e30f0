"""Requests that want a reply, and replies: two messages with one correlation id between two clients.

Spec facts. A request is a message like any other; its properties name the client that waits, an id of its own and how
long it waits. A reply (325) goes to the topic ``<cluster>_REPLY_TOPIC``, which each broker has with one queue, and
repeats those properties. Its broker pushes it (326) to the client that waits, on the line that it knows that client by;
without one it answers 1. The client answers 0 to the push. Replies are in no queue: nobody pulls them.

A reply is said to the broker that the request lay on: that is where the asker has a line for sure.
"""

from typing import NamedTuple

from msgspec import structs

from steelyard.dialect.sending import send_request
from steelyard.errors import ConfigurationError, MalformedHeader, ReplyFailed
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.message import host_digits
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.compression import decompress
from steelyard.wire.headers.send import PushReply
from steelyard.wire.properties import LazyProperties
from steelyard.wire.property_names import CLUSTER, CORRELATION_ID, MESSAGE_TYPE, REPLY_TO_CLIENT, TTL
from steelyard.wire.sysflag import COMPRESSED, Compression

__all__ = ["PushedReply", "is_request", "read_pushed_reply", "reply_request", "request_properties"]

_WHERE = "pushed reply"
_NO_OFFSET = -1


def request_properties(client_id: str, correlation_id: str, ttl_ms: int) -> dict[str, str]:
    """Return what makes a message a request: add it to what is sent.

    >>> request_properties("10.0.0.7@1@sy1", "c-1", 3_000)
    {'CORRELATION_ID': 'c-1', 'REPLY_TO_CLIENT': '10.0.0.7@1@sy1', 'TTL': '3000'}
    """
    return {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(ttl_ms)}


def is_request(message: StoredMessage) -> bool:
    """Say whether somebody waits for a reply to a message, as far as it tells.

    >>> is_request(StoredMessage(Queue("prices", "a", 0), 7, b"sku-1"))
    False
    """
    properties = message.properties
    return CORRELATION_ID in properties and REPLY_TO_CLIENT in properties and CLUSTER in properties


def reply_request(
    group: str,
    message: StoredMessage,
    body: bytes,
    *,
    unique_key: str,
    now_ms: int,
    compress_from: int | None = None,
    compression: Compression = Compression.ZLIB,
    opaque: int = 0,
) -> Command:
    """Write a reply to a message, for the broker that the message was on; ReplyFailed if it is not a request."""
    asked = message.properties
    if not is_request(message):
        missing = [name for name in (CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER) if name not in asked]
        raise ReplyFailed(f"message {message.message_id} of {message.topic!r} has no {' and no '.join(missing)}")
    more = {name: asked[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in asked}
    reply = Message(f"{asked[CLUSTER]}_REPLY_TOPIC", body)
    command = send_request(
        group,
        reply,
        Queue(reply.topic, message.queue.broker, 0),
        unique_key=unique_key,
        now_ms=now_ms,
        more={MESSAGE_TYPE: "reply", **more},
        compress_from=compress_from,
        compression=compression,
        opaque=opaque,
    )
    return structs.replace(command, code=RequestCode.SEND_REPLY_MESSAGE_V2)


class PushedReply(NamedTuple):
    """A reply, and the id of the request that it belongs to."""

    correlation_id: str
    message: StoredMessage
    """As if it had been stored; its ``offset`` is -1, since it is in no queue."""


def read_pushed_reply(command: Command, broker: str) -> PushedReply:
    """Read a reply that a broker pushed (326); ``broker`` is its name. What cannot be read is a ProtocolError."""
    header = command.header(PushReply)
    properties = LazyProperties((header.properties or "").encode("utf-8", "replace"))
    correlation_id = properties.get(CORRELATION_ID)
    if correlation_id is None:
        raise MalformedHeader(f"the property {CORRELATION_ID} is missing", where=_WHERE)
    try:
        host_digits(header.store_host)  # a message's id may be made of it
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
