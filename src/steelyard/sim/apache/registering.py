"""How the model of Apache's broker tells name servers that it is there: as ours does, with the same commands.

Left out: that Apache connects again only with its next beat, up to half a minute after a line was lost.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.broker.registration import Announcement, Identity, Registrar
from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.bodies.topics import TopicTable
from steelyard.wire.command import Command

if TYPE_CHECKING:
    from steelyard.sim.timer import Timer

__all__ = ["Registering"]

_AGAIN_MS = 1_000
_ANSWER_MS = 3_000


class Registering:
    """Lines to name servers, and what is said on them."""

    def __init__(self, process: Process, identity: Identity, name_servers: Sequence[str], table: TopicTable) -> None:
        self._process = process
        self._registrar = Registrar(identity, name_servers, table, now_ms=process.clock.steady_ms())
        self._lines: dict[str, Line] = {}
        self._unanswered: dict[tuple[int, int], Announcement] = {}
        self._timer: Timer | None = None
        for address in name_servers:
            self._connect(address)

    def owns(self, line: Line) -> bool:
        """Whether a line is one to a name server."""
        return self._lines.get(line.remote) is line

    def change(self, table: TopicTable) -> None:
        """Tell of topics that changed."""
        self._registrar.change(table)
        self._go_on()

    def opened(self, line: Line) -> None:
        """Say everything on a new line."""
        self._registrar.lost(line.remote, self._now_ms())
        self._go_on()

    def closed(self, line: Line) -> None:
        """Connect again."""
        address = line.remote
        del self._lines[address]
        for key in [key for key in self._unanswered if key[0] == line.number]:
            del self._unanswered[key]
        self._process.after(_AGAIN_MS, lambda: self._connect(address))

    def heard(self, line: Line, command: Command) -> None:
        """Take an answer."""
        announcement = self._unanswered.pop((line.number, command.opaque), None)
        if announcement is not None:
            self._registrar.answered(announcement, command, self._now_ms())
            self._go_on()

    def leave(self) -> None:
        """Say goodbye."""
        for announcement in self._registrar.leave():
            self._say(announcement)

    def _connect(self, address: str) -> None:
        self._lines[address] = self._process.world.network.connect(self._process, address)

    def _go_on(self) -> None:
        """Say what is due, and come back when more is."""
        now_ms = self._now_ms()
        for announcement in self._registrar.tick(now_ms):
            self._say(announcement)
        next_ms = self._registrar.next_ms
        if self._timer is not None:
            self._timer.cancel()
        if next_ms is not None:
            self._timer = self._process.after(max(1, next_ms - now_ms), self._go_on)

    def _say(self, announcement: Announcement) -> None:
        line = self._lines.get(announcement.name_server)
        if line is None or not line.is_open:
            self._registrar.failed(announcement, self._now_ms())
            return
        key = line.number, announcement.command.opaque
        self._unanswered[key] = announcement
        line.say(announcement.command)
        self._process.after(_ANSWER_MS, lambda: self._late(key))

    def _late(self, key: tuple[int, int]) -> None:
        announcement = self._unanswered.pop(key, None)
        if announcement is not None:
            self._registrar.failed(announcement, self._now_ms())
            self._go_on()

    def _now_ms(self) -> int:
        return self._process.clock.steady_ms()
