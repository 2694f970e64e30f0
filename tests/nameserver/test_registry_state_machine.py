"""Any order of coming, going and silence leaves the routes that a small model has."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from steelyard.nameserver import NameServerOptions
from tests.nameserver.nameserver_harness import NameServerHarness, connection, registration, topic

SILENCE_MS = NameServerOptions().broker_silence_ms

_BROKERS = st.sampled_from(["a", "b", "c"])
_IDS = st.sampled_from([0, 0, 1])
_TOPICS = st.sets(st.sampled_from(["orders", "bills", "notes"]), max_size=3)
_LINES = st.integers(1, 4)


@dataclass
class Known:
    """What the model knows of one address."""

    peer: int
    seen_ms: int
    silence_ms: int


@dataclass
class Model:
    """Brokers and topics, as plainly as can be said."""

    replicas: dict[tuple[str, int], Known] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)

    def leave(self, broker: str, broker_id: int) -> None:
        self.replicas.pop((broker, broker_id), None)
        if not any(name == broker for name, _ in self.replicas):
            self.topics.pop(broker, None)

    def routes(self) -> dict[str, dict[str, tuple[int, set[int]]]]:
        routes: dict[str, dict[str, tuple[int, set[int]]]] = {}
        for broker, topics in self.topics.items():
            ids = {broker_id for name, broker_id in self.replicas if name == broker}
            for name, queues in topics.items():
                routes.setdefault(name, {})[broker] = queues, ids
        return routes


class ComingAndGoing(RuleBasedStateMachine):
    """Brokers of two replicas each register, unregister, fall silent and lose their connections."""

    def __init__(self) -> None:
        super().__init__()
        self.harness, self.model, self.version = NameServerHarness(), Model(), 0

    @rule(broker=_BROKERS, broker_id=_IDS, names=_TOPICS, queues=st.integers(1, 9), over=_LINES, short=st.booleans())
    def register(self, broker: str, broker_id: int, names: set[str], queues: int, over: int, short: bool) -> None:
        """Register a broker with a table of a new version."""
        self.version += 1
        silence_ms = 3_000 if short else None
        body = registration(*(topic(name, queues) for name in sorted(names)), version=self.version)
        answer = self.harness.register(
            broker, body, broker_id=broker_id, peer=connection(over), silence_ms=silence_ms, acting=None
        )
        assert answer is not None
        assert answer.code == 0
        self.model.replicas[broker, broker_id] = Known(over, self.harness.now_ms, silence_ms or SILENCE_MS)
        if broker_id == 0:
            self.model.topics.setdefault(broker, {}).update(dict.fromkeys(names, queues))

    @rule(broker=_BROKERS, broker_id=_IDS)
    def unregister(self, broker: str, broker_id: int) -> None:
        """Let a broker say that it goes."""
        self.harness.unregister(broker, broker_id=broker_id)
        self.model.leave(broker, broker_id)

    @rule(broker=_BROKERS, broker_id=_IDS)
    def beat(self, broker: str, broker_id: int) -> None:
        """Let a broker say that it is alive, or one that is not there."""
        fields = {"brokerName": broker, "brokerAddr": f"{broker}:{broker_id}", "clusterName": "DefaultCluster"}
        assert self.harness.request(904, fields).code == 0
        if known := self.model.replicas.get((broker, broker_id)):
            known.seen_ms = self.harness.now_ms

    @rule(passed_ms=st.sampled_from([1, 2_000, 3_001, 60_000, SILENCE_MS + 1]))
    def pass_time(self, passed_ms: int) -> None:
        """Let time pass, and the silent go."""
        hung_up = {hangup.peer.connection_id for hangup in self.harness.advance(passed_ms)}
        for (broker, broker_id), known in list(self.model.replicas.items()):
            if known.seen_ms + known.silence_ms < self.harness.now_ms:
                self.model.leave(broker, broker_id)
        assert hung_up.isdisjoint(known.peer for known in self.model.replicas.values())

    @rule(number=_LINES)
    def close(self, number: int) -> None:
        """Close a connection."""
        self.harness.core.connection_closed(connection(number), self.harness.now_ms)
        for (broker, broker_id), known in list(self.model.replicas.items()):
            if known.peer == number:
                self.model.leave(broker, broker_id)

    @rule(name=st.sampled_from(["orders", "bills", "notes"]))
    def delete_topic(self, name: str) -> None:
        """Delete a topic, as an administrator does."""
        self.harness.request(216, {"topic": name})
        for topics in self.model.topics.values():
            topics.pop(name, None)

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        """Routes, lists and brokers agree with the model."""
        want = self.model.routes()
        assert self.harness.topics() == set(want)
        for name in ("orders", "bills", "notes"):
            route = self.harness.route(name)
            got = {} if route is None else {queue.broker_name: queue.read_queues for queue in route.queues}
            assert got == {broker: queues for broker, (queues, _) in want.get(name, {}).items()}
            addresses = self.harness.brokers_of(name)
            assert {broker: set(ids) for broker, ids in addresses.items()} == {
                broker: ids for broker, (_, ids) in want.get(name, {}).items()
            }
        assert set(self.harness.clusters().brokers) == {broker for broker, _ in self.model.replicas}


TestComingAndGoing = ComingAndGoing.TestCase
TestComingAndGoing.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
