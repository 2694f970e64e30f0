"""A member that hangs, stutters or is slow, on Apache's brokers: those who answer go on with what they have.

Groups of 2, 3 and 8 take part at the same time, one of each size unless `STEELYARD_TRIALS` asks for more; of those many
run side by side, since a trial mostly waits. One process has a member in each group, and stops. What it holds is out of
reach for two minutes, and nobody else gives up anything for it, on a busy machine either.
"""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from steelyard import Consumer, Message, Producer
from steelyard.client.consumer.notifications import Rebalanced
from steelyard.model import Queue, StoredMessage
from tests.interop.backends import OURS, chosen
from tests.interop.jars import SERVER_RELEASES
from tests.interop.mixed.broker_pairs import BrokerPair, running_pair

pytestmark = pytest.mark.timeout(3600)

_SIZES = (2, 3, 8)
_TRIALS = int(os.environ.get("STEELYARD_TRIALS", "1"))
_AT_ONCE = 10
_BATCHES = [min(_AT_ONCE, _TRIALS - begun) for begun in range(0, _TRIALS, _AT_ONCE)]
_QUEUES = 8
_HUNG_S = 60
_LATE_S = 5
_PATIENCE_S = 180
_CALM_S = 8
"""By then everybody has looked at the group once more."""
_numbers = itertools.count(1)


@pytest.fixture(
    scope="module",
    params=[each for each in chosen() if each != OURS] or [f"apache-{release}" for release in SERVER_RELEASES],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    """Run two brokers of Apache's."""
    with running_pair(request.param, tmp_path_factory.mktemp("pair")) as running:
        yield running


@dataclass(eq=False)
class _Group:
    """The members of a group that answer."""

    name: str
    topic: str
    size: int
    members: list[Consumer] = field(default_factory=list)
    given_up: list[Rebalanced] = field(default_factory=list)
    sent: set[Queue] = field(default_factory=set)
    handled: set[Queue] = field(default_factory=set)
    """The queues of which a message was handled."""

    def start(self, namesrv: str, count: int, stack: ExitStack) -> None:
        """Start some members."""
        for _ in range(count):
            consumer = Consumer(namesrv, group=self.name, start_from="first")
            consumer.handles(self.topic)(self._handle)
            consumer.on_rebalance(self._rebalanced)
            self.members.append(stack.enter_context(consumer))

    async def _handle(self, message: StoredMessage) -> None:
        self.handled.add(message.queue)

    def _rebalanced(self, move: Rebalanced) -> None:
        if move.released or move.lost:
            self.given_up.append(move)

    def owned(self) -> list[list[Queue]]:
        """Return what each member owns of the topic."""
        return [[queue for queue in member.assignment if queue.topic == self.topic] for member in self.members]

    def is_shared(self, others: int) -> bool:
        """Say whether all queues but the share of others are owned here, evenly."""
        counts, members = list(map(len, self.owned())), len(self.members) + others
        least, most = _QUEUES // members, -(-_QUEUES // members)
        is_even = min(counts) >= least and max(counts) <= most
        return is_even and _QUEUES - others * most <= sum(counts) <= _QUEUES - others * least

    def is_read(self) -> bool:
        """Say whether a message was handled of each queue that one was sent to."""
        return self.handled.issuperset(self.sent)


def _until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def _until_shared(groups: Sequence[_Group], others: int) -> None:
    for group in groups:
        _until(partial(group.is_shared, others), partial(_scenario, group))


def _scenario(group: _Group) -> object:
    return group.name, group.size, group.owned(), group.sent - group.handled


@contextmanager
def _outside(pair: BrokerPair, groups: Sequence[_Group]) -> Iterator[subprocess.Popen[str]]:
    """Run a process that has one member in each group."""
    command = [sys.executable, "-m", "tests.interop.hung_member", pair.name_server]
    command += [f"{group.name}={group.topic}" for group in groups]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            process.kill()


def _groups(pair: BrokerPair, sizes: Sequence[int]) -> list[_Group]:
    made = []
    for size in sizes:
        number = next(_numbers)
        pair.make_topic(f"hung-{number}", _QUEUES)
        made.append(_Group(f"hung-group-{number}", f"hung-{number}", size))
    return made


def _settle(groups: Sequence[_Group], others: int) -> None:
    """Wait until all queues are shared and everybody knows it; from then on nobody has a reason to give one up."""
    _until_shared(groups, others)
    time.sleep(_CALM_S)
    _until_shared(groups, others)
    for group in groups:
        group.given_up.clear()


def _send(pair: BrokerPair, groups: Sequence[_Group]) -> None:
    """Send a message to every queue that the members here own."""
    with Producer(pair.name_server) as producer:
        for group in groups:
            group.handled.clear()
            group.sent = set(itertools.chain.from_iterable(group.owned()))
            for queue in group.sent:
                producer.send(Message(group.topic, b"are you there?"), queue=queue)


def _until_read(groups: Sequence[_Group]) -> None:
    for group in groups:
        _until(group.is_read, partial(_scenario, group))


def _assert_nothing_given_up(groups: Sequence[_Group]) -> None:
    assert {(group.name, group.size): group.given_up for group in groups if group.given_up} == {}


@contextmanager
def _trouble(process: subprocess.Popen[str], how: str) -> Iterator[None]:
    """Stop a process, or make it stutter or slow, from now on."""
    if how == "hung":
        process.send_signal(signal.SIGSTOP)
    if how == "slow":
        print(_LATE_S, file=process.stdin, flush=True)
    is_over = threading.Event()
    stuttering = threading.Thread(target=_stutter, args=(process, is_over))
    if how == "stutters":
        stuttering.start()
    yield
    is_over.set()
    if how == "stutters":
        stuttering.join()


def _stutter(process: subprocess.Popen[str], is_over: threading.Event) -> None:
    for sent in itertools.cycle((signal.SIGSTOP, signal.SIGCONT)):
        process.send_signal(sent)
        if is_over.wait(1):
            return


@pytest.mark.parametrize("how", ["hung", "stutters", "slow"])
@pytest.mark.parametrize("trials", _BATCHES, ids=lambda trials: f"{trials} of each size")
def test_who_answers_gives_nothing_up(pair: BrokerPair, how: str, trials: int) -> None:
    groups = _groups(pair, _SIZES * trials)
    with ExitStack() as stack:
        for group in groups:
            group.start(pair.name_server, group.size - 1, stack)
        process = stack.enter_context(_outside(pair, groups))
        _settle(groups, others=1)
        stack.enter_context(_trouble(process, how))
        end_s = time.monotonic() + _HUNG_S
        _send(pair, groups)
        time.sleep(max(0.0, end_s - time.monotonic()))
        _assert_nothing_given_up(groups)
        process.send_signal(signal.SIGCONT)
        _until_read(groups)
        time.sleep(_CALM_S)
        _assert_nothing_given_up(groups)


def test_a_member_killed_while_another_hangs_is_replaced(pair: BrokerPair) -> None:
    (group,) = groups = _groups(pair, (3,))
    with ExitStack() as stack:
        group.start(pair.name_server, 1, stack)
        hung, killed = (stack.enter_context(_outside(pair, groups)) for _ in range(2))
        _settle(groups, others=2)
        before = sum(map(len, group.owned()))
        hung.send_signal(signal.SIGSTOP)
        time.sleep(15)
        killed.kill()
        began_s = time.monotonic()
        _until(lambda: sum(map(len, group.owned())) >= before + _QUEUES // 3, partial(_scenario, group))
        print(f"taken over after {time.monotonic() - began_s:.1f} s on {pair.backend}")
        listed = pair.listed(group.name)
        assert all(len(set(ids)) == 2 for ids in listed.values()), f"not before the hung one was dropped: {listed}"
        _assert_nothing_given_up(groups)
        _send(pair, groups)
        _until_read(groups)


def test_a_hung_member_is_replaced_once_its_broker_drops_it_and_may_come_back(pair: BrokerPair) -> None:
    groups = _groups(pair, _SIZES)
    with ExitStack() as stack:
        for group in groups:
            group.start(pair.name_server, group.size - 1, stack)
        process = stack.enter_context(_outside(pair, groups))
        _settle(groups, others=1)
        process.send_signal(signal.SIGSTOP)
        began_s = time.monotonic()
        _until_shared(groups, others=0)
        print(f"taken over after {time.monotonic() - began_s:.1f} s on {pair.backend}")
        _assert_nothing_given_up(groups)
        _send(pair, groups)
        _until_read(groups)
        process.send_signal(signal.SIGCONT)
        _until_shared(groups, others=1)
