"""Broker fuzz: random work on a broker, and a book of what it acknowledged.

Senders, delayed messages, transactions, a reader that commits, crashes and restarts, on a disk that may fail. What was
acknowledged is there at the end: once, where the response said, delayed messages once they are due, a transaction with
its outcome. What was refused may be there or not, but not twice.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from simulator.disk import ProcessDied, SimulatedDisk
from steelyard.broker.options import BrokerOptions
from steelyard.errors import StoreError
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import HeartbeatBody, ProducerHeartbeat
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.send import EndTransaction, SendMessageResponse, SendMessageV2
from steelyard.wire.message_ids import parse_offset_id
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.pull_requests import make_topic, pull_header
from tests.fuzzing import Dice

_QUEUES = 2
_COMMIT, _ROLL_BACK = 8, 12
_STORED = (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT)
_LONGEST_DELAY_MS = 6_000
_PAGE = 512


@dataclass
class Promises:
    """What was promised."""

    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Messages that are stored, and where."""
    late: set[bytes] = field(default_factory=set)
    half_messages: dict[bytes, EndTransaction] = field(default_factory=dict)
    """Open transactions, by body."""
    committed: set[bytes] = field(default_factory=set)
    rolled_back: set[bytes] = field(default_factory=set)
    refusals: int = 0
    deaths: int = 0


class BrokerFuzz:
    """One broker from start to end. ``strike`` is called now and then, to inject faults."""

    def __init__(self, seed: int, flush: str = "async", strike: Callable[[BrokerHarness], None] | None = None) -> None:
        self.random, self.book, self._strike = Dice(seed), Promises(), strike
        self._is_sync = flush == "sync"
        options = BrokerOptions(flush=flush, transaction_check_ms=2_000, transaction_timeout_ms=1_000)
        self.disk = SimulatedDisk(Dice(seed), page=_PAGE)
        self.harness = BrokerHarness(options, disk=self.disk, segment_bytes=8 * 1024)
        for topic in ("plain", "late", "paid"):
            make_topic(self.harness, topic, queues=_QUEUES)
        self.harness.send(Code.PULL_MESSAGE, pull_header(topic="plain", group="reader"), oneway=True)
        self.harness.save(everything=True)
        self._beat()
        self._waiting: dict[int, Callable[[Command], None]] = {}
        self._sent = 0
        self._committed = {queue_id: {0} for queue_id in range(_QUEUES)}
        """All that the reader ever committed, by queue."""

    # -- the script ---------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Go through a script of so many steps; a process that dies is followed by another one."""
        for _ in range(steps):
            try:
                self._step()
            except ProcessDied:
                self._reborn(self.harness.disk.crash())
        self._settle()

    def _step(self) -> None:
        random, harness = self.random, self.harness
        step = random.random()
        if step < 0.45:
            for _ in range(random.choice((1, 1, 1, 2, 5))):
                self._send_something()
                if self._strike is not None:
                    self._strike(harness)
            harness.flush()
        elif step < 0.65:
            harness.advance(random.choice((50, 100, 700, 1_500)))
        elif step < 0.8:
            harness.sync()
        elif step < 0.88:
            harness.save()
        elif step < 0.96:
            self._commit_offset()
        else:
            self._end_of_process()
        self._receive()
        if harness.state.store.read_only_reason is not None and random.random() < 0.3:
            # What the broker says itself: look at the disk, then restart.
            self._reborn(harness.disk.crash())

    def _send_something(self) -> None:
        random, queue_id = self.random, self.random.randrange(_QUEUES)
        kind = random.random()
        self._sent += 1
        body = b"%d %s" % (self._sent, b"x" * random.choice((3, 3, 200, 1_500)))
        text = f"UNIQ_KEY\x01u{self._sent}\x02"
        if kind < 0.5:
            self._send(message("plain", text, queue_id=queue_id), body, partial(self._plain_stored, body))
        elif kind < 0.7:
            delay = random.choice(("DELAY\x011\x02", "DELAY\x012\x02", "TIMER_DELAY_MS\x01900\x02"))
            self._send(message("late", text + delay, queue_id=queue_id), body, partial(self._late_stored, body))
        elif kind < 0.85:
            text += "TRAN_MSG\x01true\x02PGROUP\x01shop\x02"
            half = message("paid", text, queue_id=queue_id, sys_flag=4)
            self._send(half, body, partial(self._half_stored, body))
        elif kind < 0.95 and self.book.half_messages:
            body = random.choice(sorted(self.book.half_messages))
            self._end(body, random.choice((_COMMIT, _COMMIT, _ROLL_BACK)))
        else:
            # Making or deleting another topic writes to the disk as well.
            self.harness.send(Code.SEND_MESSAGE_V2, message("short-lived", text), body, flush=False)
            self.harness.send(Code.DELETE_TOPIC_IN_BROKER, {"topic": "short-lived"}, flush=False)

    def _send(self, header: SendMessageV2, body: bytes, then: Callable[[Command], None]) -> None:
        self._waiting[self.harness.send(Code.SEND_MESSAGE_V2, header, body, flush=False)] = then

    def _end(self, body: bytes, how: int) -> None:
        half = self.book.half_messages[body]
        end = EndTransaction("shop", half.tran_state_table_offset, half.commit_log_offset, how, "half", False)
        self._waiting[self.harness.send(Code.END_TRANSACTION, end, flush=False)] = partial(self._ended, body, how)

    def _commit_offset(self) -> None:
        queue_id = self.random.randrange(_QUEUES)
        high = self.harness.state.store.bounds(b"plain", queue_id)[1]
        offset = min(high, (self.harness.state.offsets.get("reader", "plain", queue_id) or 0) + 3)
        self.harness.send(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("reader", "plain", queue_id, offset), oneway=True)
        self._committed[queue_id].add(offset)

    def _beat(self) -> None:
        """Let the producer of the transactions be known, so that it is asked about them."""
        beat = HeartbeatBody(client_id="shop-1", producers=(ProducerHeartbeat(group="shop"),))
        self.harness.send(Code.HEART_BEAT, body=encode_body(beat), oneway=True)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take the answers that came, each once."""
        for command in self.harness.sent_to():
            then = self._waiting.pop(command.opaque, None) if command.is_response else None
            if then is not None:
                if command.code not in _STORED:
                    self.book.refusals += command.code == ResponseCode.SERVICE_NOT_AVAILABLE
                    assert command.code in (14, 604), (command.code, command.remark)
                    assert command.remark
                then(command)

    def _plain_stored(self, body: bytes, answer: Command) -> None:
        # A late answer says that it is stored, and not that it is safe.
        if answer.code == 0:
            place = answer.header(SendMessageResponse)
            self.book.places[body] = place.queue_id, place.queue_offset

    def _late_stored(self, body: bytes, answer: Command) -> None:
        if answer.code == 0:
            self.book.late.add(body)

    def _half_stored(self, body: bytes, answer: Command) -> None:
        if answer.code == 0:
            half = answer.header(SendMessageResponse)
            position = parse_offset_id(half.msg_id)[1]
            self.book.half_messages[body] = EndTransaction("shop", half.queue_offset, position, _COMMIT, "half", False)

    def _ended(self, body: bytes, how: int, answer: Command) -> None:
        if answer.code == 0:
            (self.book.committed if how == _COMMIT else self.book.rolled_back).add(body)
        if answer.code in (0, ResponseCode.ILLEGAL_OPERATION):
            self.book.half_messages.pop(body, None)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _end_of_process(self) -> None:
        chance = self.random.random()
        if chance < 0.4:
            try:
                self.harness.restart()
            except StoreError:
                self._reborn(self.harness.disk.crash())
            else:
                self._waiting.clear()
        elif chance < 0.7 or not self._is_sync:
            self._reborn(self.harness.disk.crash())
        else:
            self._reborn(self.harness.disk.lose_power())

    def _reborn(self, disk: SimulatedDisk) -> None:
        """Open what a dead process left; a client that waits for an answer gets none."""
        self.book.deaths += 1
        self._waiting.clear()
        while True:
            try:
                self.harness.reopen(disk)
            except StoreError:
                continue  # faults strike once
            except ProcessDied:
                disk = disk.crash()
                continue
            break
        for queue_id, committed in self._committed.items():
            offset = self.harness.state.offsets.get("reader", "plain", queue_id) or 0
            end = self.harness.state.store.bounds(b"plain", queue_id)[1]
            assert offset in committed | {end}, "an offset that was never committed"
            committed.add(offset)
        self._beat()

    def _settle(self) -> None:
        """Let all that waits come to its end, on a disk that is well, and hold the broker against the book."""
        self.harness.disk.faults.clear()
        if self.harness.state.store.read_only_reason is not None:
            self._reborn(self.harness.disk.crash())
        self._pass_time()
        for body in sorted(self.book.half_messages):
            self._end(body, self.random.choice((_COMMIT, _ROLL_BACK)))
        self.harness.flush()
        self._pass_time()
        assert not self._waiting, "somebody was never answered"
        self.check()
        self._reborn(self.harness.disk.crash())
        self._pass_time()
        self.check()

    def _pass_time(self) -> None:
        for _ in range(_LONGEST_DELAY_MS // 500):
            self.harness.advance(500)
            self.harness.sync()
            self._receive()

    def check(self) -> None:
        """Expect that every promise was kept."""
        harness, book = self.harness, self.book
        for body, (queue_id, offset) in book.places.items():
            found = [record.body for record in harness.queue("plain", queue_id) if record.offset == offset]
            assert found == [body], "a message is not where its answer said"
        late, paid, plain = (
            Counter(record.body for record in harness.topic(topic)) for topic in ("late", "paid", "plain")
        )
        assert all(count == 1 for counts in (late, paid, plain) for count in counts.values()), "delivered twice"
        assert book.late <= late.keys(), "a late message is lost"
        assert book.committed <= paid.keys(), "a committed message is lost"
        assert paid.keys().isdisjoint(book.rolled_back), "a message that was rolled back is there"
