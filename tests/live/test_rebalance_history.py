"""The history of moves, as members make it by joining, leaving and dying; Apache's brokers keep none, and say so."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from steelyard import Admin, Consumer
from steelyard.client.admin.rebalance_history import QueueMove, RebalanceRecord, group_rebalances
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned

_DOOMED = """
import sys, time
from steelyard import Consumer
namesrv, group, topic = sys.argv[1:]
consumer = Consumer(namesrv, group=group, start_from="first", name="doomed")
consumer.handles(topic)(lambda message: None)
with consumer:
    while True:
        time.sleep(1)
"""


def joined(stack: ExitStack, cluster: Live, group: str, topic: str, name: str) -> Consumer:
    """Let a member join."""
    member = Consumer(cluster.namesrv, group=group, start_from="first", name=name)
    member.handles(topic)(Handled())
    return stack.enter_context(member)


def moves_of(history: list[RebalanceRecord], topic: str) -> list[QueueMove]:
    """Return the moves from one member to another."""
    return [move for record in history for move in record.moves if move.moved and move.queue.topic == topic]


def grid(admin: Admin, group: str, topic: str) -> dict[int, str | None]:
    """Return who has each queue of a topic by the last record of each broker."""
    last = {record.broker: record for record in admin.groups.rebalance_history(group)}
    owners = {queue: owner for record in last.values() for queue, owner in record.owners.items()}
    return {hash(queue): owner for queue, owner in owners.items() if queue.topic == topic}


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


@pytest.fixture(autouse=True)
def ours(cluster: Live) -> None:
    """Skip what Apache's brokers cannot tell."""
    if not cluster.is_ours:
        with Admin(cluster.namesrv) as admin:
            assert not admin.groups.has_rebalance_history()
            assert admin.groups.rebalance_history() == []
            assert admin.groups.rebalance_history_since() == ([], "")
        pytest.skip("these brokers keep no history of moves, and it is said so")


def at_rest(admin: Admin, group: str) -> int:
    """Return how often a broker wrote down that a group came to rest."""
    return len([record for record in admin.groups.rebalance_history(group) if record.rebalance is not None])


def wait_for(
    admin: Admin, group: str, what: Callable[[list[RebalanceRecord]], object], sentence: str
) -> list[RebalanceRecord]:
    """Wait until the history of a group tells something, and return it."""
    until(lambda: what(admin.groups.rebalance_history(group)), sentence)
    return admin.groups.rebalance_history(group)


def test_who_joins_gets_queues_by_planned_moves(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    with ExitStack() as stack:
        first = joined(stack, cluster, group, topic, "m1")
        until(lambda: len(owned(first, topic)) == 8, "the first has all")
        until(lambda: at_rest(admin, group) == len(cluster.brokers), "and is at rest", cluster.pass_time)
        second = joined(stack, cluster, group, topic, "m2")
        until(lambda: len(owned(first, topic)) == len(owned(second, topic)) == 4, "they share")
        history = wait_for(admin, group, lambda all_: len(moves_of(all_, topic)) == 4, "four queues moved")
        for move in moves_of(history, topic):
            assert ("m1" in str(move.before), "m2" in str(move.after)) == (True, True)
            assert (move.kind, "m2" in move.why, move.why.endswith(" joined")) == ("given up", True, True)
            assert move.gap_ms is not None
        assert set(grid(admin, group, topic).values()) == set(history[-1].members)
        until(lambda: at_rest(admin, group) == 2 * len(cluster.brokers), "it is at rest again", cluster.pass_time)
        last = group_rebalances(admin.groups.rebalance_history(group))[-1]
        assert last.least is not None
        assert 0 < last.least <= last.moved


def test_who_leaves_hands_over_and_is_the_reason(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    with ExitStack() as stack:
        members = [joined(stack, cluster, group, topic, name) for name in ("m1", "m2")]
        until(lambda: all(len(owned(member, topic)) == 4 for member in members), "they share")
        until(lambda: admin.groups.rebalance_history(group), "something is written down")
        gone_at = datetime.now(UTC)
        members.pop().stop()
        until(lambda: len(owned(members[0], topic)) == 8, "the other one has all")
        history = wait_for(
            admin,
            group,
            lambda all_: len([each for each in moves_of(all_, topic) if each.kind == "left"]) == 4,
            "moved",
        )
        left = [move for move in moves_of(history, topic) if move.kind == "left"]
        assert all("m2" in str(move.before) and move.why == f"{move.before} left" for move in left)
        assert {change.what for record in history for change in record.changed} >= {"joined", "left"}
        assert admin.groups.rebalance_history(group, until=gone_at)
        assert all(record.at < gone_at for record in admin.groups.rebalance_history(group, until=gone_at))
        assert all(record.at >= gone_at for record in admin.groups.rebalance_history(group, since=gone_at))
        assert admin.groups.rebalance_history(group, limit=1) == history[-1:]


@pytest.mark.process
def test_who_is_killed_is_gone_and_its_queues_are_lost(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    with ExitStack() as stack:
        first = joined(stack, cluster, group, topic, "m1")
        until(lambda: len(owned(first, topic)) == 8, "the first has all")
        with subprocess.Popen([sys.executable, "-c", _DOOMED, cluster.namesrv, group, topic]) as doomed:
            until(lambda: len(owned(first, topic)) == 4, "they share")
            wait_for(admin, group, lambda all_: len(moves_of(all_, topic)) == 4, "four queues moved")
            os.kill(doomed.pid, signal.SIGKILL)
        until(lambda: len(owned(first, topic)) == 8, "the first has all again")
        history = wait_for(
            admin,
            group,
            lambda all_: len([each for each in moves_of(all_, topic) if each.kind == "lost"]) == 4,
            "moved",
        )
        for move in (move for move in moves_of(history, topic) if move.kind == "lost"):
            assert move.why == f"{move.before} disconnected (connection closed)"
            assert "doomed" in str(move.before)


def test_a_cursor_gives_each_record_once(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    records, cursor = admin.groups.rebalance_history_since(group=group)
    assert records == []
    with ExitStack() as stack:
        first = joined(stack, cluster, group, topic, "m1")
        until(lambda: len(owned(first, topic)) == 8, "it has all")
        found: list[RebalanceRecord] = []

        def look() -> bool:
            nonlocal cursor
            new, cursor = admin.groups.rebalance_history_since(cursor, group=group)
            found.extend(new)
            return len([each for each in found if each.rebalance is not None]) == len(cluster.brokers)

        until(look, "it is at rest on each broker", cluster.pass_time)
        assert sorted(found, key=lambda each: (each.at, each.broker)) == sorted(
            admin.groups.rebalance_history(group), key=lambda each: (each.at, each.broker)
        )
        assert admin.groups.rebalance_history_since(cursor, group=group)[0] == []
        assert {record.group for record in admin.groups.rebalance_history()} >= {group}


def test_the_topic_of_the_history_is_no_users_topic(admin: Admin) -> None:
    assert admin.groups.has_rebalance_history()
    assert REBALANCE_HISTORY_TOPIC not in [each.name for each in admin.topics.list()]
