"""Whoever looks after a cluster: makes topics and lets them grow, and tries again until the broker has said yes."""

from typing import TYPE_CHECKING

from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CreateTopic

if TYPE_CHECKING:
    from steelyard.sim.world import World

__all__ = ["OperatorProcess"]

_AGAIN_MS = 200
_ALL_MAY = 6
"""Everybody may read and write."""


class OperatorProcess(Process):
    """A program that asks brokers for topics, one line for each wish."""

    def __init__(self, world: "World", name: str = "operator", host: str = "10.0.9.9") -> None:
        super().__init__(world, name, host)
        self._wishes: dict[int, tuple[str, str, int]] = {}
        self._made: dict[tuple[str, str], int] = {}

    def make(self, address: str, topic: str, queues: int) -> None:
        """Let a topic have so many queues on the broker at an address; it never gets fewer than it has."""
        if queues > self._made.get((address, topic), 0):
            line = self.world.network.connect(self, address)
            self._wishes[line.number] = address, topic, queues

    @property
    def is_done(self) -> bool:
        """Whether every wish was granted."""
        return not self._wishes

    def opened(self, line: Line) -> None:
        """Ask."""
        _, topic, queues = self._wishes[line.number]
        header = CreateTopic(topic, "TBW102", queues, queues, _ALL_MAY, "SINGLE_TAG", False)
        line.say(Command(RequestCode.UPDATE_AND_CREATE_TOPIC, header, opaque=line.number))

    def heard(self, line: Line, command: Command) -> None:
        """Take the answer; a refusal is asked again."""
        line.close()
        if command.code:
            self.closed(line)
        else:
            address, topic, queues = self._wishes.pop(line.number)
            self._made[address, topic] = max(queues, self._made.get((address, topic), 0))

    def closed(self, line: Line) -> None:
        """Ask again after a while."""
        wish = self._wishes.pop(line.number, None)
        if wish is not None:
            # A wish counts while nobody speaks of it, so that a world is not at rest before it is granted.
            self._wishes[-line.number] = wish
            self.after(_AGAIN_MS, lambda: self._again(line.number))

    def _again(self, number: int) -> None:
        self.make(*self._wishes.pop(-number))
