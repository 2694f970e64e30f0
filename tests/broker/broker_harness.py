"""A broker core under test: on a disk in memory, with connections that are only ids, and a clock that the test moves.

Every command passes through frames, both ways, so that a handler sees what a socket would bring.
"""

from collections import defaultdict

from simulator.disk import SimulatedDisk
from steelyard.broker.broker import BrokerCore, Replies
from steelyard.broker.options import BrokerOptions
from steelyard.broker.state import BrokerCoreState
from steelyard.store.options import StoreOptions
from steelyard.wire.codes import CLIENT_LANGUAGE, HeaderType
from steelyard.wire.command import ONEWAY_FLAG, CloseConnection, Command, CommandFields, Peer
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.hosts import host_bytes
from steelyard.wire.record import MessageRecord, decode_records

START_MS = 1_700_000_000_000
"""The time at the start of a test."""

_NOTHING: CommandFields = {}
_TICK_MS = 100


class BrokerHarness:
    """One broker, its connections, and the time."""

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        disk: SimulatedDisk | None = None,
        segment_bytes: int = 1 << 20,
        now_ms: int = START_MS,
    ) -> None:
        self.options = options or BrokerOptions()
        self.disk = disk or SimulatedDisk()
        self.now_ms = now_ms
        self.hangups: list[CloseConnection] = []
        """Connections that the broker wanted closed."""
        self._store_options = StoreOptions(
            segment_bytes=segment_bytes, keep_ms=None, store_host=host_bytes(self.options.address)
        )
        self._connections = self._opaque = 0
        self._sent: defaultdict[int, list[Command]] = defaultdict(list)
        self.peer = self.connect()
        """The default connection."""
        self.broker = self._opened()

    @property
    def state(self) -> BrokerCoreState:
        """The broker's tables."""
        return self.broker.state

    def _opened(self) -> BrokerCore:
        return BrokerCore.open(self.options, self.disk, self._store_options, now_ms=self.now_ms)

    def connect(self, host: str = "127.0.0.1") -> Peer:
        """Return a new connection to the broker."""
        self._connections += 1
        return Peer.at(host, 50_000 + self._connections, connection_id=self._connections)

    def request(
        self,
        code: int,
        fields: CommandFields = _NOTHING,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        now_ms: int | None = None,
        header_type: HeaderType = HeaderType.JSON,
        language: str = CLIENT_LANGUAGE,
    ) -> Command:
        """Send a request and return the response, which must come by the end of the flush after it."""
        connection = peer or self.peer
        opaque = self.send(
            code, fields, body, peer=connection, now_ms=now_ms, header_type=header_type, language=language
        )
        answer = self.pop_response(opaque, connection)
        assert answer is not None, f"request {code} was not answered"
        return answer

    def send(
        self,
        code: int,
        fields: CommandFields = _NOTHING,
        body: bytes = b"",
        *,
        peer: Peer | None = None,
        now_ms: int | None = None,
        oneway: bool = False,
        header_type: HeaderType = HeaderType.JSON,
        language: str = CLIENT_LANGUAGE,
        flush: bool = True,
    ) -> int:
        """Send a request whose response comes later or never; return its opaque, for `pop_response`."""
        if now_ms is not None:
            self.now_ms = now_ms
        connection = peer or self.peer
        self._opaque += 1
        flag = ONEWAY_FLAG if oneway else 0
        command = Command(
            code, fields, body, opaque=self._opaque, flag=flag, header_type=header_type, language=language
        )
        self._collect(self.broker.handle(_through_frames(command), connection, self.now_ms))
        if flush:
            self.flush()
        return self._opaque

    def pop_response(self, opaque: int, peer: Peer | None = None) -> Command | None:
        """Remove and return the response to a request, if it has come."""
        connection = peer or self.peer
        for command in self._sent[connection.connection_id]:
            if command.is_response and command.opaque == opaque:
                self._sent[connection.connection_id].remove(command)
                return command
        return None

    def respond(
        self, request: Command, peer: Peer, fields: CommandFields = _NOTHING, body: bytes = b"", *, code: int = 0
    ) -> None:
        """Answer a request of the broker's own."""
        command = Command(code, fields, body, opaque=request.opaque, flag=1, header_type=request.header_type)
        self._collect(self.broker.handle(_through_frames(command), peer, self.now_ms))
        self.flush()

    def sent_to(self, peer: Peer | None = None) -> list[Command]:
        """Remove and return all commands sent to a connection: requests of the broker, and late responses."""
        return self._sent.pop((peer or self.peer).connection_id, [])

    def disconnect(self, peer: Peer) -> None:
        """Close a connection from its other end."""
        self._collect(self.broker.connection_closed(peer, self.now_ms))

    def flush(self) -> None:
        """Do what a shell does after each read of a socket."""
        self._collect(self.broker.flush(self.now_ms))

    def tick(self) -> None:
        """Let the broker do what is due now."""
        self._collect(self.broker.tick(self.now_ms))

    def advance(self, passed_ms: int, *, step_ms: int = _TICK_MS) -> None:
        """Let time pass, with a tick at each step; long times may have long steps."""
        end_ms = self.now_ms + passed_ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + step_ms)
            self.tick()

    def sync(self) -> None:
        """Sync what was flushed, and send the acknowledgements that waited for it."""
        job = self.broker.begin_sync(self.now_ms)
        job.run()
        self._collect(self.broker.end_sync(job))

    def save(self, *, everything: bool = False) -> None:
        """Save the documents that are due."""
        for job in self.broker.due_saves(self.now_ms, everything=everything):
            job.run()
            self.broker.save_finished(job, self.now_ms)

    def restart(self) -> None:
        """Close the broker cleanly, and open its directory again."""
        self.broker.close(self.now_ms)
        self.reopen(self.disk)

    def crash(self) -> None:
        """Kill the process, and open what it leaves: everything written, nothing else."""
        self.reopen(self.disk.crash())

    def lose_power(self) -> None:
        """Cut the power, and open what the disk holds: what was synced."""
        self.reopen(self.disk.lose_power())

    def reopen(self, disk: SimulatedDisk) -> None:
        """Open what a disk holds."""
        self.disk = disk
        self._sent.clear()
        self.broker = self._opened()

    def queue(self, topic: str, queue_id: int = 0) -> list[MessageRecord]:
        """Return all messages of a queue."""
        key = topic.encode()
        low, high = self.state.store.bounds(key, queue_id)
        found = self.state.store.read(key, queue_id, low, max_messages=max(1, high - low), max_bytes=1 << 30)
        return list(decode_records(found.joined(), check_crc=True))

    def topic(self, name: str) -> list[MessageRecord]:
        """Return all messages of a topic, queue by queue."""
        queues = (queue_id for key, queue_id in self.state.store.queues() if key == name.encode())
        return [record for queue_id in queues for record in self.queue(name, queue_id)]

    def _collect(self, replies: Replies) -> None:
        for reply in replies:
            if isinstance(reply, CloseConnection):
                self.hangups.append(reply)
            else:
                self._sent[reply.peer.connection_id].append(_through_frames(reply.command))


def _through_frames(command: Command) -> Command:
    """Return a command as the other end of a connection decodes it."""
    (read,) = FrameDecoder().feed(encode_frame(command))
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
) -> SendMessageV2:
    """Build the header of a send (310, 320, 325) as Java's clients do."""
    return SendMessageV2(
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
