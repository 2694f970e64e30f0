"""What tests of the administrator's client share: a client, and messages, offsets and dead letters in a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steelyard.client.admin import Admin
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.send import SendMessageBack, SendMessageResponse, SendMessageV2
from steelyard.wire.properties import encode_properties
from tests.serve.raw_connection import RawConnection

T = TypeVar("T")


def with_admin(namesrv: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Do something with an administrator's client."""

    async def run() -> T:
        async with Admin(namesrv) as admin:
            return await work(admin)

    return asyncio.run(run())


def put(address: str, queue: Queue, body: bytes, **properties: str) -> SendMessageResponse:
    """Store a message in a queue of the broker at an address."""
    text = encode_properties(properties).decode()
    topic, _, queue_id = queue
    header = SendMessageV2(
        "senders", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, text, 0, False, None, False
    )
    with RawConnection(address) as connection:
        answer = connection.request(RequestCode.SEND_MESSAGE_V2, header, body)
        assert answer.code == 0, answer.remark
        return answer.header(SendMessageResponse)


def commit(address: str, group: str, queue: Queue, offset: int) -> None:
    """Commit the offset of a group."""
    with RawConnection(address) as connection:
        answer = connection.request(
            RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(group, queue.topic, queue.queue_id, offset)
        )
        assert answer.code == 0, answer.remark


def give_up(address: str, group: str, position: int, topic: str, error: str | None = None) -> None:
    """Put a message into a group's dead letters."""
    with RawConnection(address) as connection:
        header = SendMessageBack(
            offset=position, group=group, delay_level=-1, origin_topic=topic, steelyard_error=error
        )
        answer = connection.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert answer.code == 0, answer.remark
