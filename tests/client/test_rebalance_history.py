"""What each broker wrote down of a rebalance is put together to one of the whole group."""

from datetime import UTC, datetime, timedelta

from steelyard.client.admin.rebalance_history import BrokerRebalance, QueueMove, RebalanceRecord, group_rebalances
from steelyard.model import Queue

START = datetime(2026, 11, 1, 8, tzinfo=UTC)


def at(time_ms: int) -> datetime:
    """Return a moment."""
    return START + timedelta(milliseconds=time_ms)


def record(
    at_ms: int,
    broker: str,
    owners: str,
    *moves: tuple[int, str | None, str | None, int],
    rest: tuple[int, int] | None = None,
    group: str = "billing",
) -> RebalanceRecord:
    """Make a record: owners by queue as letters, moves as queue, from, to and gap; and when it came to rest."""
    made = tuple(
        QueueMove(Queue("orders", broker, queue), before, after, gap_ms, "b joined", at(at_ms - 100), "given up")
        for queue, before, after, gap_ms in moves
    )
    ended = None if rest is None else BrokerRebalance(at(rest[0]), at(rest[1]), len(made), None)
    named = {Queue("orders", broker, queue): owner for queue, owner in enumerate(owners)}
    return RebalanceRecord(group, at(at_ms), broker, tuple(sorted(set("ab"))), (), named, made, ended)


def test_what_brokers_tell_of_one_change_is_one_rebalance() -> None:
    history = [
        record(0, "x", "aa"),
        record(0, "y", "aa"),
        record(5_120, "y", "bb", (0, "a", "b", 7), (1, "a", "b", 20)),
        record(6_200, "y", "bb", rest=(5_000, 5_020)),
        record(10_100, "x", "aa", rest=(5_003, 5_003)),
    ]
    (found,) = group_rebalances(history)
    assert (found.group, found.began, found.ended, found.duration_ms) == ("billing", at(5_000), at(5_020), 20)
    assert (found.moved, found.least, found.longest_gap_ms, found.reasons) == (2, 2, 20, ("b joined",))


def test_changes_that_are_apart_are_rebalances_apart_and_groups_are_too() -> None:
    history = [
        record(0, "x", "aa"),
        record(5_100, "x", "ab", (1, "a", "b", 7)),
        record(6_000, "x", "ab", rest=(5_000, 5_000)),
        record(9_100, "x", "ba", (0, "a", "b", 3), (1, "b", "a", 3)),
        record(10_000, "x", "ba", rest=(9_000, 9_000)),
        record(10_001, "x", "ba", rest=(9_000, 9_000), group="audit"),
    ]
    reported = [(each.group, each.moved, each.least) for each in group_rebalances(history)]
    assert sorted(reported) == [("audit", 0, 0), ("billing", 1, 1), ("billing", 2, 0)]


def test_what_had_to_move_is_not_known_of_a_history_that_begins_with_the_change() -> None:
    history = [
        record(5_100, "x", "ab", (1, "a", "b", 7)),
        record(6_000, "x", "ab", rest=(5_000, 5_000)),
    ]
    (found,) = group_rebalances(history)
    assert (found.moved, found.least) == (1, None)
    assert group_rebalances([]) == []
