"""Whatever clients send, the broker answers once or not at all, stays within its limits, and goes on working.

The broker has real work meanwhile: topics with messages, members with locks, pulls that wait, messages that wait for
their time, halves that wait for their end. Nothing of what the storm does not name may change.
"""

from collections import Counter
from contextlib import suppress

import pytest
from tests.broker.client import Client, wants
from tests.broker.desk import Desk, message
from tests.broker.hostile import CODES, Names, Request, Storm
from tests.broker.life import Life
from tests.broker.reader import bodies, make_topic, pull, pull_header, start_pull
from tests.fuzzing import Dice, rounds

from steelyard.broker.options import BrokerOptions
from steelyard.errors import SteelyardError
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.headers.send import EndTransaction, SendAnswer, SendShort
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.peers import Peer

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
        flush=flush, max_topics=90, max_groups=60, max_members=40, parked_pulls=30, max_message_bytes=64 * 1024
    )


class World:
    """A broker with work, clients that behave, and attackers whose answers are counted."""

    def __init__(self, seed: int, flush: str) -> None:
        self.desk, self.random, self.storm = Desk(_options(flush)), Dice(seed), Storm(seed, _NAMES)
        self.asked: dict[tuple[int, int], Request] = {}
        self.answers = Counter[tuple[int, int]]()
        self.questions: list[tuple[Peer, Command]] = []
        for topic in ("orders", "calm", "calm-late"):
            make_topic(self.desk, topic, queues=4)
        self.attackers = [self.desk.line() for _ in range(4)]
        self.clients = [
            Client(self.desk, "ours"),
            Client(self.desk, "java-1", ours=False),
            Client(self.desk, "calm-1", group="calm"),
            Client(self.desk, "calm-2", group="calm"),
        ]
        self.beat()
        self.desk.advance(4_000)
        self._work()

    def beat(self) -> None:
        """Let those who behave send their heartbeats."""
        for client in self.clients:
            client.beat(wants("calm" if client.group == "calm" else "orders"))

    def _work(self) -> None:
        desk, (ours, java, calm, other) = self.desk, self.clients
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
        half = self.send(message("calm-late", text, sys_flag=4), b"half").header(SendAnswer)
        position = read_offset_id(half.msg_id)[1]
        self.commit = EndTransaction("calm-shop", half.queue_offset, position, _COMMIT, "h", False)
        assert desk.ask(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("calm", "calm", 3, 2)).code == 0
        for queue_id in range(3):
            start_pull(desk, pull_header(3, queue_id=queue_id, wait_ms=300_000), peer=java.line)

    def send(self, header: SendShort, body: bytes) -> Command:
        """Send a message that has to be taken, and return the answer."""
        return self.ask(Code.SEND_MESSAGE_V2, header, body)

    def ask(self, code: int, header: SendShort | EndTransaction, body: bytes = b"") -> Command:
        """Ask what must be granted, if need be once the disk has it."""
        opaque = self.desk.say(code, header, body)
        self.desk.sync()
        answer = self.desk.answer(opaque)
        assert answer is not None
        assert answer.code == 0, answer.remark
        return answer

    # -- the storm ----------------------------------------------------------------------------------------------------

    def strike(self, code: int) -> None:
        """Send one hostile request, and look at all that comes back."""
        peer, made = self.random.choice(self.attackers), self.storm.request(code)
        opaque = self.desk.say(
            code,
            made.fields,
            made.body,
            peer=peer,
            oneway=made.oneway,
            header_type=made.header_type,
            language=made.language,
            flush=self.random.random() < 0.7,
        )
        self.asked[peer.number, opaque] = made
        self.collect()

    def collect(self) -> None:
        """Take what was sent to the attackers: no answer twice, none that was not asked for."""
        for peer in self.attackers:
            for command in self.desk.sent_to(peer):
                if not command.is_answer:
                    self.questions.append((peer, command))
                    continue
                key = peer.number, command.opaque
                assert not self.asked[key].oneway, f"an answer to a oneway {self.asked[key]}"
                self.answers[key] += 1
                assert self.answers[key] == 1, f"two answers to {self.asked[key]}"

    def breathe(self) -> None:
        """Let time pass, lines close, clients answer, the disk work."""
        desk, random = self.desk, self.random
        desk.advance(random.choice((10, 100, 700)))
        if random.random() < 0.5:
            desk.sync()
        if random.random() < 0.3:
            desk.save()
        self._mend()
        for peer, question in self.questions[-3:]:
            if peer in self.attackers:
                desk.reply(question, peer, {"x": "y"}, random.randbytes(20), code=random.choice((0, 1, -5)))
        self.questions.clear()
        for hangup in desk.hangups:
            if hangup.peer in self.attackers:
                self.hang_up(hangup.peer)
        desk.hangups.clear()
        if random.random() < 0.2:
            self.hang_up(random.choice(self.attackers))
        self.collect()
        self.check_limits()

    def _mend(self) -> None:
        """Make again what the storm may have deleted, so that it goes on having something to break."""
        with suppress(SteelyardError):
            for topic in ("orders", "hostile"):
                make_topic(self.desk, topic, queues=4)
        with suppress(SteelyardError):
            for group in ("billing", "hostile"):
                self.desk.state.groups.put(GroupSettings(name=group), self.desk.now_ms)
        if self.random.random() < 0.1:
            for name in _MANY:
                self.desk.state.groups.remove(name, self.desk.now_ms)
                self.desk.state.topics.remove(name, self.desk.now_ms)
        self.beat()
        store = self.desk.state.store
        places = [store.entries(*queue, 0, 1 << 62)[-2:] for queue in store.queues()]
        self.storm.positions = [position for place in places for position, _, _ in place]

    def hang_up(self, peer: Peer) -> None:
        """Close an attacker's line; it comes back on another one, and what it asked needs no answer."""
        self.collect()
        self.desk.hang_up(peer)
        self.attackers[self.attackers.index(peer)] = self.desk.line()
        self.asked = {key: made for key, made in self.asked.items() if key[0] != peer.number}

    def check_limits(self) -> None:
        """Expect that no table has more than it may."""
        state, options = self.desk.state, self.desk.options
        assert len(state.topics) <= options.max_topics
        assert len(state.groups) <= options.max_groups
        assert len(state.members) <= options.max_members
        assert len(state.parking) <= options.parked_pulls
        assert len(state.wanted_routes) <= options.max_topics
        assert len(state.questions) <= 1_000
        assert len(state.notes) < 1_000
        assert not state.outbox
        state.notes.clear()

    def calm(self) -> object:
        """Return all that the storm does not name."""
        state = self.desk.state
        group = state.members.group("calm")
        assert group is not None
        return (
            self.desk.topic("calm"),
            dict(state.offsets.of("calm", "calm")),
            [(key, lock.owner, lock.epoch) for key, lock in state.locks.of("calm", self.desk.now_ms)],
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
    world.desk.flush()
    assert world.calm() == before
    _finish(world)


def _finish(world: World) -> None:
    """Let everything come to its end, then work as usual, then start again."""
    desk = world.desk
    for _ in range(_LONGEST_MS // 1_000):
        desk.advance(1_000, step_ms=500)
        desk.sync()
        world.collect()
    assert not world.unanswered()
    world.ask(Code.END_TRANSACTION, world.commit)
    assert sorted(record.body for record in desk.topic("calm-late")) == [b"by level", b"by time", b"half"]
    _work_as_usual(world, b"after the storm")
    desk.restart()
    _work_as_usual(world, b"after a restart")
    desk.crash()
    _work_as_usual(world, b"after a crash")
    desk.lose_power()
    _work_as_usual(world, b"after a loss of power")
    assert sorted(record.body for record in desk.topic("calm-late")) == [b"by level", b"by time", b"half"]


def _work_as_usual(world: World, body: bytes) -> None:
    desk = world.desk
    offset = world.send(message("calm", queue_id=3), body).header(SendAnswer).queue_offset
    assert bodies(pull(desk, pull_header(offset, topic="calm", queue_id=3, group="calm"))) == [body]
    assert desk.ask(Code.UPDATE_CONSUMER_OFFSET, CommitOffset("calm", "calm", 3, offset)).code == 0
    assert desk.state.offsets.get("calm", "calm", 3) == offset
    waiting = start_pull(desk, pull_header(offset + 1, topic="calm", queue_id=3, group="calm"))
    assert desk.answer(waiting) is None
    world.send(message("calm", queue_id=3), body + b"!")
    answer = desk.answer(waiting)
    assert answer is not None
    assert bodies(answer) == [body + b"!"]


@pytest.mark.parametrize(("flush", "seed"), [("async", 11), ("async", 12), ("sync", 13), ("sync", 14)])
def test_promises_are_kept_in_the_middle_of_a_storm_through_restarts(flush: str, seed: int) -> None:
    storm, random = Storm(seed, _NAMES), Dice(seed)
    # How the whole broker is set up is for whoever runs it to change, and would change what is promised.
    codes = [code for code in CODES if code != Code.UPDATE_BROKER_CONFIG]

    def strike(desk: Desk) -> None:
        line = desk.line()
        for _ in range(3):
            made = storm.request(random.choice(codes))
            desk.say(
                made.code,
                made.fields,
                made.body,
                peer=line,
                oneway=made.oneway,
                header_type=made.header_type,
                language=made.language,
                flush=False,
            )
        if random.random() < 0.5:
            desk.hang_up(line)
        desk.sent_to(line)
        desk.state.notes.clear()
        storm.positions = [random.randrange(max(1, desk.state.store.end)), *storm.positions[:20]]

    life = Life(seed, flush, strike)
    life.run(max(60, rounds() // 10))
    assert life.book.places
    assert life.book.deaths
