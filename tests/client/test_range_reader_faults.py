"""Ranges are read exactly, whatever brokers answer in between: busy, shutting down, resetting, empty, cut off."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.client.bulk.connection_pool import ConnectionPool
from steelyard.client.bulk.range_reader import read_ranges
from steelyard.client.config import ClientConfig
from steelyard.model import OffsetRange, Queue
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from tests.client.scripted_broker import Broker, Respond, broker
from tests.client.test_range_reader import offsets

_TROUBLES = ("busy", "closing", "reset", "empty", "no topic", "no messages", "at its end", "hangs up")
_SETTLE_MS = 60_000


def troubled(server: Broker, troubles: list[str | None]) -> Respond:
    """Answer pulls by a list of troubles, and well when it is over."""

    def respond(pull: PullMessage) -> Command | None:
        at, high = pull.queue_offset, server.held[pull.queue_id].high
        match troubles.pop() if troubles else None:
            case "busy":
                return Command(ResponseCode.SYSTEM_BUSY, remark="[REJECTREQUEST]")
            case "closing":
                return Command(ResponseCode.SYSTEM_ERROR, remark="store getMessage return null")
            case "reset":
                return Command(
                    ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 7, 0, high), remark="OFFSET_RESET"
                )
            case "empty":
                return Command(0, PullMessageResponse(0, at + 5, 0, high))
            case "no topic":
                return Command(ResponseCode.TOPIC_NOT_EXIST, remark="topic[orders] not exist")
            case "no messages":
                return Command(ResponseCode.PULL_OFFSET_MOVED, PullMessageResponse(0, 0, 0, 0))
            case "at its end":
                return Command(ResponseCode.PULL_NOT_FOUND, PullMessageResponse(0, at, 0, at))
            case "hangs up":
                server.hangs_up_after = 2
        return None

    return respond


@given(st.data())
@settings(max_examples=60)
def test_any_ranges_are_read_exactly_in_any_trouble(data: st.DataObject) -> None:
    ranges: list[OffsetRange] = []
    with broker() as first, broker("broker-b") as second, pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.client.bulk.range_reader._RETRY_DELAYS_MS", (0, 1, 2))
        for server in (first, second):
            server.most = data.draw(st.sampled_from([1, 7, 32]), label="given for a pull")
            server.is_backwards = data.draw(st.booleans(), label="backwards")
            trouble = st.none() | st.none() | st.sampled_from(_TROUBLES)
            server.respond_with = troubled(server, data.draw(st.lists(trouble, max_size=40), label="troubles"))
            for number in range(2):
                count = data.draw(st.integers(1, 200), label="messages")
                server.fill(number, count)
                cut = data.draw(st.integers(0, count), label="cut")
                queue = Queue("orders", server.name, number)
                ranges += [OffsetRange(queue, 0, cut), OffsetRange(queue, cut, count)]
        buffer = ConnectionPool()
        pieces = list(
            read_ranges(
                ranges,
                ClientConfig(first.address),
                {first.name: first.address, second.name: second.address},
                depth=data.draw(st.sampled_from([1, 2, 16]), label="depth"),
                max_messages=data.draw(st.sampled_from([1, 10, 1_000]), label="asked for"),
                settle_ms=_SETTLE_MS,
                pool=buffer,
            )
        )
        buffer.close()
    for each in ranges:
        own = [piece for piece in pieces if piece.queue == each.queue and piece.start in each]
        assert offsets(own) == list(range(each.start, each.end))
