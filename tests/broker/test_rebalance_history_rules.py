"""What holds of the rebalance history whatever members do: it agrees with the locks and is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.queue_locks import ReleaseReason
from steelyard.broker.rebalance_history import OTHER_GROUPS, MembershipEvent, RebalanceRecorder
from steelyard.errors import DiskFull
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.rebalance_history import RebalanceHistoryRecord
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, group_view
from tests.broker.pull_requests import make_topic
from tests.broker.test_rebalance_history import history, opened, pair

QUEUES = 4
IDS = ("c1", "c2", "c3")

steps = st.tuples(
    st.sampled_from(["beat", "lock", "order", "unlock", "leave", "close", "wait", "wait long"]),
    st.sampled_from(range(len(IDS))),
    st.sets(st.integers(0, QUEUES - 1), min_size=1),
)


def live(script: list[tuple[str, int, set[int]]]) -> BrokerHarness:
    """Let members do what a script says."""
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=QUEUES)
    members = [FakeConsumer(harness, client_id) for client_id in IDS]
    for step, place, queues in script:
        member = members[place]
        if step == "beat":
            member.reconnect()
        elif step == "close":
            member.close()
        elif step == "leave":
            member.unregister()
        elif step in ("wait", "wait long"):
            harness.advance(90 if step == "wait" else 2_500)
        elif member.id in {each.id for each in harness.state.consumers}:
            code = Code.UNLOCK_BATCH_MQ if step == "unlock" else Code.LOCK_BATCH_MQ
            member.request_locks(code, sorted(queues), lease=step != "order")
    return harness


def applied(records: list[RebalanceHistoryRecord]) -> dict[int, str]:
    """Return who holds what if all moves are done one after the other."""
    held: dict[int, str] = {}
    for move in (move for record in records for move in record.moves if move.topic == "orders"):
        if move.after is None:
            del held[move.queue]
        else:
            held[move.queue] = move.after
    return held


@given(st.lists(steps, max_size=40))
def test_the_moves_one_after_the_other_give_the_table_of_locks(script: list[tuple[str, int, set[int]]]) -> None:
    harness = live(script)
    harness.advance(600)
    held = {key[1]: lock.owner for key, lock in harness.state.queue_locks.held_queues(GROUP, harness.now_ms)}
    assert applied(history(harness)) == held


@given(st.lists(steps, max_size=40))
def test_the_last_record_alone_gives_the_whole_grid(script: list[tuple[str, int, set[int]]]) -> None:
    harness = live(script)
    harness.advance(600)
    records = history(harness)
    if harness.state.consumers.group(GROUP) is None:
        assert not records or (records[-1].members, records[-1].owners) == ((), {})
    else:
        assert records[-1].owners == group_view(harness).owners
        assert list(records[-1].members) == sorted(records[-1].members)


@given(st.lists(steps, max_size=40))
def test_a_queue_that_moves_was_with_somebody_else_and_its_gap_is_the_time_it_was_free(
    script: list[tuple[str, int, set[int]]],
) -> None:
    harness = live(script)
    harness.advance(600)
    last: dict[int, tuple[str, int | None]] = {}
    for move in (move for record in history(harness) for move in record.moves):
        assert move.before == (last[move.queue][0] if move.queue in last else None)
        assert (move.gap_ms is None) == (move.before is None or move.after is None)
        assert move.why
        if move.after is None:
            last[move.queue] = (str(move.before), move.at_ms)
        else:
            freed_ms = last[move.queue][1] if move.queue in last else None
            assert freed_ms is None or move.gap_ms == move.at_ms - freed_ms
            last[move.queue] = (move.after, None)


@given(st.lists(steps, max_size=25))
def test_a_history_is_the_same_each_time(script: list[tuple[str, int, set[int]]]) -> None:
    assert history(live(script)) == history(live(script))


def test_a_full_disk_costs_only_the_history_and_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = opened()
    first, second = pair(harness)
    known = len(history(harness))

    def full(*_: object, **__: object) -> None:
        raise DiskFull("written", path="commitlog", why="no room is left")

    monkeypatch.setattr(harness.state.store, "append", full)
    for _ in range(3):
        first.unlock(0)
        assert second.lock(0)
        second.unlock(0)
        assert first.lock(0)
        harness.advance(600)
    assert harness.state.rebalance_history.unwritten_records == 3
    assert len([note for note in harness.state.warnings if "rebalance history" in note]) == 1
    assert sum(harness.state.rebalance_history.totals[GROUP].moves.values()) == 6
    monkeypatch.undo()
    first.unlock(0)
    harness.advance(600)
    assert len(history(harness)) == known + 1


def test_any_number_of_groups_and_queues_takes_a_bounded_memory() -> None:
    moves = RebalanceRecorder(0)
    for number in range(20_000):
        moves.lock_acquired(f"g{number}", ("t", 0), "c", 0, is_kept=False)
        moves.record_member_event(f"g{number}", "c", MembershipEvent.JOINED, 0)
    for number in range(250_000):
        moves.lock_acquired("g1", ("t", number), "c", 1, is_kept=False)
        moves.lock_released("g1", ("t", number), "c", ReleaseReason.GIVEN_UP, 1)
    kept = moves.__dict__
    assert len(kept["_histories"]) == 10_000
    assert kept["_remembered_owners"] <= 200_000
    group_history = kept["_histories"]["g1"]
    assert len(group_history.moves) == 2_000
    assert len(group_history.free_queues) + len(group_history.rebalance.before) <= 200_000
    assert len(moves.totals) == 2_001
    assert OTHER_GROUPS in moves.totals


def test_a_record_of_a_storm_has_an_end_and_says_what_is_missing() -> None:
    harness = opened()
    first, _ = pair(harness)
    for _ in range(3):
        first.request_locks(Code.LOCK_BATCH_MQ, range(1_000), topic="%RETRY%billing")
        first.request_locks(Code.UNLOCK_BATCH_MQ, range(1_000), topic="%RETRY%billing")
    harness.advance(600)
    record = history(harness)[-1]
    assert (len(record.moves), record.left_out) == (2_000, 2_998)


def test_nothing_is_remembered_of_a_group_that_is_long_gone() -> None:
    harness = opened()
    first, second = pair(harness)
    first.unregister()
    second.unregister()
    harness.advance(700_000, step_ms=5_000)
    kept = harness.state.rebalance_history.__dict__
    assert kept["_histories"] == {}
    assert kept["_remembered_owners"] == 0


def test_a_clock_that_is_set_back_ends_no_history_and_leaves_no_rebalance_under_way() -> None:
    harness = opened()
    first, second = pair(harness)
    harness.advance(50)
    harness.now_ms -= 86_400_000
    first.heartbeat()
    second.heartbeat()
    first.unlock(2, 3)
    second.lock(2, 3)
    harness.advance(10_000)
    totals = harness.state.rebalance_history.totals[GROUP]
    assert (totals.rebalances, totals.moves["given up"]) == (2, 2)
    assert [record.rebalance is not None for record in history(harness)[-2:]] == [False, True]


def test_moves_of_many_groups_that_wait_to_be_written_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.broker.rebalance_history._MAX_BACKLOG", 10)
    moves = RebalanceRecorder(0)
    for turn in range(5):
        for group in ("a", "b", "c"):
            moves.record_member_event(group, "c1", MembershipEvent.JOINED, turn)
            moves.lock_acquired(group, ("orders", turn), "c1", turn, is_kept=False)
    histories = list(moves.due_histories(5, everything=True))
    assert sum(len(each.moves) + len(each.member_changes) for each in histories) == 10
    assert sum(each.omitted for each in histories) == 10
    for each in histories:
        moves.mark_written(each)
    moves.lock_acquired("a", ("orders", 9), "c1", 5, is_kept=False)
    assert [len(each.moves) for each in moves.due_histories(5, everything=True)] == [1]


def test_a_record_that_would_be_too_large_has_fewer_moves_and_still_says_who_holds_what() -> None:
    harness = BrokerHarness(segment_bytes=8 << 20)
    make_topic(harness, "orders", queues=2_000)
    member = FakeConsumer(harness, "c" * 255)
    member.heartbeat()
    member.lock(*range(2_000))
    harness.advance(200)
    (record,) = history(harness)
    assert record.members == (member.id,)
    assert record.owners["orders"] == (0,) * 2_000
    assert (len(record.moves), record.left_out) == (500, 1_500)


def test_groups_without_rest_keep_no_other_group_from_being_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.broker.rebalance_history_topic._RECORDS_PER_TICK", 1)
    harness = opened()
    restless = [FakeConsumer(harness, f"r{number}", group=f"restless-{number}", ours=False) for number in range(20)]
    member = FakeConsumer(harness, "c1")
    for turn in range(40):
        for each in restless:
            each.request_locks((Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ)[turn % 2], [0])
        if turn == 1:
            member.heartbeat()
        harness.advance(100)
    assert history(harness)
