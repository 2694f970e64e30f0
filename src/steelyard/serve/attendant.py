"""Who stands beside the brokers of a cluster under test: makes the trouble that is asked for, and sees everything.

It is put before each broker that starts (`Switchboard.interpose`), so a cluster without one pays nothing for it, and a
broker that is started again finds it there.
"""

from collections.abc import Iterable
from functools import partial

from steelyard.broker.options import BrokerOptions
from steelyard.net.core import Replies
from steelyard.serve.broker import RunningBroker
from steelyard.serve.embedded import Cluster
from steelyard.serve.member_words import MemberWords
from steelyard.serve.movable_clock import MovableClock
from steelyard.serve.troubles import Troubles
from steelyard.serve.witness import Witness
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Attendant"]

_EAGER = BrokerOptions(announce_gap_ms=0)
"""The first send of a test makes its topic, and waits until the name servers know it."""


class Attendant:
    """The troubles, the witness and the clock of one cluster, which `cluster` makes."""

    def __init__(self) -> None:
        self.clock = MovableClock()
        self.troubles = Troubles()
        self.witness = Witness()
        self.words = MemberWords()
        self.delays_ms: dict[str, int] = {}
        """Brokers that are slow, and stay so when they are started again."""
        self.shut: set[str] = set()
        """Brokers that let no line in."""

    def cluster(self, brokers: int, name_servers: int) -> Cluster:
        """Make a cluster that it stands beside, in memory and at free ports; it is not started."""
        return Cluster(brokers, name_servers, broker_options=_EAGER, clock=self.clock, attend=self.attend)

    def attend(self, running: RunningBroker) -> None:
        """Stand before a broker that starts."""
        running.board.interpose(partial(self._handle, running))
        running.board.shut(is_shut=running.name in self.shut)
        if running.name in self.delays_ms:
            running.board.slow_down(self.delays_ms[running.name])

    def calm(self, brokers: Iterable[RunningBroker]) -> None:
        """End all troubles, slowness and cuts, so that whoever wants to leave can."""
        self.troubles.clear()
        self.delays_ms.clear()
        self.shut.clear()
        for running in brokers:
            running.board.slow_down(0)
            running.board.shut(is_shut=False)

    def _handle(self, running: RunningBroker, command: Command, peer: Peer, now_ms: int) -> Replies:
        if command.is_answer and self.words.heard(peer, command):
            return ()
        replies = self.troubles.handle(running.name, running.handle, command, peer, now_ms)
        self.witness.note(running.name, command, peer, replies)
        return replies
