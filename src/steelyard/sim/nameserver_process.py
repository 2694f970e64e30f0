"""A name server in a simulated world: the real core; its settings outlive it, what brokers told it does not."""

from typing import TYPE_CHECKING

from steelyard.nameserver.core import NameServer
from steelyard.nameserver.options import NameServerOptions
from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.command import Command
from steelyard.wire.peers import Hangup, Peer, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.sim.world import World

__all__ = ["NameServerProcess"]

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
        self.server: NameServer | None = None
        """Its core, while it runs."""
        self._saved: bytes | None = None
        self._peers: dict[int, Peer] = {}
        self.is_alive = False

    def start(self) -> None:
        """Take lines; who was registered before has to do so again."""
        if self.is_alive:
            return
        self.revive()
        self.server = NameServer(self.options, now_ms=self.clock.wall_ms(), saved=self._saved)
        self.tell_server("nameserver")
        self.world.network.listen(self, self.address)
        self.after(_TICK_MS, self._tick)

    def restart(self) -> None:
        """Start it again; nothing happens if it runs."""
        self.start()

    def stop(self) -> None:
        """Close its lines and end."""
        if self.server is None:
            return
        self._saved = self.server.state()
        for line in list(self.lines.values()):
            line.close()
        self.kill("left")

    def crash(self) -> None:
        """Let it die where it stands."""
        self.kill("crashed")

    def lose_power(self) -> None:
        """Let its machine die: nobody is told."""
        self.kill("power")

    def died(self, how: str) -> None:
        """Forget everything but the settings that were saved."""
        del how
        self.server = None
        self._peers.clear()

    def accepted(self, line: Line) -> None:
        """Take a new line."""
        self._peers[line.number] = line.peer()

    def heard(self, line: Line, command: Command) -> None:
        """Give a command to the core."""
        if self.server is not None:
            self._post(self.server.handle(command, self._peers[line.number], self.clock.wall_ms()))

    def closed(self, line: Line) -> None:
        """Let the core know that a line is gone."""
        peer = self._peers.pop(line.number, None)
        if self.server is not None and peer is not None:
            self._post(self.server.closed(peer, self.clock.wall_ms()))

    def _post(self, replies: "Sequence[Reply | Hangup]") -> None:
        for reply in replies:
            line = self.lines.get(reply.peer.number)
            if line is not None and isinstance(reply, Hangup):
                line.close()
                self.closed(line)
            elif line is not None and isinstance(reply, Reply):
                line.say(reply.command)

    def _tick(self) -> None:
        if self.server is not None:
            self._post(self.server.tick(self.clock.wall_ms()))
            if self.server.is_changed:
                self._saved = self.server.state()
            self.after(_TICK_MS, self._tick)
