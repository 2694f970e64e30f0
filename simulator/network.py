"""The simulated network: who listens where, how connections open, how long delivery takes, and how connections break.

Bytes really travel: one end encodes a command as a frame, the other decodes it. A connection has two ends and two
pipes. Whatever a fault does, it keeps TCP's promise: what arrives is what was sent, in order, up to some point after
which nothing arrives. Several frames may arrive in one read, and one frame in two. The end of a broken connection
notices at once, some time after it has sent something, or never.

To connect takes one delay there and one back. Without a listener the connection is refused; if the machine is gone, or
nothing gets through, it times out. A paused process does not accept, but its kernel does: the connection looks open.

Left out: names (hosts are IP addresses), bandwidth, and full connections whose reader stops.
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from simulator.facts import ConnectionDisturbed
from steelyard.wire.command import Command, Peer
from steelyard.wire.frames import FrameDecoder, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.process import Process
    from simulator.world import Timer, World


class SimulatedConnection:
    """One end of a connection, as its process sees it."""

    __slots__ = (
        "_is_reset_scheduled",
        "_splitter",
        "_unsent",
        "incoming",
        "is_closed",
        "is_open",
        "local",
        "network",
        "number",
        "outgoing",
        "peer_name",
        "process",
        "remote",
    )

    def __init__(
        self, network: "Network", process: "Process", number: int, local: str, remote: str, peer_name: str
    ) -> None:
        self.network, self.process, self.number, self.local, self.remote = network, process, number, local, remote
        self.peer_name = peer_name
        """The process at the other end."""
        self.is_open = False
        """Whether commands can be sent, as far as this end knows."""
        self.is_closed = False
        """Whether this end is closed, or knows that the other is."""
        self.outgoing: _Pipe | None = None
        """To the other end, once there is one."""
        self.incoming: _Pipe | None = None
        """From the other end."""
        self._splitter = FrameDecoder()
        self._unsent: list[Command] = []
        self._is_reset_scheduled = False

    def send(self, command: Command) -> None:
        """Send a command, at once or as soon as the connection is open; after the end of the connection it is lost."""
        pipe = self.outgoing
        if self.is_closed:
            return
        if not self.is_open or pipe is None:
            self._unsent.append(command)
        elif pipe.is_broken:
            self.schedule_reset()
        elif self.network.drops is None or not self.network.drops(command):
            pipe.send(encode_frame(command))

    def close(self) -> None:
        """Close this end; the other one receives what was sent, then the close."""
        if self.is_closed:
            return
        self.mark_closed()
        if self.outgoing is not None:
            self.outgoing.send(None)

    def peer(self) -> Peer:
        """Return the other end as a server core knows it."""
        host, _, port = self.remote.rpartition(":")
        return Peer.at(host, int(port), connection_id=self.number)

    # -- for the network ----------------------------------------------------------------------------------------------

    def mark_closed(self) -> None:
        """Close this end without a callback."""
        self.is_open, self.is_closed = False, True
        self.process.connections.pop(self.number, None)
        self._unsent.clear()

    def mark_open(self) -> None:
        """Open this end, and send what waited."""
        self.is_open = True
        early, self._unsent = self._unsent, []
        for command in early:
            self.send(command)

    def schedule_reset(self) -> None:
        """Let this end notice, some time after it sent something, that the connection is broken."""
        if not self._is_reset_scheduled:
            self._is_reset_scheduled = True
            self.network.reset_later(self)

    def notify_closed(self) -> None:
        """Notify this end that the connection is closed."""
        if not self.is_closed:
            self.process.run_delivery(self._handle_closed)

    def _handle_closed(self) -> None:
        if not self.is_closed:
            self.mark_closed()
            self.process.connection_closed(self)

    def deliver(self, data: bytes | None) -> None:
        """Deliver bytes to this end; None is the end of the stream."""
        if self.is_closed:
            return
        if data is None:
            self.notify_closed()
        else:
            self.process.run_delivery(partial(self._read, data))

    def _read(self, data: bytes) -> None:
        if self.is_closed:
            return
        if not self.is_open:
            self.mark_open()
            self.process.connection_opened(self)
            if not data:
                return
        process, journal = self.process, self.network.journal
        journal.record_delivery(self.network.world.now_us, self.number, data)
        is_traced = journal.trace_lines is not None
        for command in self._splitter.feed(data):
            if is_traced:
                journal.trace_command(self.peer_name, process.name, command)
            process.command_received(self, command)
            if self.is_closed:
                return
        process.read_finished(self)


class _Pipe:
    """One direction of a connection."""

    __slots__ = ("_in_flight", "_network", "_overdue", "is_broken", "is_jammed", "slow_us", "target")

    def __init__(self, network: "Network", target: SimulatedConnection) -> None:
        self._network, self.target = network, target
        self.is_broken = False
        """Whether nothing that is sent from now on arrives."""
        self.is_jammed = False
        """Whether everything in flight waits."""
        self.slow_us = 0
        """Extra delay of every delivery."""
        self._in_flight: deque[tuple[int, bytes | None]] = deque()
        self._overdue = 0
        """Deliveries that were due while the pipe was jammed."""

    def send_opening(self) -> None:
        """Notify the other end that the connection is open."""
        self._enqueue(b"")

    def send(self, data: bytes | None) -> None:
        """Send bytes; None is the end of the stream."""
        if self.is_broken:
            return
        network = self._network
        cut = 0
        if data is not None and network.draw_frame_split():
            cut = network.world.random.randrange(1, len(data))
            self._enqueue(data[:cut])
        self._enqueue(data[cut:] if cut and data is not None else data, is_remainder=cut > 0)

    def _enqueue(self, data: bytes | None, *, is_remainder: bool = False) -> None:
        network, in_flight = self._network, self._in_flight
        world = network.world
        at_us = world.now_us + network.draw_delay_us() + self.slow_us
        if in_flight:
            last_us, before = in_flight[-1]
            if at_us <= last_us:
                if before is not None and data is not None and not is_remainder:
                    in_flight[-1] = last_us, before + data  # one read returns both
                    return
                at_us = last_us + 1
        in_flight.append((at_us, data))
        world.schedule(at_us - world.now_us, self._deliver_next)

    def _deliver_next(self) -> None:
        if self.is_jammed:
            self._overdue += 1
        elif self._in_flight:
            self.target.deliver(self._in_flight.popleft()[1])

    def jam(self) -> None:
        """Hold back everything."""
        self.is_jammed = True

    def release(self) -> None:
        """Deliver everything that waited."""
        self.is_jammed = False
        due, self._overdue = self._overdue, 0
        for _ in range(due):
            self._network.world.schedule(0, self._deliver_next)

    def cut(self, delivered_count: int | None = None) -> None:
        """Break it: all but the first deliveries in flight are lost (how many is drawn), and everything after them."""
        self.is_broken = True
        if delivered_count is None:
            delivered_count = self._network.world.random.randint(0, len(self._in_flight))
        while len(self._in_flight) > delivered_count:
            self._in_flight.pop()


_FIRST_PORT = 40_000
_CONNECT_TIMEOUT_US = (1_000_000, 4_000_000)
"""Connect timeout where nothing responds."""
_UNANSWERED_TIMEOUT_US = (5_000_000, 20_000_000)
"""How long it takes to notice that the machine behind an open connection is gone."""
_RESET_US, _LATE_RESET_US = (1_000, 200_000), (200_000, 5_000_000)
"""How long it takes until a sender on a broken connection gets a reset."""


class NetworkProfile(Struct, frozen=True):
    """How a network behaves while nothing is broken."""

    min_delay_us: int = 200
    usual_delay_us: int = 3_000
    """Most deliveries take between the two."""
    tail_delay_us: int = 50_000
    tail_fraction: float = 0.01
    """This fraction of deliveries takes up to that long."""
    split_fraction: float = 0.02
    """Fraction of frames that arrive in two parts."""


class Network:
    """All connections of a world."""

    def __init__(self, world: "World") -> None:
        self.world, self.journal = world, world.journal
        self.profile = NetworkProfile()
        self.drops: Callable[[Command], bool] | None = None
        """Commands that never leave their sender, such as a notification for which there was no room."""
        self.is_healed = False
        """Whether broken connections are noticed soon: at the end of a history."""
        self._listeners: dict[str, Process] = {}
        self._silent_hosts: set[str] = set()
        """Addresses of machines that are gone, and names of their processes: they do not even refuse."""
        self._jams: set[tuple[str, str]] = set()
        """Directions, by the names of two processes, in which nothing gets through."""
        self._blocked_pairs: set[tuple[str, str]] = set()
        """Pairs of processes that cannot open connections."""
        self._slow_us: dict[tuple[str, str], int] = {}
        self._opening: dict[int, tuple[SimulatedConnection, Process, Timer]] = {}
        """Attempts that hang: the connection, the listener, and the timeout."""
        self._last_number = self._last_port = 0
        self._random = world.random.random

    # -- connections --------------------------------------------------------------------------------------------------

    def listen(self, process: "Process", address: str) -> None:
        """Let a process accept connections at an address until it dies."""
        self._listeners[address] = process
        self._silent_hosts -= {address, process.name}

    def connect(self, process: "Process", address: str) -> SimulatedConnection:
        """Open a connection; `Process.connection_opened` or `Process.connection_closed` follows."""
        self._silent_hosts.discard(process.name)
        self._last_port += 1
        local = f"{process.host}:{_FIRST_PORT + self._last_port % 20_000}"
        listener = self._listeners.get(address)
        connection = self._new_connection(process, local, address, address if listener is None else listener.name)
        delay_us = self.draw_delay_us()
        if listener is not None:
            self.world.schedule(delay_us, partial(self._connect_arrived, connection, address))
        elif address in self._silent_hosts:
            self.world.schedule(self._draw_between(_CONNECT_TIMEOUT_US), connection.notify_closed)
        else:
            self.world.schedule(delay_us + self.draw_delay_us(), connection.notify_closed)
        return connection

    def _new_connection(self, process: "Process", local: str, remote: str, peer_name: str) -> SimulatedConnection:
        self._last_number += 1
        connection = SimulatedConnection(self, process, self._last_number, local, remote, peer_name)
        process.connections[connection.number] = connection
        return connection

    def _connect_arrived(self, connection: SimulatedConnection, address: str) -> None:
        if connection.is_closed:
            return
        listener = self._listeners.get(address)
        if listener is None:
            self.world.schedule(
                self._draw_between(_CONNECT_TIMEOUT_US) if address in self._silent_hosts else self.draw_delay_us(),
                connection.notify_closed,
            )
        elif self._blocked_pairs and _pair(connection.process.name, listener.name) in self._blocked_pairs:
            self.world.schedule(self.draw_delay_us(), connection.notify_closed)
        elif self._jams and self._is_jammed(connection.process.name, listener.name):
            given_up = self.world.schedule(
                self._draw_between(_CONNECT_TIMEOUT_US), partial(self._connect_timed_out, connection)
            )
            self._opening[connection.number] = connection, listener, given_up
        else:
            self._accept_connection(connection, listener)

    def _connect_timed_out(self, connection: SimulatedConnection) -> None:
        del self._opening[connection.number]
        connection.notify_closed()

    def _accept_connection(self, client_end: SimulatedConnection, listener: "Process") -> None:
        server_end = self._new_connection(listener, client_end.remote, client_end.local, client_end.process.name)
        client_end.outgoing = server_end.incoming = _Pipe(self, server_end)
        server_end.outgoing = client_end.incoming = _Pipe(self, client_end)
        names = client_end.process.name, listener.name
        client_end.outgoing.slow_us, server_end.outgoing.slow_us = (
            self._slow_us.get(names, 0),
            self._slow_us.get(names[::-1], 0),
        )
        server_end.mark_open()
        listener.run_delivery(partial(_accept, server_end))
        server_end.outgoing.send_opening()

    def drop_process(self, process: "Process", *, silently: bool) -> None:
        """Remove a dead process: its connections close, or, silently, nothing is ever received from it again."""
        addresses = [address for address, listener in self._listeners.items() if listener is process]
        for address in addresses:
            del self._listeners[address]
        if silently:
            self._silent_hosts |= {process.name, *addresses}
        for connection in list(process.connections.values()):
            connection.mark_closed()
            if connection.outgoing is None or connection.incoming is None:
                continue
            connection.incoming.cut(0)
            if silently:
                connection.outgoing.cut()
            else:
                self._close_soon(connection.outgoing)

    def _close_soon(self, pipe: _Pipe) -> None:
        """Deliver some of what a dead process sent, then close."""
        pipe.cut()
        self._notify_closed_later(pipe.target)

    # -- time ---------------------------------------------------------------------------------------------------------

    def draw_delay_us(self) -> int:
        """Draw how long a delivery takes."""
        drawn, profile = self._random(), self.profile
        if drawn >= profile.tail_fraction:
            return profile.min_delay_us + int((profile.usual_delay_us - profile.min_delay_us) * drawn)
        return profile.usual_delay_us + int(
            (profile.tail_delay_us - profile.usual_delay_us) * drawn / profile.tail_fraction
        )

    def draw_frame_split(self) -> bool:
        """Draw whether a frame arrives in two parts."""
        return self._random() < self.profile.split_fraction

    def _draw_between(self, bounds_us: tuple[int, int]) -> int:
        return self.world.random.randint(*bounds_us)

    # -- faults -------------------------------------------------------------------------------------------------------

    def connections_between(self, one: str, other: str) -> list[SimulatedConnection]:
        """Return both ends of all connections between two processes."""
        found = []
        for name, server_end in ((one, other), (other, one)):
            process = self.world.processes.get(name)
            if process is not None:
                found += [
                    connection
                    for connection in process.connections.values()
                    if connection.peer_name == server_end and connection.outgoing is not None
                ]
        return found

    def cut(self, one: str, other: str) -> None:
        """Break all connections between two processes; each end notices at its own time."""
        for connection in self._cut_pipes(one, other):
            self._notify_closed_later(connection, always=False)
        self._record_disturbance(one, other, "cut")

    def half_open(self, one: str, other: str) -> None:
        """Break all connections between two processes; the first notices soon, the other once it sends something."""
        for connection in self._cut_pipes(one, other):
            if connection.process.name == one:
                self.world.schedule(self.draw_delay_us(), connection.notify_closed)
        self._record_disturbance(one, other, "half open")

    def stall_until_reconnect(self, one: str, other: str, for_us: int) -> None:
        """Hold back what one process sends; halfway it closes its connections, and then all of it arrives."""
        for connection in self.connections_between(one, other):
            if connection.process.name == one and connection.outgoing is not None and not connection.outgoing.is_broken:
                connection.outgoing.jam()
                self.world.schedule(for_us // 2, partial(self._close_for_reconnect, connection, connection.outgoing))
                self.world.schedule(for_us, connection.outgoing.release)
        self._record_disturbance(one, other, "stuck")

    def _close_for_reconnect(self, connection: SimulatedConnection, pipe: _Pipe) -> None:
        connection.notify_closed()
        pipe.send(None)

    def _cut_pipes(self, one: str, other: str) -> list[SimulatedConnection]:
        ends = self.connections_between(one, other)
        for connection in ends:
            if connection.outgoing is not None:
                connection.outgoing.cut()
        return ends

    def block_connects(self, one: str, other: str) -> None:
        """Refuse new connections between two processes."""
        self._blocked_pairs.add(_pair(one, other))

    def allow_connects(self, one: str, other: str) -> None:
        """Allow new connections between two processes again."""
        self._blocked_pairs.discard(_pair(one, other))

    def _notify_closed_later(self, connection: SimulatedConnection, *, always: bool = True) -> None:
        """Let an end notice that its connection is broken: mostly soon, seldom late, or once it sends something."""
        drawn = self._random()
        if drawn < (0.9 if always else 0.7) or self.is_healed:
            self.world.schedule(self.draw_delay_us(), connection.notify_closed)
        elif always or drawn < 0.85:
            self.world.schedule(self._draw_between((50_000, 2_000_000)), connection.notify_closed)

    def reset_later(self, connection: SimulatedConnection) -> None:
        """Reset a sender on a broken connection after a while; if the other machine is gone, much later."""
        if connection.peer_name in self._silent_hosts:
            bounds_us = _UNANSWERED_TIMEOUT_US
        else:
            bounds_us = _RESET_US if self.is_healed or self._random() < 0.8 else _LATE_RESET_US
        self.world.schedule(self._draw_between(bounds_us), connection.notify_closed)

    def jam(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Hold back everything between two processes, or only what the first sends."""
        pairs = [(one, other)] if one_way else [(one, other), (other, one)]
        for source, target in pairs:
            self._jams.add((source, target))
            for pipe in self._pipes(source, target):
                pipe.jam()
        self._record_disturbance(one, other, "one way" if one_way else "jammed")

    def release(self, one: str, other: str) -> None:
        """Deliver what waited between two processes."""
        for source, target in ((one, other), (other, one)):
            if (source, target) in self._jams:
                self._jams.remove((source, target))
                for pipe in self._pipes(source, target):
                    pipe.release()
        for connection, listener, given_up in list(self._opening.values()):
            if not self._is_jammed(connection.process.name, listener.name):
                del self._opening[connection.number]
                given_up.cancel()
                self._connect_arrived(connection, connection.remote)
        self.journal.trace_remark(f"connections of {one} and {other} are released")

    def _is_jammed(self, one: str, other: str) -> bool:
        return (one, other) in self._jams or (other, one) in self._jams

    def slow(self, one: str, other: str, by_us: int) -> None:
        """Add a delay to everything between two processes; 0 removes it."""
        for source, target in ((one, other), (other, one)):
            self._slow_us[source, target] = by_us
            for pipe in self._pipes(source, target):
                pipe.slow_us = by_us
        if by_us:
            self._record_disturbance(one, other, "slow")
        self.journal.trace_remark(f"connections of {one} and {other} are {by_us // 1000} ms slower")

    def _pipes(self, source: str, target: str) -> list[_Pipe]:
        process = self.world.processes.get(source)
        connections = process.connections.values() if process is not None else ()
        return [
            connection.outgoing
            for connection in connections
            if connection.peer_name == target and connection.outgoing is not None
        ]

    def heal(self) -> None:
        """Undo all faults; broken connections are noticed soon."""
        self.is_healed = True
        self._blocked_pairs.clear()
        for one, other in sorted(self._jams):
            self.release(one, other)
        for one, other in sorted(self._slow_us):
            self.slow(one, other, 0)
        for process in self.world.processes.values():
            for connection in list(process.connections.values()):
                if connection.outgoing is not None and connection.outgoing.is_broken:
                    self.world.schedule(self.draw_delay_us(), connection.notify_closed)

    def _record_disturbance(self, one: str, other: str, how: str) -> None:
        self.world.record(ConnectionDisturbed(at_ms=self.world.now_ms(), one=one, other=other, how=how))


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _accept(connection: SimulatedConnection) -> None:
    if not connection.is_closed:
        connection.process.connection_accepted(connection)
