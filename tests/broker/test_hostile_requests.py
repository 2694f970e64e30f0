"""Whatever clients send, the broker answers once or not at all, stays within its limits, and goes on working.

The broker has real work meanwhile: topics with messages, members with locks, pulls that wait, messages that wait for
their time, halves that wait for their end. Nothing of what the storm does not name may change.
"""

from collections import Counter
from contextlib import suppress

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.errors import SteelyardError
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Peer
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.send import EndTransaction, SendMessageResponse, SendMessageV2
from steelyard.wire.message_ids import parse_offset_id
from tests.broker.broker_fuzz import BrokerFuzz
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, subscription_to
from tests.broker.hostile import CODES, Names, Request, Storm
from tests.broker.pull_requests import bodies, make_topic, pull, pull_header, start_pull
from tests.fuzzing import Dice, rounds

pytestmark = pytest.mark.fuzz

_LONGEST_MS = 310_000
"""After this time nothing waits any more that could be asked for now."""

_BAD = ("", "../x", "a b", "x" * 300, "é", "%RETRY%", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
_MANY = tuple(f"new-{number}" for number in range(200))
_NAMES = Names(
    ("orders", "hostile", "%RETRY%hostile", "%DLQ%hostile", "%RETRY%billing", *_BAD, *_MANY),
    ("billing", "hostile", "TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TIMER", *_BAD, *_MANY),
    ("hostile-1", "ours", "java-1", "hostile-2", "", "x" * 300, "a\nb", *_MANY[:50]),
)
_COMMIT = 8


def _options(flush: str) -> BrokerOptions:
    return BrokerOptions(
        flush=flush, max_topics=90, max_groups=60, max_members=40, max_held_pulls=30, max_message_bytes=64 * 1024
    )


class World:
    """A broker with work, clients that behave, and attackers whose answers are counted."""

    def __init__(self, seed: int, flush: str) -> None:
        self.harness, self.random, self.storm = BrokerHarness(_options(flush)), Dice(seed), Storm(seed, _NAMES)
        self.asked: dict[tuple[int, int], Request] = {}
        self.answers = Counter[tuple[int, int]]()
        self.questions: list[tuple[Peer, Command]] = []
        for topic in ("orders", "calm", "calm-late"):
            make_topic(self.harness, topic, queues=4)
        self.attackers = [self.harness.connect() for _ in range(4)]
        self.clients = [
            FakeConsumer(self.harness, "ours"),
            FakeConsumer(self.harness, "java-1", ours=False),
            FakeConsumer(self.harness, "calm-1", group="calm"),
            FakeConsumer(self.harness, "calm-2", group="calm"),
        ]
        self.beat()
        self.harness.advance(4_000)
        self._work()

    def beat(self) -> None:
        """Let those who behave send their heartbeats."""
        for client in self.clients:
            client.heartbeat(subscription_to("calm" if client.group == "calm" else "orders"))

    def _work(self) -> None:
        harness, (ours, java, calm, other) = self.harness, self.clients
        ours.lock(0, 1)
        java.lock(2)
        calm.lock(0, 1, topic="calm")
        other.lock(2, topic="calm")
        for number in range(12):
            for topic in ("orders", "calm"):
                text = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k\x02"
                self.send(message(topic, text, queue_id=number % 4), b"%d" % number)
        self.send(message("calm-late", "DELAY\x015\x02"), b"by level")
        self.send(message("calm-late", "TIMER_DELAY_SEC\x0190\x02"), b"by time")
        text = "TRAN_MSG\x01true\x02PGROUP\x01calm-shop\x02UNIQ_KEY\x01h\x02"
        half = self.send(message("calm-late", text, sys_flag=4), b"half").header(SendMessageResponse)
        position = parse_offset_id(half.msg_id)[1]
        self.commit = EndTransaction("calm-shop", half.queue_offset, position, _COMMIT, "h", False)
        assert harness.request(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("calm", "calm", 3, 2)).code == 0
        for queue_id in range(3):
            start_pull(harness, pull_header(3, queue_id=queue_id, wait_ms=300_000), peer=java.connection)

    def send(self, header: SendMessageV2, body: bytes) -> Command:
        """Send a message that has to be taken, and return the answer."""
        return self.ask(Code.SEND_MESSAGE_V2, header, body)

    def ask(self, code: int, header: SendMessageV2 | EndTransaction, body: bytes = b"") -> Command:
        """Ask what must be granted, if need be once the disk has it."""
        opaque = self.harness.send(code, header, body)
        self.harness.sync()
        answer = self.harness.pop_response(opaque)
        assert answer is not None
        assert answer.code == 0, answer.remark
        return answer

    # -- the storm ----------------------------------------------------------------------------------------------------

    def strike(self, code: int) -> None:
        """Send one hostile request, and look at all that comes back."""
        peer, made = self.random.choice(self.attackers), self.storm.request(code)
        opaque = self.harness.send(
            code,
            made.fields,
            made.body,
            peer=peer,
            oneway=made.oneway,
            header_type=made.header_type,
            language=made.language,
            flush=self.random.random() < 0.7,
        )
        self.asked[peer.connection_id, opaque] = made
        self.collect()

    def collect(self) -> None:
        """Take what was sent to the attackers: no answer twice, none that was not asked for."""
        for peer in self.attackers:
            for command in self.harness.sent_to(peer):
                if not command.is_response:
                    self.questions.append((peer, command))
                    continue
                key = peer.connection_id, command.opaque
                assert not self.asked[key].oneway, f"an answer to a oneway {self.asked[key]}"
                self.answers[key] += 1
                assert self.answers[key] == 1, f"two answers to {self.asked[key]}"

    def breathe(self) -> None:
        """Let time pass, connections close, clients answer, the disk work."""
        harness, random = self.harness, self.random
        harness.advance(random.choice((10, 100, 700)))
        if random.random() < 0.5:
            harness.sync()
        if random.random() < 0.3:
            harness.save()
        self._mend()
        for peer, question in self.questions[-3:]:
            if peer in self.attackers:
                harness.respond(question, peer, {"x": "y"}, random.randbytes(20), code=random.choice((0, 1, -5)))
        self.questions.clear()
        for hangup in harness.hangups:
            if hangup.peer in self.attackers:
                self.hang_up(hangup.peer)
        harness.hangups.clear()
        if random.random() < 0.2:
            self.hang_up(random.choice(self.attackers))
        self.collect()
        self.check_limits()

    def _mend(self) -> None:
        """Make again what the storm may have deleted, so that it goes on having something to break."""
        with suppress(SteelyardError):
            for topic in ("orders", "hostile"):
                make_topic(self.harness, topic, queues=4)
        with suppress(SteelyardError):
            for group in ("billing", "hostile"):
                self.harness.state.groups.put(SubscriptionGroupConfig(name=group), self.harness.now_ms)
        if self.random.random() < 0.1:
            for name in _MANY:
                self.harness.state.groups.remove(name, self.harness.now_ms)
                self.harness.state.topics.remove(name, self.harness.now_ms)
        self.beat()
        store = self.harness.state.store
        places = [store.entries(*queue, 0, 1 << 62)[-2:] for queue in store.queues()]
        self.storm.positions = [position for place in places for position, _, _ in place]

    def hang_up(self, peer: Peer) -> None:
        """Close an attacker's connection; it comes back on another one, and what it asked needs no answer."""
        self.collect()
        self.harness.disconnect(peer)
        self.attackers[self.attackers.index(peer)] = self.harness.connect()
        self.asked = {key: made for key, made in self.asked.items() if key[0] != peer.connection_id}

    def check_limits(self) -> None:
        """Expect that no table has more than it may."""
        state, options = self.harness.state, self.harness.options
        assert len(state.topics) <= options.max_topics
        assert len(state.groups) <= options.max_groups
        assert len(state.consumers) <= options.max_members
        assert len(state.held_pulls) <= options.max_held_pulls
        assert len(state.wanted_routes) <= options.max_topics
        assert len(state.key_queries) <= 1_000
        assert len(state.warnings) < 1_000
        assert not state.outbox
        state.warnings.clear()

    def calm(self) -> object:
        """Return all that the storm does not name."""
        state = self.harness.state
        group = state.consumers.group("calm")
        assert group is not None
        return (
            self.harness.topic("calm"),
            dict(state.offsets.committed_in("calm", "calm")),
            [(key, lock.owner, lock.epoch) for key, lock in state.queue_locks.held_queues("calm", self.harness.now_ms)],
            group.ids,
            state.topics["calm"].settings,
            state.groups.get("calm"),
        )

    def unanswered(self) -> list[Request]:
        """List the requests that want an answer and got none."""
        return [
            made
            for key, made in self.asked.items()
            if not made.oneway and not self.answers[key] and not _asks_for_nothing(made)
        ]


def _asks_for_nothing(made: Request) -> bool:
    """Whether it says that nobody knows yet how a transaction ended: that is not answered."""
    if made.code != Code.END_TRANSACTION:
        return False
    try:
        header = Command(made.code, made.fields, header_type=made.header_type).header(EndTransaction)
    except SteelyardError:
        return False
    return header.commit_or_rollback == 0


@pytest.mark.parametrize(("flush", "seed"), [("async", 1), ("async", 2), ("sync", 3)])
def test_a_storm_is_answered_and_leaves_no_trace_in_what_it_does_not_name(flush: str, seed: int) -> None:
    world = World(seed, flush)
    before = world.calm()
    codes = [world.random.choice(CODES) for _ in range(rounds())] + list(CODES)
    for turn, code in enumerate(codes):
        world.strike(code)
        if turn % 20 == 0:
            world.breathe()
    world.harness.flush()
    assert world.calm() == before
    _finish(world)


def _finish(world: World) -> None:
    """Let everything come to its end, then work as usual, then start again."""
    harness = world.harness
    for _ in range(_LONGEST_MS // 1_000):
        harness.advance(1_000, step_ms=500)
        harness.sync()
        world.collect()
    assert not world.unanswered()
    world.ask(Code.END_TRANSACTION, world.commit)
    assert sorted(record.body for record in harness.topic("calm-late")) == [b"by level", b"by time", b"half"]
    _work_as_usual(world, b"after the storm")
    harness.restart()
    _work_as_usual(world, b"after a restart")
    harness.crash()
    _work_as_usual(world, b"after a crash")
    harness.lose_power()
    _work_as_usual(world, b"after a loss of power")
    assert sorted(record.body for record in harness.topic("calm-late")) == [b"by level", b"by time", b"half"]


def _work_as_usual(world: World, body: bytes) -> None:
    harness = world.harness
    offset = world.send(message("calm", queue_id=3), body).header(SendMessageResponse).queue_offset
    assert bodies(pull(harness, pull_header(offset, topic="calm", queue_id=3, group="calm"))) == [body]
    assert harness.request(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("calm", "calm", 3, offset)).code == 0
    assert harness.state.offsets.get("calm", "calm", 3) == offset
    waiting = start_pull(harness, pull_header(offset + 1, topic="calm", queue_id=3, group="calm"))
    assert harness.pop_response(waiting) is None
    world.send(message("calm", queue_id=3), body + b"!")
    answer = harness.pop_response(waiting)
    assert answer is not None
    assert bodies(answer) == [body + b"!"]


@pytest.mark.parametrize(("flush", "seed"), [("async", 11), ("async", 12), ("sync", 13), ("sync", 14)])
def test_promises_are_kept_in_the_middle_of_a_storm_through_restarts(flush: str, seed: int) -> None:
    storm, random = Storm(seed, _NAMES), Dice(seed)
    # How the whole broker is set up is for whoever runs it to change, and would change what is promised.
    codes = [code for code in CODES if code != Code.UPDATE_BROKER_CONFIG]

    def strike(harness: BrokerHarness) -> None:
        own_peer = harness.connect()
        for _ in range(3):
            made = storm.request(random.choice(codes))
            harness.send(
                made.code,
                made.fields,
                made.body,
                peer=own_peer,
                oneway=made.oneway,
                header_type=made.header_type,
                language=made.language,
                flush=False,
            )
        if random.random() < 0.5:
            harness.disconnect(own_peer)
        harness.sent_to(own_peer)
        harness.state.warnings.clear()
        storm.positions = [random.randrange(max(1, harness.state.store.end)), *storm.positions[:20]]

    lifetime = BrokerFuzz(seed, flush, strike)
    lifetime.run(max(60, rounds() // 10))
    assert lifetime.book.places
    assert lifetime.book.deaths
