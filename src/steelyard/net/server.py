"""A server's connections: commands go to its core, and the core's replies to the connections they are for.

`TcpListener` owns the port, `RemotingServer` all connections, by the id of their peer. Replies to the connection that
is being read leave with that read; those to others are written when the loop turns, one write for each connection. One
sweep a second checks all connections. A connection whose read brought more than one turn's work waits in a queue: each
turn of the loop gives one turn to that queue, and reads all others. A core that raises has a bug: the traceback is
logged, the request gets code 1, the connection goes on. Faults for tests wrap the core (testing/fault_host.py).
"""

import asyncio
import errno
import logging
import socket
import sys
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, TypeAlias

from steelyard.errors import CannotListen, SteelyardError
from steelyard.net.clock import elapsed_ns as read_elapsed
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.limits import ConnectionLimits
from steelyard.net.server_connection import ServerConnection
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import CloseConnection, Command, Peer, Reply, response_to

Replies: TypeAlias = Sequence[Reply | CloseConnection]
"""What a core wants sent or closed, in this order."""


class ServerCore(Protocol):
    """The rules of one server. It does not block, and refuses by its responses: whatever it raises is a bug."""

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Handle a command of a connection."""

    def flush(self, now_ms: int) -> Replies:
        """Finish what the commands of one read of a socket have in common."""

    def tick(self, now_ms: int) -> Replies:
        """Do what is due."""

    def connection_closed(self, peer: Peer, now_ms: int) -> Replies:
        """Handle the end of a connection."""


CommandHandler: TypeAlias = Callable[[Command, Peer, int], Replies]
"""Handles a command of a connection, at a time."""

_log = logging.getLogger("steelyard.net")

# Ids of connections are unique in a process, whatever server they belong to.
_connection_ids = count(1)

# Log entries between two sweeps, for closed connections and for bugs: a flood of requests must not flood the log.
_MAX_LOGGED_CLOSES = 20
_MAX_LOGGED_BUGS = 3

_MILLISECOND_NS = 1_000_000


class RemotingServer:
    """The connections of one server."""

    def __init__(
        self,
        core: ServerCore,
        loop: AbstractEventLoop,
        limits: ConnectionLimits | None = None,
        *,
        name: str = "server",
        clock: Callable[[], int] = read_clock,
        elapsed_ns: Callable[[], int] = read_elapsed,
    ) -> None:
        self._loop, self._name = loop, name
        self.set_core(core)
        self._limits = limits or ConnectionLimits()
        self.clock, self.elapsed_ns = clock, elapsed_ns
        self.turn_ns = self._limits.turn_ms * _MILLISECOND_NS
        self._turn_queue = deque[ServerConnection]()
        self._is_turn_scheduled = False
        self.is_accepting = True
        """Whether new connections stay open."""
        self._connections: dict[int, ServerConnection] = {}
        self._connections_by_host = Counter[str]()
        self._unflushed: list[ServerConnection] = []
        self._now_ms = clock()
        self._partial_frame_bytes = self._backlog_bytes = 0
        self._closes_since_sweep = self._bugs_since_sweep = 0
        self.received_bytes = self.sent_bytes = self.connections_opened = self.connections_closed = self.bugs = 0
        """Since the start. Connections count as closed where we closed them."""

    def set_core(self, core: ServerCore) -> None:
        """Serve a core from the next command on."""
        self._core = core
        # Bound once: both are called for every command or read.
        self._handle, self._flush = core.handle, core.flush

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._connections)

    def make_connection(self) -> ServerConnection:
        """Make the protocol of a connection that was accepted."""
        return ServerConnection(self, self._limits)

    # -- called by connections ----------------------------------------------------------------------------------------

    def connection_opened(self, connection: ServerConnection, host: str, port: int) -> None:
        """Register a new connection, or abort it."""
        connection.peer = Peer.at(host, port, connection_id=next(_connection_ids))
        connection.last_active_ms = self.clock()
        self._connections[connection.peer.connection_id] = connection
        self._connections_by_host[host] += 1
        self.connections_opened += 1
        if not self.is_accepting:
            connection.abort("the server accepts no connections")
        elif len(self._connections) > self._limits.connections:
            connection.abort(f"there are {self._limits.connections} connections already")
        elif self._connections_by_host[host] > self._limits.connections_per_host:
            connection.abort(f"its host has {self._limits.connections_per_host} connections already")

    def handle_command(self, command: Command, peer: Peer, now_ms: int) -> None:
        """Give a command to the core, and send its replies."""
        try:
            replies = self._handle(command, peer, now_ms)
        except Exception as error:
            replies = self._bug_response(command, peer, error)
        if replies:
            self.send_replies(replies)

    def _bug_response(self, command: Command, peer: Peer, error: Exception) -> Replies:
        self._log_bug(f"request {command.code} of {peer.address}")
        if command.flag:
            return ()
        remark = f"the server has a bug: {type(error).__name__}; its log says more"
        return (Reply(peer, response_to(command, ResponseCode.SYSTEM_ERROR, remark=remark)),)

    def flush_core(self, now_ms: int) -> None:
        """Let the core finish one read."""
        self._now_ms = now_ms
        try:
            replies = self._flush(now_ms)
        except Exception:
            self._log_bug("the end of a read")
            return
        if replies:
            self.send_replies(replies)

    def connection_lost(self, connection: ServerConnection) -> None:
        """Remove a closed connection, and notify the core."""
        peer = connection.peer
        del self._connections[peer.connection_id]
        self._connections_by_host[peer.host] -= 1
        if not self._connections_by_host[peer.host]:
            del self._connections_by_host[peer.host]
        self.notify_closed(peer)

    def notify_closed(self, peer: Peer) -> None:
        """Tell the core that a connection is closed."""
        try:
            replies = self._core.connection_closed(peer, self.clock())
        except Exception:
            self._log_bug(f"the closed connection of {peer.address}")
            return
        self.send_replies(replies)

    def log_close(self, connection: ServerConnection, why: str) -> None:
        """Log why we close a connection."""
        self._closes_since_sweep += 1
        self.connections_closed += 1
        if self._closes_since_sweep <= _MAX_LOGGED_CLOSES:
            _log.info("%s closes the connection of %s: %s", self._name, connection.peer.address, why)

    def _log_bug(self, what: str) -> None:
        self._bugs_since_sweep += 1
        self.bugs += 1
        if self._bugs_since_sweep <= _MAX_LOGGED_BUGS:
            _log.exception("%s: %s met a bug", self._name, what)

    def add_partial_frame_bytes(self, more_bytes: int) -> None:
        """Count the bytes of partial frames; abort the largest if they exceed the limit."""
        self._partial_frame_bytes += more_bytes
        while self._partial_frame_bytes > self._limits.total_partial_frame_bytes:
            largest = max(self._connections.values(), key=lambda connection: connection.partial_frame_bytes)
            self._partial_frame_bytes -= largest.partial_frame_bytes
            largest.partial_frame_bytes = 0
            largest.abort("partial frames take too much memory, and its is the largest")

    def record_written(self, size: int) -> int:
        """Count bytes that a transport got; return the time."""
        self._backlog_bytes += size
        self.sent_bytes += size
        if self._backlog_bytes > self._limits.total_backlog_bytes:
            self._loop.call_soon(self.sweep)
            self._backlog_bytes = 0
        return self._now_ms

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run something when the loop turns."""
        self._loop.call_soon(action)

    def queue_turn(self, connection: ServerConnection) -> None:
        """Let a connection go on after those that wait before it."""
        self._turn_queue.append(connection)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if self._turn_queue and not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._loop.call_soon(self._run_turns)

    def _run_turns(self) -> None:
        end_ns = self.elapsed_ns() + self.turn_ns
        for _ in range(len(self._turn_queue)):
            self._turn_queue.popleft().run_turn()
            if self.elapsed_ns() >= end_ns:
                break
        self._is_turn_scheduled = False
        self._schedule_turn()

    # -- called by the server's owner ---------------------------------------------------------------------------------

    def send_replies(self, replies: Replies) -> None:
        """Send replies to their connections; those to closed ones are dropped."""
        connections = self._connections
        for reply in replies:
            connection = connections.get(reply.peer.connection_id)
            if connection is None:
                continue
            if type(reply) is Reply:
                try:
                    connection.enqueue(reply.command)
                except SteelyardError as error:
                    self._enqueue_failed(connection, reply.command, error)
            elif isinstance(reply, CloseConnection):
                connection.close(reply.why)
            if not connection.is_write_scheduled:
                connection.is_write_scheduled = True
                if not self._unflushed:
                    self._loop.call_soon(self._flush_writes)
                self._unflushed.append(connection)

    def _enqueue_failed(self, connection: ServerConnection, command: Command, error: SteelyardError) -> None:
        _log.error("%s: a response to %s cannot be encoded: %s", self._name, connection.peer.address, error)
        if command.is_response:
            connection.enqueue(
                response_to(command, ResponseCode.SYSTEM_ERROR, remark=f"the response cannot be sent: {error}")
            )

    def _flush_writes(self) -> None:
        unwritten, self._unflushed = self._unflushed, []
        for connection in unwritten:
            connection.write()

    def peers(self) -> list[Peer]:
        """Return the peers of all connections, the oldest first."""
        return [connection.peer for connection in self._connections.values()]

    def abort_connection(self, peer: Peer, why: str) -> None:
        """Abort the connection of a peer, if it is open."""
        connection = self._connections.get(peer.connection_id)
        if connection is not None:
            connection.abort(why)

    def shift_deadlines(self, missed_ms: int) -> None:
        """Move the deadlines of all connections, since the clock jumped."""
        for connection in self._connections.values():
            connection.shift_deadlines(missed_ms)

    def tick(self) -> None:
        """Let the core do what is due."""
        now_ms = self._now_ms = self.clock()
        try:
            replies = self._core.tick(now_ms)
        except Exception:
            self._log_bug("a tick")
            return
        self.send_replies(replies)

    def sweep(self) -> None:
        """Close the connections that exceed a limit. Call it every second."""
        now_ms = self._now_ms = self.clock()
        if self._closes_since_sweep > _MAX_LOGGED_CLOSES:
            _log.info("%s closed %d more connections", self._name, self._closes_since_sweep - _MAX_LOGGED_CLOSES)
        if self._bugs_since_sweep > _MAX_LOGGED_BUGS:
            _log.error("%s met a bug %d more times", self._name, self._bugs_since_sweep - _MAX_LOGGED_BUGS)
        self._closes_since_sweep = self._bugs_since_sweep = 0
        backlogs = {connection: connection.check_timeouts(now_ms) for connection in list(self._connections.values())}
        self._backlog_bytes = sum(backlogs.values())
        if self._backlog_bytes > self._limits.total_backlog_bytes:
            for connection in sorted(backlogs, key=lambda each: -backlogs[each]):
                connection.abort("unread responses take too much memory, and its are the largest")
                self._backlog_bytes -= backlogs[connection]
                if self._backlog_bytes <= self._limits.total_backlog_bytes // 2:
                    break

    def close(self, why: str) -> None:
        """Close all connections, each after its last response."""
        for connection in list(self._connections.values()):
            connection.close(why)

    def abort(self) -> None:
        """Abort all connections at once, also those that are just being opened."""
        self.is_accepting = False
        for connection in list(self._connections.values()):
            connection.abort("the server goes away")


# Connections that may wait to be accepted: when a broker restarts, all its clients connect at once.
_ACCEPT_BACKLOG = 1_024
# Before accepting again, after file descriptors or memory ran out.
_ACCEPT_RETRY_S = 1.0


class TcpListener:
    """A port that is ours from `bind` on; it accepts from `start_accepting` on.

    We accept ourselves: asyncio's own server forgets a connection, and leaves it open, if the server is closed between
    accepting and opening it.
    """

    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self.host, self.port = bound.getsockname()[:2]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = set[asyncio.Task[None]]()

    @classmethod
    def bind(cls, host: str, port: int, *, unless_reserved: bool = False) -> "TcpListener":
        """Bind a port, any free one if it is 0; CannotListen says why that fails.

        A listener may use a port that was reserved for it (`reserve_port`), but by chance also one that was reserved
        for another; not ``unless_reserved``, which also leaves out ports with connections that closed lately.
        """
        bound = _bind_socket(host, port, is_shared=not unless_reserved)
        try:
            # At once, and not when connections are accepted: only this makes the port ours alone.
            bound.listen(_ACCEPT_BACKLOG)
        except OSError as error:
            bound.close()
            raise _listen_error(host, port, error) from None
        return cls(bound)

    @property
    def accepting_socket(self) -> socket.socket:
        """The socket, for a server that accepts by itself."""
        return self._socket

    @property
    def address(self) -> str:
        """Host and port as clients write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def start_accepting(self, server: RemotingServer) -> None:
        """Accept connections for a server."""
        self._loop = asyncio.get_running_loop()
        self._watch_socket(server)

    def _accept(self, server: RemotingServer, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(_ACCEPT_BACKLOG):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.warning(
                    "%s cannot accept connections (%s); it retries in %g s", self.address, error, _ACCEPT_RETRY_S
                )
                loop.remove_reader(self._socket)
                loop.call_later(_ACCEPT_RETRY_S, self._watch_socket, server)
                return
            opening = loop.create_task(_open_accepted(server, loop, accepted))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _watch_socket(self, server: RemotingServer) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket, self._accept, server, self._loop)

    def close(self) -> None:
        """Accept no more connections; open ones stay."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket)
        self._socket.close()

    async def wait_closed(self) -> None:
        """Wait until the server knows all accepted connections."""
        while self._opening:
            await asyncio.wait(self._opening)


async def _open_accepted(server: RemotingServer, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
    try:
        await loop.connect_accepted_socket(server.make_connection, accepted)
    except OSError as error:  # the peer closed it already
        accepted.close()
        _log.debug("a connection was not opened: %s", error)


def reserve_port(host: str, port: int) -> socket.socket | None:
    """Reserve a port, any free one if it is 0, while no server listens there; None: not on this system.

    A bound socket that does not listen refuses connections. Linux lets a listener use the same port beside it, and
    does not hand the port to programs that ask for any free one: a server can stop and come back at its address.
    """
    return _bind_socket(host, port) if sys.platform == "linux" else None


def _bind_socket(host: str, port: int, *, is_shared: bool = True) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, (address, _, *scope) = found[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise _listen_error(host, port, error) from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_shared)
        bound.setblocking(False)
        bound.bind((address, port, *scope))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for the next server at this address
    except (OSError, OverflowError) as error:
        bound.close()
        raise _listen_error(host, port, error) from None
    return bound


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach a host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = [str(each[4][0]) for each in found]
    return all(address.startswith("127.") or address == "::1" for address in addresses)


def is_wildcard(host: str) -> bool:
    """Whether a host means all addresses of this machine: one can listen there, and not connect."""
    return host in ("", "0", "0.0.0.0", "::", "[::]")


def _listen_error(host: str, port: int, error: Exception) -> CannotListen:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return CannotListen(
            f"port {port} of {host} is in use", next_step="stop what listens there, or give another port"
        )
    if number in (errno.EACCES, errno.EPERM):
        return CannotListen(f"port {port} of {host} needs privileges", next_step="give a port above 1023")
    why = getattr(error, "strerror", None) or str(error)
    return CannotListen(f"cannot listen on {host}:{port} ({why.lower()})")
