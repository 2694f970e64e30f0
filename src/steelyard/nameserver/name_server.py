"""The name server core: one command in, at most one response out.

Brokers register here, and clients ask for routes. Name servers know nothing of each other: a broker registers with all
of them, and a client asks any one. Nothing that a peer sends makes it raise: what is malformed, unknown or too much is
answered with a code and a remark that says what to do. A oneway request is handled and never answered.
"""

from collections.abc import Sequence

from steelyard.errors import SteelyardError
from steelyard.nameserver.options import NameServerOptions
from steelyard.nameserver.requests import HANDLERS
from steelyard.nameserver.state import NameServerState
from steelyard.nameserver.validation import error_response
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import CloseConnection, Command, Peer, Reply, response_to

__all__ = ["NameServerCore"]


_CODES = frozenset(RequestCode)


class NameServerCore:
    """One name server.

    >>> core = NameServerCore(NameServerOptions(), now_ms=0)
    >>> (reply,) = core.handle(Command(105, {"topic": "orders"}), Peer.at("127.0.0.1", 50_123, connection_id=1), 0)
    >>> reply.command.code
    17
    """

    def __init__(self, options: NameServerOptions, *, now_ms: int, saved: bytes | None = None) -> None:
        self._state = NameServerState(options, saved)
        self.started_ms = now_ms

    @property
    def options(self) -> NameServerOptions:
        """The present options: some can be changed by a request."""
        return self._state.options

    @property
    def has_unsaved_changes(self) -> bool:
        """Whether something to save has changed since the last `export_state`."""
        return self._state.has_unsaved_changes

    def export_state(self) -> bytes:
        """Return what should outlive the process; pass it as ``saved`` to the next one."""
        self._state.has_unsaved_changes = False
        return self._state.encode()

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Sequence[Reply]:
        """Handle a request and return its response; responses and oneway requests get none."""
        if command.is_response:
            return ()  # a name server sends no requests
        handler = HANDLERS.get(command.code)
        try:
            answer = handler(self._state, command, peer, now_ms) if handler else _unsupported(command)
        except SteelyardError as error:
            answer = error_response(command, error)
        return () if command.is_oneway else (Reply(peer, answer),)

    def is_broker(self, peer: Peer) -> bool:
        """Return whether a broker registered over this connection."""
        return bool(self._state.registry.brokers.on_connection(peer))

    def connection_closed(self, peer: Peer, now_ms: int) -> Sequence[Reply | CloseConnection]:
        """Remove the brokers that registered over a closed connection, and do what is due."""
        self._state.registry.connection_closed(peer)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> Sequence[Reply | CloseConnection]:
        """Remove brokers that were silent for too long; return the connections to close."""
        return self._state.registry.expire(now_ms)


def _unsupported(command: Command) -> Command:
    remark = f"request type {command.code} not supported by a name server"
    if command.code in _CODES:
        remark += f": {RequestCode(command.code).name} is for a broker, and GET_BROKER_CLUSTER_INFO (106) lists those"
    return response_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
