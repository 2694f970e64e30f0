"""A name server in a simulated world: the real core. Its saved settings survive a restart, registrations do not."""

from typing import TYPE_CHECKING

from simulator.network import SimulatedConnection
from simulator.process import Process
from steelyard.nameserver.name_server import NameServerCore
from steelyard.nameserver.options import NameServerOptions
from steelyard.wire.command import CloseConnection, Command, Peer, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.world import World

_TICK_MS = 1_000


class NameServerProcess(Process):
    """One name server. It runs from `start` on."""

    def __init__(
        self,
        world: "World",
        name: str = "nameserver",
        host: str = "10.0.0.1",
        port: int = 9876,
        options: NameServerOptions | None = None,
    ) -> None:
        super().__init__(world, name, host)
        self.address = f"{host}:{port}"
        self.options = options or NameServerOptions()
        self.server: NameServerCore | None = None
        """Its core, while it runs."""
        self._saved: bytes | None = None
        self._peers: dict[int, Peer] = {}
        self.is_alive = False

    def start(self) -> None:
        """Start it, and listen; brokers have to register again."""
        if self.is_alive:
            return
        self.revive()
        self.server = NameServerCore(self.options, saved=self._saved)
        self.record_server_started("nameserver")
        self.world.network.listen(self, self.address)
        self.call_later(_TICK_MS, self._tick)

    def restart(self) -> None:
        """Start it again, if it does not run."""
        self.start()

    def stop(self) -> None:
        """Close its connections and end."""
        if self.server is None:
            return
        self._saved = self.server.export_state()
        for connection in list(self.connections.values()):
            connection.close()
        self.kill("left")

    def crash(self) -> None:
        """Crash the process."""
        self.kill("crashed")

    def lose_power(self) -> None:
        """End the machine: connections are not closed."""
        self.kill("power")

    def process_died(self, how: str) -> None:
        """Forget everything but the saved settings."""
        del how
        self.server = None
        self._peers.clear()

    def connection_accepted(self, connection: SimulatedConnection) -> None:
        """Accept a client."""
        self._peers[connection.number] = connection.peer()

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Pass a command to the core."""
        if self.server is not None:
            self._send_replies(self.server.handle(command, self._peers[connection.number], self.clock.wall_ms()))

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Pass a closed connection to the core."""
        peer = self._peers.pop(connection.number, None)
        if self.server is not None and peer is not None:
            self._send_replies(self.server.connection_closed(peer, self.clock.wall_ms()))

    def _send_replies(self, replies: "Sequence[Reply | CloseConnection]") -> None:
        for reply in replies:
            connection = self.connections.get(reply.peer.connection_id)
            if connection is not None and isinstance(reply, CloseConnection):
                connection.close()
                self.connection_closed(connection)
            elif connection is not None and isinstance(reply, Reply):
                connection.send(reply.command)

    def _tick(self) -> None:
        if self.server is not None:
            self._send_replies(self.server.tick(self.clock.wall_ms()))
            if self.server.has_unsaved_changes:
                self._saved = self.server.export_state()
            self.call_later(_TICK_MS, self._tick)
