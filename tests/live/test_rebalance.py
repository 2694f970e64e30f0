"""Members share the queues of a topic evenly; whoever comes or goes, each message is handled: once, if it was planned.

A member that is killed is a process of its own, so that a kill is a kill.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from steelyard import Admin, Consumer, Message, Producer, PullConsumer, Queue
from tests.churn.handler_log import out_of_order, overlaps, read_logs, repeats
from tests.churn.member import Orders
from tests.churn.trial import ChurnMember, LocalMember, Member
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, poll_all

if TYPE_CHECKING:
    from steelyard.client.consumer.notifications import Rebalanced

KEYS = 16


def share(members: list[Consumer], topic: str) -> list[int]:
    """Return how many queues of a topic each has; none if a queue is with two, or with nobody."""
    shares = [owned(member, topic) for member in members]
    every = [queue for queues in shares for queue in queues]
    return [len(queues) for queues in shares] if len(every) == len(set(every)) == 8 else []


def test_members_share_evenly_and_say_what_moved(cluster: Live, topic: str, group: str) -> None:
    moves: list[Rebalanced] = []
    with ExitStack() as stack:
        members: list[Consumer] = []

        def share_as(*shares: int) -> None:
            until(lambda: sorted(share(members, topic), reverse=True) == list(shares), f"they share {shares}")

        for number, shares in enumerate([[8], [4, 4], [3, 3, 2]]):
            member = Consumer(cluster.namesrv, group=group, start_from="first", name=f"m{number}")
            member.handles(topic)(Handled())
            if number == 0:
                member.on_rebalance(moves.append)
            members.append(stack.enter_context(member))
            share_as(*shares)
        assert all("m0" in move.id for move in moves)
        released = [queue for move in moves for queue in move.released if queue.topic == topic]
        assert len(set(released)) == len(released) == 8 - len(owned(members[0], topic))
        assert not [queue for move in moves for queue in move.lost]
        assert f"group {group}: 3 members" in str(members[0].explain())
        members.pop().stop()
        share_as(4, 4)
        members.pop().stop()
        share_as(8)


@pytest.mark.parametrize("allocate", ["average", "circle", "CONSISTENT_HASH", "sticky"])
def test_every_strategy_gives_each_queue_one_owner(cluster: Live, topic: str, group: str, allocate: str) -> None:
    with ExitStack() as stack:
        members: list[Consumer] = []
        for _ in range(2):
            member = Consumer(cluster.namesrv, group=group, start_from="first", strategy=allocate)
            member.handles(topic)(Handled())
            members.append(stack.enter_context(member))
        until(lambda: all(share(members, topic)), "both have some, and all queues are owned once")


def test_a_pull_consumer_and_a_consumer_share_one_group(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer, PullConsumer(cluster.namesrv, group=group, start_from="first") as pull_consumer:
        pull_consumer.subscribe(topic)
        until(
            lambda: pull_consumer.poll(timeout_s=0.05) == [] and len(owned(pull_consumer, topic)) == 4,
            "the puller has its share",
        )
        until(lambda: len(owned(consumer, topic)) == 4, "and the consumer has its own")
        for number in range(80):
            producer.send(Message(topic, str(number).encode()))
        polled = poll_all(pull_consumer, 40)
        handled.wait(40)
    assert sorted([*handled.bodies, *(each.body.decode() for each in polled)], key=int) == [
        str(number) for number in range(80)
    ]


@contextmanager
def flowing(producer: Producer, topic: str) -> Iterator[set[str]]:
    """Send messages until the end of the context: bodies are ``key:number``."""
    sent: set[str] = set()
    is_over = threading.Event()

    def send() -> None:
        for number in itertools.count():
            for key in range(KEYS):
                producer.send(Message(topic, f"{key}:{number}".encode()), key=key, timeout_s=20)
                sent.add(f"{key}:{number}")
            if is_over.wait(0.02):
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        is_over.set()
        thread.join()


class Members:
    """Members of one group."""

    def __init__(self, orders: Orders, folder: Path) -> None:
        self.running: list[Member] = []
        self._orders, self._folder = orders, folder
        self._numbers = itertools.count(1)

    def join(self, make: Callable[[Orders], Member] = LocalMember) -> Member:
        """Start one, and wait until it has a queue."""
        log = str(self._folder / f"member-{next(self._numbers)}.log")
        member = make(structs.replace(self._orders, log=log))
        self.running.append(member)
        member.wait_joined()
        return member

    def leave(self, member: Member) -> None:
        """Let one go."""
        self.running.remove(member)
        member.leave()

    def kill(self, member: Member) -> None:
        """Let one crash."""
        self.running.remove(member)
        member.kill()

    def wait_for(self, sent: set[str]) -> None:
        """Wait until everything was handled to its end."""
        until(
            lambda: sent <= {each.uid for each in read_logs(self._folder.glob("*.log")) if each.end_ns is not None},
            "all that was sent was handled",
        )


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_planned_changes_lose_nothing_and_repeat_nothing(
    cluster: Live, producer: Producer, topic: str, group: str, tmp_path: Path, *, orderly: bool
) -> None:
    members = Members(Orders(cluster.namesrv, group, topic, "", orderly=orderly, handling_ms=1), tmp_path)
    try:
        with flowing(producer, topic) as sent:
            first = members.join()
            second = members.join()
            members.join()
            members.leave(first)
            members.leave(second)
            members.join()
        members.wait_for(sent)
        for member in list(members.running):
            members.leave(member)
    finally:
        for member in list(members.running):
            members.kill(member)
    handlings = read_logs(tmp_path.glob("*.log"))
    assert not repeats(handlings)
    assert {each.uid for each in handlings} == sent
    if orderly:
        assert not out_of_order(handlings)
        assert not list(overlaps(handlings))


@pytest.mark.process
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_what_a_killed_member_had_is_taken_over(
    cluster: Live, producer: Producer, topic: str, group: str, tmp_path: Path, *, orderly: bool
) -> None:
    members = Members(Orders(cluster.namesrv, group, topic, "", orderly=orderly, handling_ms=1), tmp_path)
    try:
        with flowing(producer, topic) as sent:
            doomed = members.join(ChurnMember)
            members.join()
            members.kill(doomed)
            members.join()
        members.wait_for(sent)
        for member in list(members.running):
            members.leave(member)
    finally:
        for member in list(members.running):
            members.kill(member)
    handlings = read_logs(tmp_path.glob("*.log"))
    again = repeats(handlings)
    assert all(any(each.member == doomed.log.stem for each in some) for some in again.values())
    assert {each.uid for each in handlings} == sent
    if orderly:
        assert not out_of_order(handlings)


def test_queues_that_are_added_find_an_owner(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="last")
    consumer.handles(topic)(handled)
    with consumer:
        until(lambda: len(owned(consumer, topic)) == 8, "it has all queues")
        admin.topics.add_queues(topic, 6)
        for broker in cluster.brokers:
            producer.send(Message(topic, b"early"), queue=Queue(topic, broker, 5), timeout_s=30)
        until(lambda: len(owned(consumer, topic)) == 12, "it has the new ones too")
        handled.wait(2)
    assert handled.bodies == ["early"] * 2, "a queue that is younger than its group is read from its beginning"
