"""What goes wrong on purpose, so that a test can show that code survives it.

Each method begins a fault and returns it. It ends when it is healed, when the ``with`` that it was used in is over, or
with the test; of two alike the other one goes on:

    mq.faults.slow_broker("broker-0", ms=800)
    with mq.faults.drop_acks(count=1) as lost:
        place_order(mq.address)
    assert lost.struck == 1

Faults are the broker's, so they are the same for clients of every language. Which requests they strike is counted and
not left to chance. What each does exactly stands in its docstring.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from steelyard.errors import ConfigurationError
from steelyard.serve.attendant import Attendant
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.serve.troubles import Trouble, TroubleKind

__all__ = ["ActiveFault", "Faults"]

_SLOWEST_MS = 3_600_000


class ActiveFault:
    """A fault that is there until it is healed. As a context, that is at the end of the block."""

    def __init__(self, what: str, heal: Callable[[], None], struck: Callable[[], int] = lambda: 0) -> None:
        self._what, self._heal, self._struck = what, heal, struck
        self._is_over = False

    @property
    def struck(self) -> int:
        """How many requests were struck so far; 0 for faults that are not about single requests."""
        return self._struck()

    def heal(self) -> None:
        """End it; no error if it has ended."""
        if not self._is_over:
            self._is_over = True
            self._heal()

    def __enter__(self) -> Self:
        """Have it for a while."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.heal()

    def __repr__(self) -> str:
        return f"<{self._what}{', healed' if self._is_over else ''}>"


class Faults:
    """The faults of a cluster. ``broker`` is a name such as ``broker-0``; without one all brokers are meant."""

    def __init__(self, cluster: Cluster, attendant: Attendant) -> None:
        self._cluster, self._attendant = cluster, attendant
        self._active: list[ActiveFault] = []
        self._slowness: list[dict[str, int]] = []
        """Milliseconds by broker, of each fault that makes them slow; the last one counts."""
        self._kept_down: dict[str | int, set[object]] = {}
        """The faults that keep a broker or name server from running, each by a token."""
        self._cut_off = Counter[str]()

    def heal(self) -> None:
        """End all faults; brokers that were killed are started again."""
        active, self._active = self._active, []
        with ExitStack() as all_of_them:
            for fault in active:
                all_of_them.callback(fault.heal)

    # -- brokers ------------------------------------------------------------------------------------------------------

    def slow_broker(self, broker: str | None = None, *, ms: int) -> ActiveFault:
        """Let a broker handle each request only so long after it arrived, in order. It is slow after a restart, too."""
        names = self._named(broker)
        if not 0 <= ms <= _SLOWEST_MS:
            raise ConfigurationError(f"a broker cannot be slow by {ms} ms", next_step=f"give 0 to {_SLOWEST_MS}")
        slowness = dict.fromkeys(names, ms)

        def settle(running: RunningCluster) -> None:
            delays_ms = {name: delay_ms for each in self._slowness for name, delay_ms in each.items()}
            self._attendant.delays_ms.clear()
            self._attendant.delays_ms.update(delays_ms)
            for each in running.running_brokers:
                each.board.slow_down(delays_ms.get(each.name, 0))

        def heal() -> None:
            self._slowness = [each for each in self._slowness if each is not slowness]
            self._cluster.call(settle)

        self._slowness.append(slowness)
        self._cluster.call(settle)
        return self._begin(f"{_words(names)} slow by {ms} ms", heal)

    def kill_broker(self, broker: str) -> ActiveFault:
        """Stop a broker as a crash does: lines are cut, nothing is said. What it had stored it has when it is back.

        Healing starts it again at the same address. What was committed in its last seconds may be lost, as with any
        broker that crashes: such messages come again.
        """
        self._cluster.kill_broker(broker)
        return self._keep_down(f"{broker} killed", broker, lambda: self._cluster.start_broker(broker))

    def restart_broker(self, broker: str) -> None:
        """Start a broker that was killed; one that runs is killed first."""
        self._cluster.kill_broker(broker)
        self._kept_down.get(broker, set()).clear()
        self._cluster.start_broker(broker)

    def stop_name_server(self, number: int = 0) -> ActiveFault:
        """Stop a name server, so that nobody learns of topics and brokers that are new to them."""
        self._cluster.stop_name_server(number)
        return self._keep_down(f"name server {number} stopped", number, lambda: self._cluster.start_name_server(number))

    # -- lines --------------------------------------------------------------------------------------------------------

    def cut(self, broker: str | None = None) -> ActiveFault:
        """Cut a broker off from all clients: open lines are cut, and new ones too, as soon as they are opened.

        The broker lives on and is named in routes, as when a network is cut between.
        """
        names = self._named(broker)

        def shut(running: RunningCluster) -> None:
            self._attendant.shut.update(names)
            for each in running.running_brokers:
                if each.name in names:
                    each.board.shut(is_shut=True)
                    each.board.cut(lambda _: True)

        def open_again(running: RunningCluster) -> None:
            self._cut_off.subtract(names)
            opened = {name for name in names if not self._cut_off[name]}
            self._attendant.shut.difference_update(opened)
            for each in running.running_brokers:
                if each.name in opened:
                    each.board.shut(is_shut=False)

        self._cut_off.update(names)
        self._cluster.call(shut)
        return self._begin(f"{_words(names)} cut off", lambda: self._cluster.call(open_again))

    def cut_lines(self, broker: str | None = None, *, group: str | None = None, client: str | None = None) -> int:
        """Cut lines to brokers once, and return how many; whoever had one may come again at once.

        All lines, or those of the members of a group, or those of one client by its id.
        """
        names, witness = self._named(broker), self._attendant.witness

        def cut(running: RunningCluster) -> int:
            ids = None if client is None else {client}
            if group is not None:
                ids = set(witness.groups[group].members) if group in witness.groups else set()

            def is_meant(number: int) -> bool:
                seen = witness.lines.get(number)
                return ids is None or (seen is not None and seen.client_id in ids)

            chosen = [each for each in running.running_brokers if each.name in names]
            return sum(each.board.cut(lambda peer: is_meant(peer.number)) for each in chosen)

        return self._cluster.call(cut)

    # -- requests -----------------------------------------------------------------------------------------------------

    def drop_acks(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Store sends and never answer them. The sender times out, and if it sends again the message is there twice.

        ``count``: only so many; ``share``: of 0.5 every second one. `struck` says how many it were.
        """
        return self._trouble(TroubleKind.DROP_ACK, broker, topic, count, share)

    def duplicate(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Store sends twice, and answer them once: consumers get each message two times, with one and the same id.

        It is what a sender leaves behind that sent again because it had lost the first answer.
        """
        return self._trouble(TroubleKind.DUPLICATE, broker, topic, count, share)

    def refuse_sends(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Answer sends with code 2, the broker is busy, and store nothing."""
        return self._trouble(TroubleKind.REFUSE_SEND, broker, topic, count, share)

    def drop_commits(
        self, broker: str | None = None, *, group: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Answer commits of offsets as always, and forget them: whoever takes a queue next gets its messages again."""
        return self._trouble(TroubleKind.DROP_COMMIT, broker, group, count, share)

    def _trouble(
        self, kind: TroubleKind, broker: str | None, name: str | None, count: int | None, share: float
    ) -> ActiveFault:
        names, troubles = self._named(broker), self._attendant.troubles
        trouble = Trouble(kind, broker, name, share, count)
        self._cluster.call(lambda _: troubles.add(trouble))
        return self._begin(
            f"{kind.value} at {_words(names)}",
            lambda: self._cluster.call(lambda _: troubles.remove(trouble)),
            lambda: trouble.struck,
        )

    # -- parts --------------------------------------------------------------------------------------------------------

    def _keep_down(self, what: str, server: str | int, start: Callable[[], None]) -> ActiveFault:
        """Begin a fault that a server does not run for; it is started when no other such fault is left."""
        keepers, own = self._kept_down.setdefault(server, set()), object()

        def heal() -> None:
            keepers.discard(own)
            if not keepers:
                start()

        keepers.add(own)
        return self._begin(what, heal)

    def _begin(self, what: str, heal: Callable[[], None], struck: Callable[[], int] = lambda: 0) -> ActiveFault:
        # With its cluster a fault has ended, too.
        fault = ActiveFault(what, lambda: heal() if self._cluster.is_running else None, struck)
        self._active.append(fault)
        return fault

    def _named(self, broker: str | None) -> list[str]:
        known = list(self._cluster.brokers)
        if broker is not None and broker not in known:
            raise ConfigurationError(f"there is no broker {broker!r}", next_step=f"there are: {', '.join(known)}")
        return known if broker is None else [broker]


def _words(names: list[str]) -> str:
    return ", ".join(names)
