"""A broker on a desk: on a disk in memory, with lines that are only names, and a clock that stands until it is moved.

Everything said passes through frames, both ways, so that a handler sees what a socket would bring.
"""

from collections import defaultdict

from steelyard.broker.core import Broker, Replies
from steelyard.broker.options import BrokerOptions
from steelyard.broker.state import State
from steelyard.sim.disk import ForgettingDisk
from steelyard.store.options import StoreOptions
from steelyard.wire.codes import OUR_LANGUAGE, HeaderType
from steelyard.wire.command import ONEWAY, Command, Fields
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.headers.send import SendShort
from steelyard.wire.hosts import host_bytes
from steelyard.wire.peers import Hangup, Peer
from steelyard.wire.record import Record, read_records

__all__ = ["START_MS", "Desk", "message"]

START_MS = 1_700_000_000_000
"""What the clock of a desk says at first."""

_NOTHING: Fields = {}
_TICK_MS = 100


class Desk:
    """One broker, those who speak to it, and the time."""

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        disk: ForgettingDisk | None = None,
        segment_bytes: int = 1 << 20,
        now_ms: int = START_MS,
    ) -> None:
        self.options = options or BrokerOptions()
        self.disk = disk or ForgettingDisk()
        self.now_ms = now_ms
        self.hangups: list[Hangup] = []
        """Lines that the broker wanted closed."""
        self._store_options = StoreOptions(
            segment_bytes=segment_bytes, keep_ms=None, store_host=host_bytes(self.options.address)
        )
        self._lines = self._opaque = 0
        self._sent: defaultdict[int, list[Command]] = defaultdict(list)
        self.peer = self.line()
        """Who speaks where nobody else is named."""
        self.broker = self._opened()

    @property
    def state(self) -> State:
        """The broker's tables."""
        return self.broker.state

    def _opened(self) -> Broker:
        return Broker.open(self.options, self.disk, self._store_options, now_ms=self.now_ms)

    # -- speaking -----------------------------------------------------------------------------------------------------

    def line(self, host: str = "127.0.0.1") -> Peer:
        """Return a new line to the broker."""
        self._lines += 1
        return Peer.at(host, 50_000 + self._lines, number=self._lines)

    def ask(
        self,
        code: int,
        fields: Fields = _NOTHING,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        now_ms: int | None = None,
        header_type: HeaderType = HeaderType.JSON,
        language: str = OUR_LANGUAGE,
    ) -> Command:
        """Ask and return the answer, which must come before the flush after it is over."""
        line = peer or self.peer
        opaque = self.say(code, fields, body, peer=line, now_ms=now_ms, header_type=header_type, language=language)
        answer = self.answer(opaque, line)
        assert answer is not None, f"request {code} was not answered"
        return answer

    def say(
        self,
        code: int,
        fields: Fields = _NOTHING,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        now_ms: int | None = None,
        oneway: bool = False,
        header_type: HeaderType = HeaderType.JSON,
        language: str = OUR_LANGUAGE,
        flush: bool = True,
    ) -> int:
        """Send a request whose answer comes later or never; return its number, for `answer`."""
        if now_ms is not None:
            self.now_ms = now_ms
        line = peer or self.peer
        self._opaque += 1
        flag = ONEWAY if oneway else 0
        command = Command(
            code, fields, body, opaque=self._opaque, flag=flag, header_type=header_type, language=language
        )
        self._take(self.broker.handle(_travelled(command), line, self.now_ms))
        if flush:
            self.flush()
        return self._opaque

    def answer(self, opaque: int, peer: Peer | None = None) -> Command | None:
        """Take the answer to a request off the line, if it has come."""
        line = peer or self.peer
        for command in self._sent[line.number]:
            if command.is_answer and command.opaque == opaque:
                self._sent[line.number].remove(command)
                return command
        return None

    def reply(
        self, request: Command, peer: Peer, fields: Fields = _NOTHING, body: bytes = b"", *, code: int = 0
    ) -> None:
        """Answer a request of the broker's own."""
        command = Command(code, fields, body, opaque=request.opaque, flag=1, header_type=request.header_type)
        self._take(self.broker.handle(_travelled(command), peer, self.now_ms))
        self.flush()

    def sent_to(self, peer: Peer | None = None) -> list[Command]:
        """Take the commands off a line that nobody took yet: requests of the broker, and answers that came late."""
        return self._sent.pop((peer or self.peer).number, [])

    def hang_up(self, peer: Peer) -> None:
        """Close a line from its other end."""
        self._take(self.broker.closed(peer, self.now_ms))

    # -- time and disk ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Do what a shell does after each read of a socket."""
        self._take(self.broker.flush(self.now_ms))

    def tick(self) -> None:
        """Let the broker do what is due now."""
        self._take(self.broker.tick(self.now_ms))

    def advance(self, passed_ms: int, *, step_ms: int = _TICK_MS) -> None:
        """Let time pass, with a tick at each step; long times may have long steps."""
        end_ms = self.now_ms + passed_ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + step_ms)
            self.tick()

    def sync(self) -> None:
        """Make safe what was flushed, and answer those who waited for that."""
        job = self.broker.begin_sync(self.now_ms)
        job.run()
        self._take(self.broker.end_sync(job))

    def save(self, *, everything: bool = False) -> None:
        """Write the small documents that are due."""
        for job in self.broker.saves(self.now_ms, everything=everything):
            job.run()
            self.broker.saved(job, self.now_ms)

    def restart(self) -> None:
        """Close the broker in order, and open its directory again."""
        self.broker.close(self.now_ms)
        self.reopen(self.disk)

    def crash(self) -> None:
        """Let the process die where it stands, and open what it leaves: all that was written, nothing that was not."""
        self.reopen(self.disk.crash())

    def lose_power(self) -> None:
        """Let the machine die, and open what the disk holds: what was synced."""
        self.reopen(self.disk.lose_power())

    def reopen(self, disk: ForgettingDisk) -> None:
        """Open what a disk holds."""
        self.disk = disk
        self._sent.clear()
        self.broker = self._opened()

    # -- looking ------------------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int = 0) -> list[Record]:
        """Return all messages of a queue."""
        key = topic.encode()
        low, high = self.state.store.bounds(key, queue_id)
        found = self.state.store.read(key, queue_id, low, most=max(1, high - low), most_bytes=1 << 30)
        return list(read_records(found.joined(), check_crc=True))

    def topic(self, name: str) -> list[Record]:
        """Return all messages of a topic, queue by queue."""
        queues = (queue_id for key, queue_id in self.state.store.queues() if key == name.encode())
        return [record for queue_id in queues for record in self.queue(name, queue_id)]

    def _take(self, replies: Replies) -> None:
        for reply in replies:
            if isinstance(reply, Hangup):
                self.hangups.append(reply)
            else:
                self._sent[reply.peer.number].append(_travelled(reply.command))


def _travelled(command: Command) -> Command:
    """Return a command as the other end of a line reads it."""
    (read,) = Splitter().feed(encode_frame(command))
    return read


def message(
    topic: str = "orders",
    properties: str | None = None,
    *,
    queue_id: int = 0,
    group: str = "shop",
    sys_flag: int = 0,
    born_ms: int = START_MS,
    flag: int = 0,
    reconsume_times: int | None = 0,
    max_reconsume_times: int | None = None,
    default_queues: int = 4,
    default_topic: str = "TBW102",
    batch: bool = False,
) -> SendShort:
    """Make the header of a send (310, 320, 325) as Java's clients do."""
    return SendShort(
        producer_group=group,
        topic=topic,
        default_topic=default_topic,
        default_topic_queue_nums=default_queues,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=born_ms,
        flag=flag,
        properties=properties,
        reconsume_times=reconsume_times,
        unit_mode=False,
        max_reconsume_times=max_reconsume_times,
        batch=batch,
        broker="broker-0",
    )
