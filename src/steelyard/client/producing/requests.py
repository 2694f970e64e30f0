"""Request and reply: a message that names who waits for its answer, and the answer that a broker pushes back (326).

The request is a message like any other and is sent on the loop: the broker that has it must know this client by its
heartbeats, which are said on the loop's lines. A reply that nobody waits for any more is passed over.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from steelyard.client.producing.sent import Sent
from steelyard.dialect.asked import answered
from steelyard.dialect.replying import read_pushed_reply, request_properties
from steelyard.errors import LineClosed, ReplyTimedOut
from steelyard.model import Message, StoredMessage
from steelyard.net.clock import steady_ms
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.client.session import Session

__all__ = ["Requests"]

_Send = Callable[[Message, Mapping[str, str]], Awaitable[Sent]]


class Requests:
    """The requests of one producer that wait for a reply; on the loop."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}
        session.serves[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._replied

    async def ask(self, message: Message, send: _Send, timeout_ms: int) -> StoredMessage:
        """Send a request, and wait for its reply; raises ReplyTimedOut, or SendFailed."""
        correlation_id = secrets.token_hex(16)
        end_ms = steady_ms() + timeout_ms
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        try:
            await send(message, request_properties(self._session.client_id, correlation_id, timeout_ms))
            async with asyncio.timeout((end_ms - steady_ms()) / 1000):
                return await reply
        except TimeoutError:
            raise ReplyTimedOut(f"nobody replied to a request to {message.topic!r} in {timeout_ms} ms") from None
        finally:
            del self._waiting[correlation_id]

    def close(self) -> None:
        """Let nobody wait any longer."""
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(LineClosed("the producer was closed before a reply came"))

    def _replied(self, broker: str, push: Command) -> Command:
        correlation_id, message = read_pushed_reply(push, broker)
        reply = self._waiting.get(correlation_id)
        if reply is not None and not reply.done():
            names = self._session.names
            reply.set_result(
                structs.replace(message, queue=names.bare_queue(message.queue)) if names.namespace else message
            )
        return answered(push)
