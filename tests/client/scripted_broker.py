"""A scripted broker: tests decide what its queues hold, how little it returns, and what it answers instead.

It is its own name server. Pulls are answered as Apache answers them: so many messages and bytes at most, so many
entries looked at, by hashes of tags. The answers to what came in one read may leave in another order.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from steelyard.errors import ProtocolError
from steelyard.model import Queue
from steelyard.model.subscription import Subscription
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.topics import BrokerEntry, QueueEntry, RouteBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.json_body import ById
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import pack_record

_HOST = bytes.fromhex("7f00000100002a9f")

Respond = Callable[[PullMessage], Command | None]
"""What is said to a pull instead, if anything; its number is set by the broker."""


def queue_of(number: int = 0, name: str = "broker-a") -> Queue:
    """Return a queue of the topic that the broker has."""
    return Queue("orders", name, number)


def record(offset: int, tag: str | None = None, body: bytes | None = None, queue_id: int = 0) -> bytes:
    """Write the record of a message."""
    return pack_record(
        b"orders",
        queue_id,
        offset,
        0,
        b"body %d" % offset if body is None else body,
        encode_properties({"TAGS": tag} if tag else {}),
        born_ms=1_000,
        born_host=_HOST,
        stored_ms=2_000,
        store_host=_HOST,
    )


@dataclass
class Held:
    """What a queue holds: records from an offset on, None where one was lost."""

    records: list[bytes | None] = field(default_factory=list)
    tags: list[str | None] = field(default_factory=list)
    low: int = 0

    @property
    def high(self) -> int:
        """The next offset to be written."""
        return len(self.records)


class Broker:
    """The broker. Change what it holds and says at any time."""

    def __init__(self, name: str = "broker-a") -> None:
        self.name = name
        self.held: dict[int, Held] = {}
        self.most, self.most_bytes, self.on_request = 32, 256 * 1024, 800
        self.respond_with: Respond = lambda _: None
        """Asked first for each pull."""
        self.hangs_up_after = 0
        """Hang up when so many more pulls came, before the last is answered; 0 is never."""
        self.is_backwards = False
        """Whether what came together is answered last to first."""
        self.reported: str | None = None
        """The address that its routes tell; without one its own."""
        self.suggested_id = 0
        """The id that its routes tell: 0 is a master's."""
        self.asked: list[PullMessage] = []
        self.routes_reported = 0
        self.together = 0
        """How many requests came in one read, at most."""
        self.connections = 0
        """How many were ever opened."""
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def fill(self, queue_id: int, count: int, tag: Callable[[int], str | None] = lambda _: None, size: int = 0) -> Held:
        """Put messages into a queue."""
        tags = [tag(offset) for offset in range(count)]
        records: list[bytes | None] = [
            record(offset, each, b"x" * size if size else None, queue_id) for offset, each in enumerate(tags)
        ]
        self.held[queue_id] = held = Held(records, tags)
        return held

    def stop(self) -> None:
        """Close everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Cut all connections."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(connection)
                self.connections += 1
                self._start(partial(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        splitter = FrameDecoder()
        with connection, suppress(OSError, ProtocolError):
            while arrived := connection.recv(1 << 16):
                answers = []
                for request in splitter.feed(arrived):
                    answer = self._answer(request)
                    if answer is None:
                        return
                    answers.append(answer)
                self.together = max(self.together, len(answers))
                connection.sendall(b"".join(map(encode_frame, answers[::-1] if self.is_backwards else answers)))

    def _answer(self, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            self.routes_reported += 1
            return response_to(request, body=encode_body(self._route()))
        pull = request.header(PullMessage)
        self.asked.append(pull)
        if self.hangs_up_after:
            self.hangs_up_after -= 1
            if not self.hangs_up_after:
                return None
        response = self.respond_with(pull)
        if response is not None:
            return response_to(request, response.code, response.fields, response.body, response.remark)
        return self._pulled(request, pull)

    def _route(self) -> RouteBody:
        address = self.reported or self.address
        return RouteBody(
            brokers=(BrokerEntry(broker_name=self.name, addresses=ById({self.suggested_id: address})),),
            queues=(QueueEntry(broker_name=self.name, read_queues=64, write_queues=64, sys_flag=0),),
        )

    def _pulled(self, request: Command, pull: PullMessage) -> Command:
        held = self.held.get(pull.queue_id, Held())
        at, low, high = pull.queue_offset, held.low, held.high

        def nothing(code: ResponseCode, following: int, status: str) -> Command:
            return response_to(request, code, PullMessageResponse(0, following, low, high), remark=status)

        if high == 0:
            code = ResponseCode.PULL_OFFSET_MOVED if at else ResponseCode.PULL_NOT_FOUND
            return nothing(code, 0, "NO_MESSAGE_IN_QUEUE")
        if at < low:
            return nothing(ResponseCode.PULL_OFFSET_MOVED, low, "OFFSET_TOO_SMALL")
        if at == high:
            return nothing(ResponseCode.PULL_NOT_FOUND, at, "OFFSET_OVERFLOW_ONE")
        if at > high:
            return nothing(ResponseCode.PULL_OFFSET_MOVED, high, "OFFSET_OVERFLOW_BADLY")
        wanted = Subscription("orders", pull.subscription or "*")
        hashes = {Subscription("orders", tag).tag_hashes[0]: tag for tag in wanted.tags}
        found: list[bytes] = []
        size, most = 0, min(self.most, pull.max_msg_nums)
        requested = slice(at, at + max(self.on_request, most))
        for each, tag in zip(held.records[requested], held.tags[requested], strict=True):
            if len(found) == most or (found and each is not None and size + len(each) > self.most_bytes):
                break
            at += 1
            is_wanted = not hashes or (tag is not None and Subscription("orders", tag).tag_hashes[0] in hashes)
            if each is not None and is_wanted:
                found.append(each)
                size += len(each)
        if not found:
            status = "NO_MATCHED_MESSAGE" if hashes else "MESSAGE_WAS_REMOVING"
            return nothing(ResponseCode.PULL_RETRY_IMMEDIATELY, at, status)
        return response_to(request, 0, PullMessageResponse(0, at, low, high), b"".join(found), "FOUND")


@contextmanager
def broker(name: str = "broker-a") -> Iterator[Broker]:
    """Run a broker."""
    running = Broker(name)
    try:
        yield running
    finally:
        running.stop()
