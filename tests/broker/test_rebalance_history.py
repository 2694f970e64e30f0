"""The rebalance history: for each moved queue its previous and next owner, the gap, and the reason."""

from steelyard.broker.options import BrokerOptions
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.common import TopicNameRequest
from steelyard.wire.rebalance_history import (
    MemberChangeEntry,
    QueueMoveEntry,
    RebalanceHistoryRecord,
    decode_history_record,
)
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, group_view
from tests.broker.pull_requests import make_topic

OPTIONS = BrokerOptions()
QUIET_MS = 200


def opened(options: BrokerOptions | None = None) -> BrokerHarness:
    """Open a broker with a topic of four queues."""
    harness = BrokerHarness(options)
    make_topic(harness, "orders", queues=4)
    return harness


def history(harness: BrokerHarness, group: str = GROUP) -> list[RebalanceHistoryRecord]:
    """Return what was written down of a group."""
    found = [decode_history_record(record.body) for record in harness.queue(REBALANCE_HISTORY_TOPIC)]
    assert None not in found
    return [each for each in found if each is not None and each.group == group]


def owner_changes(record: RebalanceHistoryRecord) -> list[tuple[str, str]]:
    """Return who came and went."""
    return [(change.member, change.what) for change in record.changed]


def moves(harness: BrokerHarness) -> list[QueueMoveEntry]:
    """Return all moves that were written down."""
    return [move for record in history(harness) for move in record.moves]


def in_short(moves_found: list[QueueMoveEntry]) -> list[tuple[int, str | None, str | None, int | None, str, str]]:
    """Return what matters of the moves of the topic."""
    found = [each for each in moves_found if each.topic == "orders"]
    return [(each.queue, each.before, each.after, each.gap_ms, each.kind, each.why) for each in found]


def pair(harness: BrokerHarness) -> tuple[FakeConsumer, FakeConsumer]:
    """Let a member take all queues and come to rest, and another one join."""
    first, second = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    first.heartbeat()
    first.lock(0, 1, 2, 3)
    first.lock(0, topic=f"%RETRY%{GROUP}")
    harness.advance(2_000)
    second.heartbeat()
    return first, second


def test_the_first_to_take_a_queue_takes_it_from_nobody() -> None:
    harness = opened()
    member = FakeConsumer(harness, "c1")
    member.heartbeat()
    member.lock(0, 1, 2, 3)
    assert history(harness) == []
    harness.advance(QUIET_MS)
    (record,) = history(harness)
    assert (record.version, record.broker, record.members) == (1, "broker-0", ("c1",))
    assert record.changed == (MemberChangeEntry("c1", "joined", START_MS),)
    assert record.owners["orders"] == (0, 0, 0, 0)
    assert in_short(list(record.moves)) == [(queue, None, "c1", None, "first", "c1 joined") for queue in range(4)]


def test_a_planned_hand_over_is_one_move_with_its_gap_and_the_reason() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unlock(2, 3)
    harness.now_ms += 7
    second.lock(2, 3)
    harness.advance(QUIET_MS)
    record = history(harness)[-1]
    assert owner_changes(record) == [("c2", "joined")]
    assert record.owners["orders"] == (0, 0, 1, 1)
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 7, "given up", "c2 joined") for queue in (2, 3)]


def test_a_queue_that_is_free_for_long_is_reported_when_it_gets_free_and_when_it_is_taken() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unlock(3)
    harness.advance(QUIET_MS)
    assert history(harness)[-1].owners["orders"] == (0, 0, 0, -1)
    harness.advance(800)
    second.lock(3)
    harness.advance(QUIET_MS)
    assert history(harness)[-1].owners["orders"] == (0, 0, 0, 1)
    assert in_short(moves(harness)[-2:]) == [
        (3, "c1", None, None, "given up", "c2 joined"),
        (3, "c1", "c2", 1_000, "given up", "c2 joined"),
    ]


def test_who_says_unregistration_left() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unregister()
    second.lock(0)
    harness.advance(QUIET_MS)
    record = history(harness)[-1]
    assert record.members == ("c2",)
    assert owner_changes(record) == [("c2", "joined"), ("c1", "left")]
    assert in_short(list(record.moves))[0] == (0, "c1", "c2", 0, "left", "c1 left")
    assert in_short(list(record.moves))[1] == (1, "c1", None, None, "left", "c1 left")


def test_who_hands_over_before_it_goes_left_too() -> None:
    harness = opened()
    first, second = pair(harness)
    harness.advance(QUIET_MS)
    first.heartbeat(leaving=True)
    first.unlock(0, 1, 2, 3)
    second.lock(0, 1, 2, 3)
    first.unregister()
    harness.advance(QUIET_MS)
    record = history(harness)[-1]
    assert owner_changes(record) == [("c1", "leaving"), ("c1", "left")]
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 0, "left", "c1 left") for queue in range(4)]


def test_whose_connection_closed_is_gone_and_its_queues_are_lost() -> None:
    harness = opened()
    first, second = pair(harness)
    harness.advance(QUIET_MS)
    first.close()
    harness.advance(OPTIONS.connection_grace_ms)
    harness.now_ms += 20
    second.lock(0, 1, 2, 3)
    harness.advance(QUIET_MS)
    record = history(harness)[-1]
    assert owner_changes(record) == [("c1", "gone")]
    why = "c1 disconnected (connection closed)"
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 20, "lost", why) for queue in range(4)]


def test_what_is_handled_in_order_is_lost_when_its_grace_is_over() -> None:
    harness = opened()
    first, second = FakeConsumer(harness, "c1"), FakeConsumer(harness, "c2")
    for member in (first, second):
        member.heartbeat()
    first.lock(0, lease=False)
    first.close()
    harness.advance(OPTIONS.connection_grace_ms + OPTIONS.order_grace_ms)
    second.lock(0, lease=False)
    harness.advance(QUIET_MS)
    assert in_short(moves(harness)[-1:]) == [(0, "c1", "c2", 0, "lost", "c1 disconnected (connection closed)")]


def test_who_falls_silent_is_gone_and_it_is_said_for_how_long() -> None:
    harness = opened()
    _, second = pair(harness)
    for _ in range(5):
        harness.advance(3_000, step_ms=500)
        second.heartbeat()
    second.lock(0)
    harness.advance(QUIET_MS)
    assert "c1 disconnected (no heartbeat for 12 s)" in {move.why for move in moves(harness)}


def test_a_lock_of_java_that_is_not_renewed_expires() -> None:
    harness = opened()
    first, second = FakeConsumer(harness, "j1", ours=False), FakeConsumer(harness, "j2", ours=False)
    for member in (first, second):
        member.heartbeat()
    first.lock(0)
    harness.advance(OPTIONS.java_lock_ms + 250, step_ms=20_050)
    second.lock(0)
    harness.advance(QUIET_MS)
    assert in_short(moves(harness)[-1:]) == [(0, "j1", "j2", 250, "expired", "j1 did not renew its lock")]


def test_of_a_group_that_locks_nothing_only_who_came_and_went_is_known() -> None:
    harness = opened()
    member = FakeConsumer(harness, "j1", ours=False)
    member.heartbeat()
    harness.advance(QUIET_MS)
    member.unregister()
    harness.advance(40_000)
    reported = [(record.members, owner_changes(record), record.owners, record.moves) for record in history(harness)]
    assert reported == [
        (("j1",), [("j1", "joined")], {}, ()),
        ((), [("j1", "left")], {}, ()),
    ]


def test_who_goes_on_after_a_restart_has_not_moved() -> None:
    harness = opened()
    first, _ = pair(harness)
    harness.advance(QUIET_MS)
    held = first.renew(dict.fromkeys(range(4), -1))
    before = len(history(harness))
    harness.restart()
    first.reconnect(held={"orders": tuple(held.items())})
    harness.advance(5_000)
    later = history(harness)[before:]
    assert [(owner_changes(record), record.moves, record.rebalance) for record in later] == [
        ([("c1", "back")], (), None)
    ]
    assert later[0].owners["orders"] == (0, 0, 0, 0)
    assert harness.state.rebalance_history.totals[GROUP].kept == 4


def test_what_nobody_claims_after_a_restart_is_taken_because_of_it() -> None:
    harness = opened()
    _, second = pair(harness)
    harness.restart()
    second.reconnect()
    harness.advance(OPTIONS.settle_ms)
    second.lock(0)
    harness.advance(QUIET_MS)
    assert in_short(moves(harness)[-1:]) == [(0, None, "c2", None, "first", "the broker was restarted")]


def test_the_history_outlives_a_crash_and_a_close_writes_what_is_left() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unlock(0)
    second.lock(0)
    harness.restart()
    assert in_short(moves(harness)[-1:]) == [(0, "c1", "c2", 0, "given up", "c2 joined")]
    known = history(harness)
    harness.crash()
    assert history(harness) == known


def test_queues_that_are_added_are_a_reason() -> None:
    harness = opened()
    first, _ = pair(harness)
    harness.advance(3_000)
    make_topic(harness, "orders", queues=6)
    harness.advance(600)
    first.lock(4, 5)
    harness.advance(QUIET_MS)
    assert {move.why for move in moves(harness) if move.queue > 3} == {"2 queues were added to orders"}


def test_what_is_given_up_for_a_topic_that_is_gone_says_so() -> None:
    harness = opened()
    first, _ = pair(harness)
    harness.advance(QUIET_MS)
    harness.request(Code.DELETE_TOPIC_IN_BROKER, TopicNameRequest("orders"))
    first.unlock(0)
    harness.advance(QUIET_MS)
    assert in_short(moves(harness)[-1:]) == [(0, "c1", None, None, "topic gone", "topic orders is gone")]


def test_changes_that_come_together_are_one_record_and_a_storm_is_cut_into_several() -> None:
    harness = opened()
    first, second = pair(harness)
    harness.advance(QUIET_MS)
    before = len(history(harness))
    for _ in range(12):
        first.unlock(0)
        second.lock(0)
        second.unlock(0)
        first.lock(0)
        harness.advance(50)
    harness.advance(QUIET_MS)
    later = history(harness)[before:]
    assert len(later) == 2
    assert sum(len(record.moves) for record in later) == 24


def test_a_group_at_rest_tells_how_long_it_took_and_how_much_had_to_move() -> None:
    harness = opened()
    first, second = pair(harness)
    began_ms = harness.now_ms
    harness.advance(300)
    first.unlock(2, 3)
    harness.now_ms += 5
    second.lock(2, 3)
    ended_ms = harness.now_ms
    harness.advance(2_000)
    first_line, line = [record.rebalance for record in history(harness) if record.rebalance is not None]
    assert (first_line.moved, first_line.least) == (0, 0)
    assert (line.began_ms, line.ended_ms, line.moved, line.least) == (began_ms, ended_ms, 2, 2)
    totals = harness.state.rebalance_history.totals[GROUP]
    assert (totals.rebalances, dict(totals.moves), totals.gap_s.sum, totals.duration_s.total) == (
        2,
        {"given up": 2},
        0.01,
        2,
    )


def test_nothing_is_written_where_that_is_not_wanted_but_it_is_counted() -> None:
    harness = opened(BrokerOptions(keep_rebalance_history=False))
    first, second = pair(harness)
    first.unlock(0)
    second.lock(0)
    harness.advance(3_000)
    assert harness.state.topics.get(REBALANCE_HISTORY_TOPIC) is None
    assert harness.queue(REBALANCE_HISTORY_TOPIC) == []
    assert dict(harness.state.rebalance_history.totals[GROUP].moves) == {"given up": 1}


def test_the_topic_belongs_to_the_broker() -> None:
    harness = opened()
    name = TopicNameRequest(REBALANCE_HISTORY_TOPIC)
    assert harness.request(Code.DELETE_TOPIC_IN_BROKER, name).code != 0
    assert REBALANCE_HISTORY_TOPIC in harness.request(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body.decode()
    topic = harness.state.topics[REBALANCE_HISTORY_TOPIC]
    assert (topic.queues, topic.is_readable, topic.is_writable) == (1, True, False)


def test_the_history_counts_as_nobodys_messages() -> None:
    harness = opened()
    pair(harness)
    harness.advance(QUIET_MS)
    assert history(harness)
    assert harness.state.traffic.stored.messages == 0
    assert harness.state.traffic.topic_counter(REBALANCE_HISTORY_TOPIC) is None


def test_the_last_record_says_what_the_broker_tells_members() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unlock(1, 3)
    second.lock(3)
    harness.advance(QUIET_MS)
    assert history(harness)[-1].owners == group_view(harness).owners
    assert START_MS <= history(harness)[-1].at_ms <= harness.now_ms
