"""QueueBrowser: a pull consumer for tools. It joins no group, commits nothing, and decompresses only previews.

A body of a few kilobytes may hold 16 MiB, and the dashboard often runs in the process of a broker. What cannot be
decompressed is returned as it is stored: a tool has to show that too, and sends no dead letters.
"""

from typing import TypeVar

from steelyard.client.admin.admin_session import TOOLS_GROUP
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.decompression import MAX_OPEN_BYTES
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.pull_consumer import PullConsumer, PullReader
from steelyard.model import StoredMessage
from steelyard.wire.stored_messages import unseal_message_prefix
from steelyard.wire.sysflag import SEALED

M = TypeVar("M", bound=StoredMessage)

PREVIEW_BYTES = 1 << 20
"""How much of a compressed body is decompressed: text behind it is not found."""


def preview_body(message: M, max_bytes: int) -> tuple[M, bool]:
    """Return a message with at most so many bytes of a compressed body, and whether that is all of it.

    One that cannot be decompressed is returned as it is stored, which is never all of it.
    """
    start = unseal_message_prefix(message, max_bytes)
    return start, not start.sys_flag & SEALED


class QueueBrowser(PullConsumer):
    """Reads assigned queues."""

    def __init__(self, config: ClientConfig, *, pull_batch: int, queue_messages: int, queue_bytes: int) -> None:
        super().__init__(
            config,
            TOOLS_GROUP,
            auto_commit=False,
            pull_batch=pull_batch,
            queue_messages=queue_messages,
            queue_bytes=queue_bytes,
            on_unreadable="skip",
        )

    def _decompress(self, _reader: PullReader, taken: list[ReceivedMessage]) -> list[ReceivedMessage]:
        given: list[ReceivedMessage] = []
        size = 0
        for place, message in enumerate(taken):
            if size >= MAX_OPEN_BYTES:
                self._buffer.put_back(taken[place:])
                break
            start = unseal_message_prefix(message, PREVIEW_BYTES)
            given.append(start)
            size += len(start.body)
        return given
