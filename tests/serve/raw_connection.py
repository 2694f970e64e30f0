"""A plain blocking connection for tests of running servers: whole commands, or any bytes at all."""

import itertools
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, CommandFields
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.headers.pull import PullMessage
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2
from steelyard.wire.record import MessageRecord, decode_records

_opaques = itertools.count(1)


class RawConnection:
    """One connection. A connection that is closed instead of an answer, or an answer that is late, is an OSError."""

    def __init__(self, address: str, *, seconds: float = 20) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        self._decoder = FrameDecoder()
        self._received: list[Command] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def request(self, code: int, fields: CommandFields, body: bytes = b"") -> Command:
        """Ask, and return the answer whatever it says."""
        command = Command(code, fields, body, opaque=next(_opaques))
        self.send(command)
        return self.response_to(command)

    def send(self, *commands: Command) -> None:
        """Send commands, and wait for nothing."""
        self.socket.sendall(b"".join(map(encode_frame, commands)))

    def response_to(self, command: Command) -> Command:
        """Wait for the answer to a command; what else arrives is kept."""
        while True:
            for place, found in enumerate(self._received):
                if found.is_response and found.opaque == command.opaque:
                    return self._received.pop(place)
            if not self._read():
                raise ConnectionError(f"the server closed the connection instead of answering {command.code}")

    def _read(self) -> bool:
        received = self.socket.recv(1 << 18)
        self._received += self._decoder.feed(received)
        return bool(received)

    def is_closed_by_server(self) -> bool:
        """Wait until the server closes the connection; False if it says something, or nothing for long."""
        try:
            return not self._read() and not self._received
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def send_command(topic: str, body: bytes, *, queue_id: int = 0) -> Command:
    """Make the command that sends a message."""
    header = SendMessageV2("senders", topic, "TBW102", 4, queue_id, 0, 1_700_000_000_000, 0, "", 0, False, 16, False)
    return Command(RequestCode.SEND_MESSAGE_V2, header, body, opaque=next(_opaques))


def pull_command(topic: str, offset: int, *, queue_id: int = 0, max_messages: int = 32, wait_ms: int = 0) -> Command:
    """Make the command that pulls messages; with ``wait_ms`` it waits for some."""
    header = PullMessage(
        "pullers", topic, queue_id, offset, max_messages, 4 | (2 if wait_ms else 0), 0, wait_ms, 0, "*", "TAG"
    )
    return Command(RequestCode.PULL_MESSAGE, header, opaque=next(_opaques))


def send(connection: RawConnection, topic: str, body: bytes, *, queue_id: int = 0) -> SendMessageResponse:
    """Send a message that must be taken."""
    command = send_command(topic, body, queue_id=queue_id)
    connection.send(command)
    answer = connection.response_to(command)
    assert answer.code == 0, f"{answer.code}: {answer.remark}"
    return answer.header(SendMessageResponse)


def pull_all(connection: RawConnection, topic: str, *, queue_id: int = 0) -> Iterator[MessageRecord]:
    """Pull all messages of a queue."""
    offset = 0
    while True:
        command = pull_command(topic, offset, queue_id=queue_id)
        connection.send(command)
        answer = connection.response_to(command)
        if answer.code != 0:
            assert answer.code == 19, f"{answer.code}: {answer.remark}"
            return
        found = list(decode_records(answer.body, check_crc=True))
        yield from found
        offset += len(found)


def brokers_of(name_server: str, topic: str) -> set[str]:
    """Ask a name server which brokers have a topic; none if it knows no route."""
    from steelyard.wire.bodies import decode_body
    from steelyard.wire.bodies.topics import RouteBody

    with RawConnection(name_server) as connection:
        answer = connection.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic))
        if answer.code != 0:
            return set()
        return {entry.broker_name for entry in decode_body(RouteBody, answer.body).brokers}
