"""All that an Apache broker knows: what it keeps, and what it forgets when its process ends.

Handlers change it and never touch a clock or a timer: the process (broker.py) runs them and lends them its hands.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from steelyard.model import Queue
from steelyard.sim.apache.delays import Delays
from steelyard.sim.apache.halves import Halves
from steelyard.sim.apache.held import Held
from steelyard.sim.apache.locks import Locks
from steelyard.sim.apache.log import Entry, Log
from steelyard.sim.apache.offsets import Offsets
from steelyard.sim.apache.pools import Pools
from steelyard.sim.apache.registry import Registry
from steelyard.sim.apache.relays import Relays
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.topics import Topics
from steelyard.sim.facts import Fact
from steelyard.sim.line import Line
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import RESPONSE, Command, Fields
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import CLUSTER, REGION, TRACE_ON

__all__ = ["Handler", "Hands", "Kept", "State"]

_NOTHING: dict[str, str] = {}


class Kept:
    """What survives the process: the log, the topics and groups, what waits, and offsets as the file has them."""

    def __init__(self, log: Log, topics: Topics) -> None:
        self.log, self.topics = log, topics
        self.groups: set[str] = set()
        self.delays = Delays()
        self.halves = Halves()
        self.offsets_file: dict[tuple[str, Queue], int] = {}


class Hands(Protocol):
    """What a process does for its broker."""

    def at_ms(self) -> int:
        """Return the world's time, for facts."""

    def tell(self, fact: Fact) -> None:
        """Tell a fact."""

    def changed(self) -> None:
        """Take note that a topic came or changed, or that a message waits for its time."""

    def relayed(self, line: int, opaque: int) -> None:
        """Take note that a question went on to a member, and give it up in time."""

    def wake(self, line: Line, request: Command) -> None:
        """Serve a pull again that waited."""


class State:
    """One life of a broker."""

    def __init__(
        self, kept: Kept, *, name: str, cluster: str, address: str, release: Release, hands: Hands, pools: Pools
    ) -> None:
        self.kept, self.name, self.cluster, self.address, self.release = kept, name, cluster, address, release
        self.log, self.topics, self.groups = kept.log, kept.topics, kept.groups
        self.hands, self.pools = hands, pools
        self.registry, self.locks, self.held, self.relays = Registry(), Locks(name), Held(), Relays()
        self.offsets = Offsets(kept.offsets_file)
        self.producers: dict[str, dict[int, str]] = {}
        """Producer groups: the client id of each line."""
        self.lines: dict[int, Line] = {}
        """Lines that are open. A request may be executed whose line is none of them."""
        self.started_ms = 0
        self.turn = 0
        self.stamp = _stamp(cluster, release)
        """What every message gets."""
        self._version = release.server_version

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue of this broker."""
        return Queue(topic, self.name, queue_id)

    def answer(
        self,
        request: Command,
        code: int = ResponseCode.SUCCESS,
        fields: Fields = _NOTHING,
        body: bytes = b"",
        remark: str | None = None,
    ) -> Command:
        """Make the answer to a request."""
        return Command(code, fields, body, request.opaque, RESPONSE, remark, self._version, "JAVA", request.header_type)

    def request(self, code: int, fields: Fields, body: bytes = b"", *, flag: int = 0) -> Command:
        """Make a request to a client."""
        return Command(code, fields, body, flag=flag, version=self._version, language="JAVA")

    def stored(self, entry: Entry, now_ms: int) -> None:
        """Let those know who wait for a message that was stored, or see to it that it is delivered in time."""
        if self.kept.delays.stored(entry, now_ms):
            self.hands.changed()
        for pull in self.held.woken(entry):
            self.pools.submit(partial(self.hands.wake, pull.line, pull.request))

    def next_turn(self) -> int:
        """Return the next of numbers that go on, for choices among equals."""
        self.turn += 1
        return self.turn


def _stamp(cluster: str, release: Release) -> bytes:
    region = {} if release is Release.V4 else {REGION: "DefaultRegion", TRACE_ON: "true"}
    return encode_properties({CLUSTER: cluster} | region)


Handler = Callable[[State, Command, Line, int], Command | None]
"""Executes a request: state, request, its line, the broker's time. None: the answer comes later, or never."""
