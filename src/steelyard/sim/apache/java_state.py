"""What one of Java's members knows, for the parts that it is made of: pulling, handling, rebalancing."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.balance.actions import Start
from steelyard.balance.allocate.average import Average
from steelyard.balance.allocate.strategy import Strategy
from steelyard.balance.member_options import Mode
from steelyard.model import Queue, Route, StoredMessage, Subscription
from steelyard.sim.apache.java_calls import Calls
from steelyard.sim.apache.release import Release
from steelyard.sim.process import Process
from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Fields
from steelyard.wire.headers.group import CommitOffset

if TYPE_CHECKING:
    from steelyard.sim.apache.java_queue import ProcessQueue

__all__ = ["JavaOptions", "JavaState", "UserCode"]

UserCode = Callable[[StoredMessage, int], tuple[int, bool]]
"""Takes a message and how often it was tried here; says how long it takes in milliseconds, and whether it is fine."""


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """One of Java's push consumers."""

    group: str
    id: str
    topics: Mapping[str, Subscription]
    mode: Mode = Mode.CONCURRENT
    strategy: Strategy = field(default_factory=Average)
    start: Start = field(default_factory=Start)
    handlers: int = 20
    most_tries: int = 16
    """For messages in order: -1 tries for ever, which is what Java does unless it is told."""
    version: str = "5.x"

    @property
    def retry_topic(self) -> str:
        """The topic of the group's retries."""
        return f"%RETRY%{self.group}"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """What is pulled from; broadcasting has no retries."""
        wanted = sorted(self.topics)
        return tuple(wanted) if self.mode is Mode.BROADCAST else (*wanted, self.retry_topic)

    @property
    def model(self) -> MessageModel:
        """How members share, in the words of heartbeats."""
        return MessageModel.BROADCASTING if self.mode is Mode.BROADCAST else MessageModel.CLUSTERING


class JavaState:
    """One member."""

    def __init__(
        self,
        process: Process,
        calls: Calls,
        options: JavaOptions,
        name_servers: Sequence[str],
        file: MutableMapping[Queue, int],
        rebalance_now: Callable[[], None],
    ) -> None:
        self.process, self.calls, self.options = process, calls, options
        self.release = Release(options.version)
        self.is_orderly = options.mode is Mode.ORDERLY
        self.is_broadcasting = options.mode is Mode.BROADCAST
        self.rebalance_now = rebalance_now
        self.name_servers, self.name_server = tuple(name_servers), 0
        self.routes: dict[str, Route] = {}
        self.addresses: dict[str, str] = {}
        """The master of each broker, of the last routes."""
        self.queues: dict[Queue, ProcessQueue] = {}
        self.offsets: dict[Queue, int] = {}
        """What is to be committed."""
        self.file = file
        """The offsets of a broadcasting member, which outlive it."""
        self.versions = dict.fromkeys(options.all_topics, process.clock.wall_ms())
        """Of the subscriptions: for each topic the time of the last change of what it has."""
        self.is_beating = False
        self.is_stopped = False
        self._client_version = self.release.client_version

    def now_ms(self) -> int:
        """Return the time, as Java reads it: on the wall."""
        return self.process.clock.wall_ms()

    def request(self, code: int, fields: Fields, body: bytes = b"") -> Command:
        """Make a request."""
        return Command(code, fields, body, version=self._client_version, language="JAVA")

    def move(self, queue: Queue, offset: int, *, only_up: bool = True) -> None:
        """Note what is to be committed."""
        if not only_up or offset > self.offsets.get(queue, -1):
            self.offsets[queue] = offset

    def persist(self, queue: Queue) -> None:
        """Commit a queue, without waiting for a word."""
        offset = self.offsets.get(queue)
        if offset is None:
            return
        if self.is_broadcasting:
            self.file[queue] = offset
            return
        address = self.addresses.get(queue.broker)
        if address is not None:
            header = CommitOffset(self.options.group, queue.topic, queue.queue_id, offset)
            self.calls.tell(address, self.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def persist_all(self) -> None:
        """Commit every queue that it has, whether or not anything has changed."""
        for queue in list(self.queues):
            self.persist(queue)
