"""Messages in every way there is, slowly and for long: what each send went through is written down.

A load has one blocking producer, with threads that wait for each message and one that does not, and one producer of
asyncio. Each sender pauses between messages, so that a load says how sends fare and not how fast they are.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from steelyard import aio
from steelyard.balance.producer.broker_latency import BrokerHealth, LatencyTable
from steelyard.client.producer.options import ProducerSettings
from steelyard.client.producer.send_result import SendResult
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.errors import SteelyardError
from steelyard.model import Message
from steelyard.net.clock import now_ms
from tests.waiting import until

if TYPE_CHECKING:
    from concurrent.futures import Future

WAYS = ("blocking", "submit", "aio")

_PAUSE_S = 0.03
_LOOK_S = 0.02
_SENDERS = 2
_PATIENCE_S = 90
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SendReport:
    """One send: what is told of it when it is over."""

    way: str
    topic: str
    uid: bytes
    began_ms: int
    took_ms: float
    sent: SendResult | None
    error: SteelyardError | None

    @property
    def touched(self) -> set[str]:
        """The brokers that it went to, whatever they did."""
        attempts = self.sent.attempts if self.sent is not None else getattr(self.error, "attempts", ())
        stored = set() if self.sent is None else {self.sent.queue.broker}
        return stored | {broker for broker, _, _ in attempts}


@dataclass(frozen=True, slots=True)
class Stay:
    """A time for which a latency table says that a broker is avoided."""

    of: str
    """The producer that measured it."""
    broker: str
    since_ms: int
    until_ms: int
    why: str


class Load:
    """Senders at work until the context ends."""

    def __init__(self, namesrv: str, topic: str, *, timeout_s: float, table: LatencyTable | None = None) -> None:
        """Send to a topic; with a ``table`` slow brokers are avoided by it."""
        self.namesrv, self.topic = namesrv, topic
        self._timeout_s, self._table = timeout_s, table
        self.reported: list[SendReport] = []
        self.broken: list[BaseException] = []
        """What ended a sender that nothing should end."""
        self.shares: dict[tuple[str, str], set[float]] = {}
        """Which parts of its turns each producer gave each broker."""
        self._stays: dict[tuple[str, str, int], Stay] = {}
        self._name = f"load-{next(_numbers)}"
        self._uids = itertools.count(1)
        self._under_way = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Begin to send."""
        self._producer = Producer(self.namesrv, **self._settings())
        work = [self._submit, self._poll, lambda: asyncio.run(self._send_on_a_loop())]
        work += [self._send_and_wait] * _SENDERS
        self._threads = [threading.Thread(target=self._guarded, args=(each,), name=self._name) for each in work]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and wait for what is on its way."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        try:
            until(lambda: not self._under_way, "an answer to everything")
        finally:
            self._producer.close()
        assert not self.broken, self.broken

    # -- what people ask of it ----------------------------------------------------------------------------------------

    @property
    def errors(self) -> list[str]:
        """What went wrong, in words."""
        return [f"{each.way} after {each.took_ms:.0f} ms: {each.error}" for each in list(self.reported) if each.error]

    @property
    def acked(self) -> set[bytes]:
        """What brokers said is stored."""
        return {each.uid for each in list(self.reported) if each.sent is not None}

    @property
    def stays(self) -> list[Stay]:
        """When which broker was avoided, as the latency table say it themselves."""
        return list(self._stays.values())

    def since(self, moment_ms: int, way: str | None = None) -> list[SendReport]:
        """Return the sends that began at a moment or later."""
        return [each for each in list(self.reported) if each.began_ms >= moment_ms and way in (None, each.way)]

    def wait_for_stores(self, broker: str, count: int, since_ms: int = 0) -> None:
        """Wait until each way has stored so many messages on a broker."""

        def done() -> bool:
            stored = [each for each in self.since(since_ms) if each.sent and each.sent.queue.broker == broker]
            return all(sum(each.way == way for each in stored) >= count for way in WAYS)

        until(done, f"storing {count} messages on {broker} in each way", _PATIENCE_S)

    def wait_for_more(self, count: int, since_ms: int) -> None:
        """Wait until each way has stored so many messages that it began since a moment."""

        def done() -> bool:
            stored = [each for each in self.since(since_ms) if each.sent]
            return all(sum(each.way == way for each in stored) >= count for way in WAYS)

        until(done, f"storing {count} more messages in each way", _PATIENCE_S)

    def wait_until_avoided(self, broker: str, since_ms: int) -> None:
        """Wait until both producers say that they avoid a broker."""
        until(
            lambda: len({stay.of for stay in self.stays if stay.broker == broker and stay.until_ms > since_ms}) == 2,
            f"avoiding {broker}",
            _PATIENCE_S,
        )

    # -- sending ------------------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.broken.append(error)

    def _message(self) -> Message:
        return Message(self.topic, f"{self._name}/{next(self._uids)}".encode())

    def _record(
        self, way: str, message: Message, began_s: float, sent: SendResult | None, error: SteelyardError | None
    ) -> None:
        took_ms = (time.monotonic() - began_s) * 1000
        began_ms = now_ms() - round(took_ms)
        self.reported.append(SendReport(way, message.topic, message.body, began_ms, took_ms, sent, error))

    def _send_and_wait(self) -> None:
        while not self._over.wait(_PAUSE_S):
            message, began_s = self._message(), time.monotonic()
            try:
                self._record("blocking", message, began_s, self._producer.send(message), None)
            except SteelyardError as error:
                self._record("blocking", message, began_s, None, error)

    def _submit(self) -> None:
        while not self._over.wait(_PAUSE_S):
            message, began_s = self._message(), time.monotonic()
            with self._lock:
                self._under_way += 1
            self._producer.submit(message).add_done_callback(partial(self._submitted, message, began_s))

    def _submitted(self, message: Message, began_s: float, future: "Future[SendResult]") -> None:
        error = future.exception()
        if error is None:
            self._record("submit", message, began_s, future.result(), None)
        elif isinstance(error, SteelyardError):
            self._record("submit", message, began_s, None, error)
        else:
            self.broken.append(error)
        with self._lock:
            self._under_way -= 1

    async def _send_on_a_loop(self) -> None:
        async with aio.Producer(self.namesrv, **self._settings()) as producer:
            senders = [asyncio.ensure_future(self._send_awaiting(producer)) for _ in range(_SENDERS)]
            while not self._over.is_set():
                self._read_status("aio", producer.brokers())
                await asyncio.sleep(_LOOK_S)
            await asyncio.gather(*senders)

    async def _send_awaiting(self, producer: aio.Producer) -> None:
        while not self._over.is_set():
            await asyncio.sleep(_PAUSE_S)
            message, began_s = self._message(), time.monotonic()
            try:
                self._record("aio", message, began_s, await producer.send(message), None)
            except SteelyardError as error:
                self._record("aio", message, began_s, None, error)

    def _settings(self) -> ProducerSettings:
        return {
            "timeout_s": self._timeout_s,
            "avoid_slow_brokers": self._table is not None,
            "latency_table": self._table or "modern",
        }

    # -- looking ------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._read_status("blocking", self._producer.brokers())

    def _read_status(self, of: str, standings: Iterable[BrokerHealth]) -> None:
        for each in standings:
            self.shares.setdefault((of, each.broker), set()).add(each.share)
            if each.avoided_since_ms is not None and each.avoided_until_ms is not None:
                # The clock of day and the one that never jumps differ by a hair each time.
                found = Stay(of, each.broker, each.avoided_since_ms, each.avoided_until_ms, each.why)
                self._stays[of, each.broker, each.avoided_since_ms // 10] = found


@contextmanager
def reading(namesrv: str, topic: str) -> Iterator[set[bytes]]:
    """Let a group of two read along; give what it has seen."""
    seen: set[bytes] = set()
    with ExitStack() as members:
        for _ in range(2):
            member = Consumer(namesrv, f"readers-of-{topic}", start_from="first")
            member.handles(topic)(lambda message: seen.add(message.body))
            member.start()
            members.callback(member.stop)
        yield seen
