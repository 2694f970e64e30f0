"""What tests of the administrator's client share: one cluster of two brokers for a file, and messages in it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.serve.line import Line

from steelyard.client.admin import Admin
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.send import SendAnswer, SendBack, SendShort
from steelyard.wire.properties import encode_properties

__all__ = ["commit", "give_up", "put", "with_admin"]

T = TypeVar("T")


def with_admin(namesrv: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Do something with an administrator's client."""

    async def run() -> T:
        async with Admin(namesrv) as admin:
            return await work(admin)

    return asyncio.run(run())


def put(address: str, queue: Queue, body: bytes, **properties: str) -> SendAnswer:
    """Store a message in a queue of the broker at an address."""
    text = encode_properties(properties).decode()
    topic, _, queue_id = queue
    header = SendShort("senders", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, text, 0, False, None, False)
    with Line(address) as line:
        answer = line.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        assert answer.code == 0, answer.remark
        return answer.header(SendAnswer)


def commit(address: str, group: str, queue: Queue, offset: int) -> None:
    """Say how far a group is."""
    with Line(address) as line:
        answer = line.ask(RequestCode.UPDATE_CONSUMER_OFFSET, CommitOffset(group, queue.topic, queue.queue_id, offset))
        assert answer.code == 0, answer.remark


def give_up(address: str, group: str, position: int, topic: str) -> None:
    """Put a message into a group's dead letters."""
    with Line(address) as line:
        header = SendBack(offset=position, group=group, delay_level=-1, origin_topic=topic)
        answer = line.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert answer.code == 0, answer.remark
