"""The name server: one command in, at most one answer out.

It is told who is there by the brokers themselves, and tells clients. Name servers know nothing of each other: a broker
registers with all of them, and a client asks any one. Nothing that a peer sends makes it raise: what cannot be read, is
not known or does not fit is answered with a code and a remark that says what to do. A request that says oneway is
handled and never answered.
"""

from collections.abc import Sequence

from steelyard.errors import SteelyardError
from steelyard.nameserver.names import refused
from steelyard.nameserver.options import NameServerOptions
from steelyard.nameserver.requests.table import HANDLERS
from steelyard.nameserver.state import State
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.peers import Hangup, Peer, Reply

__all__ = ["NameServer"]

_CODES = frozenset(RequestCode)


class NameServer:
    """A name server's core.

    >>> core = NameServer(NameServerOptions(), now_ms=0)
    >>> (reply,) = core.handle(Command(105, {"topic": "orders"}), Peer.at("127.0.0.1", 50_123, number=1), 0)
    >>> reply.command.code
    17
    """

    def __init__(self, options: NameServerOptions, *, now_ms: int, saved: bytes | None = None) -> None:
        self._state = State(options, saved)
        self.started_ms = now_ms

    @property
    def options(self) -> NameServerOptions:
        """The options as they are now: some can be changed by a request."""
        return self._state.options

    @property
    def is_changed(self) -> bool:
        """Whether something changed that should outlive the process, since `state` was last taken."""
        return self._state.is_changed

    def state(self) -> bytes:
        """Take what should outlive the process; pass it as ``saved`` to the next one. Empty at first."""
        self._state.is_changed = False
        return self._state.saved()

    def handle(self, command: Command, peer: Peer, now_ms: int) -> Sequence[Reply]:
        """Handle a request, and return its answer; what is no request, or wants no answer, gets none."""
        if command.is_answer:
            return ()  # a name server asks nobody anything
        handler = HANDLERS.get(command.code)
        try:
            answer = handler(self._state, command, peer, now_ms) if handler else _unknown(command)
        except SteelyardError as error:
            answer = refused(command, error)
        return () if command.is_oneway else (Reply(peer, answer),)

    def is_broker(self, peer: Peer) -> bool:
        """Whether a broker registered over this line."""
        return bool(self._state.registry.brokers.of_line(peer))

    def closed(self, peer: Peer, now_ms: int) -> Sequence[Reply | Hangup]:
        """Note that a line closed: the brokers that registered over it are gone. Then do what is due anyway."""
        self._state.registry.line_closed(peer)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> Sequence[Reply | Hangup]:
        """Let go of brokers that were silent for too long; return the lines to hang up."""
        return self._state.registry.expire(now_ms)


def _unknown(command: Command) -> Command:
    remark = f"request type {command.code} not supported by a name server"
    if command.code in _CODES:
        remark += f": {RequestCode(command.code).name} is for a broker, and GET_BROKER_CLUSTER_INFO (106) lists those"
    return answer_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
