"""Fault injection, so that a test can show that code survives it.

Each method begins a fault and returns it. It ends when it is healed, at the end of its ``with`` block, or with the
test; of two equal faults the other one goes on:

    mq.faults.slow_broker("broker-0", ms=800)
    with mq.faults.drop_acks(count=1) as lost:
        place_order(mq.address)
    assert lost.struck == 1

Faults are injected at the broker, so they are the same for clients of every language. Which requests are affected is
counted, not random.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from steelyard.errors import ConfigurationError
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing.fault_host import MAX_DELAY_MS, FaultHost
from steelyard.testing.request_faults import RequestFault, RequestFaultKind


class ActiveFault(AbstractContextManager["ActiveFault"]):
    """A fault that lasts until it is healed; as a context manager, until the end of the block."""

    def __init__(self, what: str, heal: Callable[[], None], struck: Callable[[], int] = lambda: 0) -> None:
        self._what, self._heal, self._struck = what, heal, struck
        self._is_over = False

    @property
    def struck(self) -> int:
        """The number of requests affected so far; 0 for faults that are not about single requests."""
        return self._struck()

    def heal(self) -> None:
        """End it; idempotent."""
        if not self._is_over:
            self._is_over = True
            self._heal()

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.heal()

    def __repr__(self) -> str:
        return f"<{self._what}{', healed' if self._is_over else ''}>"


class FaultInjector:
    """The faults of a cluster. ``broker`` is a name such as ``broker-0``; None means all brokers."""

    def __init__(self, cluster: Cluster, fault_host: FaultHost) -> None:
        self._cluster, self._fault_host = cluster, fault_host
        self._active: list[ActiveFault] = []
        self._delays: list[dict[str, int]] = []  # delays by broker, of each active `slow_broker`; the last one wins
        self._down_tokens: dict[str | int, set[object]] = {}
        """The faults that keep a broker or name server down, each by a token."""
        self._cut_counts = Counter[str]()

    def heal(self) -> None:
        """End all faults; killed brokers are restarted."""
        active, self._active = self._active, []
        with ExitStack() as all_of_them:
            for fault in active:
                all_of_them.callback(fault.heal)

    def slow_broker(self, broker: str | None = None, *, ms: int) -> ActiveFault:
        """Delay every request to a broker, in order, also after a restart."""
        names = self._broker_names(broker)
        if not 0 <= ms <= MAX_DELAY_MS:
            raise ConfigurationError(f"a broker cannot be slow by {ms} ms", next_step=f"give 0 to {MAX_DELAY_MS}")
        delays = dict.fromkeys(names, ms)

        def apply(running: RunningCluster) -> None:
            delays_ms = {name: delay_ms for each in self._delays for name, delay_ms in each.items()}
            self._fault_host.delays_ms = delays_ms
            for each in running.running_brokers:
                self._fault_host.cores[each.name].set_delay(delays_ms.get(each.name, 0))

        def heal() -> None:
            self._delays = [each for each in self._delays if each is not delays]
            self._cluster.call(apply)

        self._delays.append(delays)
        self._cluster.call(apply)
        return self._begin(f"{', '.join(names)} slow by {ms} ms", heal)

    def kill_broker(self, broker: str) -> ActiveFault:
        """Stop a broker as a crash does: connections are cut. It still has its messages when it is back.

        Healing restarts it at the same address. Offsets committed in its last seconds may be lost, as in any crash:
        such messages are redelivered.
        """
        self._cluster.kill_broker(broker)
        return self._keep_stopped(f"{broker} killed", broker, lambda: self._cluster.start_broker(broker))

    def restart_broker(self, broker: str) -> None:
        """Start a killed broker; one that runs is killed first."""
        self._cluster.kill_broker(broker)
        self._down_tokens.get(broker, set()).clear()
        self._cluster.start_broker(broker)

    def stop_name_server(self, number: int = 0) -> ActiveFault:
        """Stop a name server, so that clients cannot look up routes that are new to them."""
        self._cluster.stop_name_server(number)
        return self._keep_stopped(
            f"name server {number} stopped", number, lambda: self._cluster.start_name_server(number)
        )

    def cut(self, broker: str | None = None) -> ActiveFault:
        """Cut a broker off from all clients: open connections are closed, and new ones too.

        The broker runs on and stays in routes, as in a network partition.
        """
        names = self._broker_names(broker)

        def shut(running: RunningCluster) -> None:
            self._fault_host.isolated_brokers.update(names)
            for each in running.running_brokers:
                if each.name in names:
                    core = self._fault_host.cores[each.name]
                    core.refuse_connections(is_refusing=True)
                    core.cut_connections(lambda _: True)

        def open_again(running: RunningCluster) -> None:
            self._cut_counts.subtract(names)
            opened = {name for name in names if not self._cut_counts[name]}
            self._fault_host.isolated_brokers.difference_update(opened)
            for each in running.running_brokers:
                if each.name in opened:
                    self._fault_host.cores[each.name].refuse_connections(is_refusing=False)

        self._cut_counts.update(names)
        self._cluster.call(shut)
        return self._begin(f"{', '.join(names)} cut off", lambda: self._cluster.call(open_again))

    def cut_connections(self, broker: str | None = None, *, group: str | None = None, client: str | None = None) -> int:
        """Close connections to brokers once, and return how many; clients may reconnect at once.

        All connections, or those of the members of a group, or those of one client by its id.
        """
        names, log = self._broker_names(broker), self._fault_host.request_log

        def cut(running: RunningCluster) -> int:
            ids = None if client is None else {client}
            if group is not None:
                ids = set(log.groups[group].members) if group in log.groups else set()

            def is_selected(number: int) -> bool:
                logged = log.connections.get(number)
                return ids is None or (logged is not None and logged.client_id in ids)

            chosen = [self._fault_host.cores[each.name] for each in running.running_brokers if each.name in names]
            return sum(core.cut_connections(lambda peer: is_selected(peer.connection_id)) for core in chosen)

        return self._cluster.call(cut)

    def drop_acks(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Store sends and never answer them. The sender times out, and a retry stores the message twice.

        ``count`` limits the number of requests; a ``share`` of 0.5 affects every second one. `struck` counts them.
        """
        return self._add_request_fault(RequestFaultKind.DROP_ACK, broker, topic, count, share)

    def duplicate(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Store sends twice, and answer them once: consumers get each message twice, with the same id.

        It is what a retry leaves behind whose first response was lost.
        """
        return self._add_request_fault(RequestFaultKind.DUPLICATE, broker, topic, count, share)

    def refuse_sends(
        self, broker: str | None = None, *, topic: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Reject sends with code 2, broker busy."""
        return self._add_request_fault(RequestFaultKind.REFUSE_SEND, broker, topic, count, share)

    def drop_commits(
        self, broker: str | None = None, *, group: str | None = None, count: int | None = None, share: float = 1.0
    ) -> ActiveFault:
        """Acknowledge offset commits, and drop them: the next owner of a queue gets its messages again."""
        return self._add_request_fault(RequestFaultKind.DROP_COMMIT, broker, group, count, share)

    def _add_request_fault(
        self, kind: RequestFaultKind, broker: str | None, name: str | None, count: int | None, share: float
    ) -> ActiveFault:
        names, faults = self._broker_names(broker), self._fault_host.request_faults
        fault = RequestFault(kind, broker, name, share, count)
        self._cluster.call(lambda _: faults.add(fault))
        return self._begin(
            f"{kind.value} at {', '.join(names)}",
            lambda: self._cluster.call(lambda _: faults.remove(fault)),
            lambda: fault.hits,
        )

    def _keep_stopped(self, what: str, server: str | int, start: Callable[[], None]) -> ActiveFault:
        """Begin a fault that keeps a server down; the server is restarted when no such fault is left."""
        tokens, own = self._down_tokens.setdefault(server, set()), object()

        def heal() -> None:
            tokens.discard(own)
            if not tokens:
                start()

        tokens.add(own)
        return self._begin(what, heal)

    def _begin(self, what: str, heal: Callable[[], None], struck: Callable[[], int] = lambda: 0) -> ActiveFault:
        # A fault ends with its cluster, too.
        fault = ActiveFault(what, lambda: heal() if self._cluster.is_running else None, struck)
        self._active.append(fault)
        return fault

    def _broker_names(self, broker: str | None) -> list[str]:
        known = list(self._cluster.brokers)
        if broker is not None and broker not in known:
            raise ConfigurationError(f"there is no broker {broker!r}", next_step=f"there are: {', '.join(known)}")
        return known if broker is None else [broker]
