"""Request-reply: sends a message that names this client, and waits for the reply that a broker pushes (326).

The request is an ordinary message, sent on the loop: its broker must know this client by heartbeats, which go over the
loop's connections. A late reply is ignored.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from steelyard.client.producer.send_result import SendResult
from steelyard.errors import ConnectionClosed, ReplyTimedOut, TransportError
from steelyard.model import Message, StoredMessage
from steelyard.net.clock import steady_ms
from steelyard.protocol.request_reply import read_pushed_reply, request_properties
from steelyard.protocol.server_requests import success_response
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.client.session import Session

_Send = Callable[[Message, Mapping[str, str]], Awaitable[SendResult]]


class RequestReply:
    """The requests of one producer that wait for a reply; on the loop."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}
        session.request_handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._reply_received

    async def request(self, message: Message, send: _Send, timeout_ms: int) -> StoredMessage:
        """Send a request, and wait for its reply; raises ReplyTimedOut, or SendFailed."""
        correlation_id = secrets.token_hex(16)
        end_ms = steady_ms() + timeout_ms
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            await send(message, request_properties(self._session.client_id, correlation_id, timeout_ms))
            async with asyncio.timeout((end_ms - steady_ms()) / 1000):
                return await reply
        except TransportError:
            raise  # of the send, and maybe a TimedOut
        except TimeoutError:
            raise ReplyTimedOut(f"no reply to a request to {message.topic!r} within {timeout_ms} ms") from None
        finally:
            del self._waiting[correlation_id]

    def close(self) -> None:
        """Fail all requests that wait for a reply."""
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ConnectionClosed("the producer was closed before a reply came"))

    def _reply_received(self, broker: str, push: Command) -> Command:
        correlation_id, message = read_pushed_reply(push, broker)
        reply = self._waiting.get(correlation_id)
        if reply is not None and not reply.done():
            reply.set_result(self._session.namespace.unwrap_stored(message))
        return success_response(push)
