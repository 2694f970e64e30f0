"""How far a group is: release 4.9 says 0 of one that never was there, and its table of all offsets has the truth."""

import asyncio

import pytest

from steelyard.client.config import ClientConfig
from steelyard.client.pull_consumer.assigned import query_committed_offset
from steelyard.client.session import Session
from steelyard.errors import ServerError
from steelyard.model import Queue
from steelyard.wire.codes import RequestCode, Version
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetResponse


class _Apache(Session):
    """A session with a broker of one release, whose table of offsets this is; without one it refuses to tell it."""

    def __init__(self, version: int, offset: int, table: bytes | None) -> None:
        super().__init__(ClientConfig("127.0.0.1:9876"))
        self._release, self._offset, self._table = version, offset, table
        self.asked: list[int] = []

    async def request_ok(self, server: object, command: Command, *, timeout_ms: int = 3_000) -> Command:
        assert (server, timeout_ms > 0) == ("broker-a", True)
        self.asked.append(command.code)
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return Command(0, OffsetResponse(self._offset), version=self._release)
        if self._table is None:
            raise ServerError("no", code=1, server="broker-a")
        return Command(0, body=b'{"offsetTable":%b}' % self._table, version=self._release)


@pytest.mark.parametrize(
    ("version", "offset", "table", "expected"),
    [
        (Version.V4_9_7, 0, b'{"orders@billing":{0:0}}', 0),
        (Version.V4_9_7, 0, b'{"orders@billing":{1:5},"orders@others":{0:0}}', None),
        (Version.V4_9_7, 0, b"{}", None),
        (Version.V4_9_7, 0, None, 0),
        (Version.V4_9_7, 0, b"[", 0),
        (Version.V4_9_7, 3, None, 3),
        (Version.V5_5_0, 0, None, 0),
    ],
)
def test_a_0_of_an_old_broker_counts_if_it_is_among_all_offsets(
    version: int, offset: int, table: bytes | None, expected: int | None
) -> None:
    session = _Apache(version, offset, table)
    assert asyncio.run(query_committed_offset(session, "billing", Queue("orders", "broker-a", 0))) == expected
    assert (RequestCode.GET_ALL_CONSUMER_OFFSET in session.asked) == (version == Version.V4_9_7 and offset == 0)
