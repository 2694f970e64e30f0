"""What holds of the history of moves whatever members do: it agrees with the locks, has an end, and disturbs nobody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.client import GROUP, Client, view
from tests.broker.desk import Desk
from tests.broker.reader import make_topic
from tests.broker.test_moves import history, opened, pair

from steelyard.broker.locks import HowFreed
from steelyard.broker.moves import Moves, What
from steelyard.broker.moves_totals import OTHERS
from steelyard.errors import DiskFull
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.moves import MovesRecord

QUEUES = 4
IDS = ("c1", "c2", "c3")

steps = st.tuples(
    st.sampled_from(["beat", "lock", "order", "unlock", "leave", "close", "wait", "wait long"]),
    st.sampled_from(range(len(IDS))),
    st.sets(st.integers(0, QUEUES - 1), min_size=1),
)


def live(script: list[tuple[str, int, set[int]]]) -> Desk:
    """Let members do what a script says."""
    desk = Desk()
    make_topic(desk, "orders", queues=QUEUES)
    members = [Client(desk, client_id) for client_id in IDS]
    for step, place, queues in script:
        member = members[place]
        if step == "beat":
            member.reconnect()
        elif step == "close":
            member.close()
        elif step == "leave":
            member.leave()
        elif step in ("wait", "wait long"):
            desk.advance(90 if step == "wait" else 2_500)
        elif member.id in {each.id for each in desk.state.members}:
            code = Code.UNLOCK_BATCH_MQ if step == "unlock" else Code.LOCK_BATCH_MQ
            member.locking(code, sorted(queues), lease=step != "order")
    return desk


def applied(records: list[MovesRecord]) -> dict[int, str]:
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
    desk = live(script)
    desk.advance(600)
    held = {key[1]: lock.owner for key, lock in desk.state.locks.of(GROUP, desk.now_ms)}
    assert applied(history(desk)) == held


@given(st.lists(steps, max_size=40))
def test_the_last_record_alone_gives_the_whole_grid(script: list[tuple[str, int, set[int]]]) -> None:
    desk = live(script)
    desk.advance(600)
    records = history(desk)
    if desk.state.members.group(GROUP) is None:
        assert not records or (records[-1].members, records[-1].owners) == ((), {})
    else:
        assert records[-1].owners == view(desk).owners
        assert list(records[-1].members) == sorted(records[-1].members)


@given(st.lists(steps, max_size=40))
def test_a_queue_that_moves_was_with_somebody_else_and_its_gap_is_the_time_it_was_free(
    script: list[tuple[str, int, set[int]]],
) -> None:
    desk = live(script)
    desk.advance(600)
    last: dict[int, tuple[str, int | None]] = {}
    for move in (move for record in history(desk) for move in record.moves):
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


def test_a_full_disk_costs_only_the_history_and_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = opened()
    first, second = pair(desk)
    known = len(history(desk))

    def full(*_: object, **__: object) -> None:
        raise DiskFull("written", path="commitlog", why="no room is left")

    monkeypatch.setattr(desk.state.store, "append", full)
    for _ in range(3):
        first.unlock(0)
        assert second.lock(0)
        second.unlock(0)
        assert first.lock(0)
        desk.advance(600)
    assert desk.state.moves.unwritten == 3
    assert len([note for note in desk.state.notes if "history of moves" in note]) == 1
    assert sum(desk.state.moves.totals[GROUP].moves.values()) == 6
    monkeypatch.undo()
    first.unlock(0)
    desk.advance(600)
    assert len(history(desk)) == known + 1


def test_any_number_of_groups_and_queues_takes_a_bounded_memory() -> None:
    moves = Moves(0)
    for number in range(20_000):
        moves.taken(f"g{number}", ("t", 0), "c", 0, is_kept=False)
        moves.member(f"g{number}", "c", What.JOINED, 0)
    for number in range(250_000):
        moves.taken("g1", ("t", number), "c", 1, is_kept=False)
        moves.freed("g1", ("t", number), "c", HowFreed.GIVEN_UP, 1)
    kept = moves.__dict__
    assert len(kept["_stories"]) == 10_000
    assert kept["_remembered"] <= 200_000
    story = kept["_stories"]["g1"]
    assert len(story.moves) == 2_000
    assert len(story.free) + len(story.rebalance.before) <= 200_000
    assert len(moves.totals) == 2_001
    assert OTHERS in moves.totals


def test_a_record_of_a_storm_has_an_end_and_says_what_is_missing() -> None:
    desk = opened()
    first, _ = pair(desk)
    for _ in range(3):
        first.locking(Code.LOCK_BATCH_MQ, range(1_000), topic="%RETRY%billing")
        first.locking(Code.UNLOCK_BATCH_MQ, range(1_000), topic="%RETRY%billing")
    desk.advance(600)
    record = history(desk)[-1]
    assert (len(record.moves), record.left_out) == (2_000, 2_998)


def test_nothing_is_remembered_of_a_group_that_is_long_gone() -> None:
    desk = opened()
    first, second = pair(desk)
    first.leave()
    second.leave()
    desk.advance(700_000, step_ms=5_000)
    kept = desk.state.moves.__dict__
    assert kept["_stories"] == {}
    assert kept["_remembered"] == 0


def test_a_clock_that_is_set_back_ends_no_history_and_leaves_no_rebalance_under_way() -> None:
    desk = opened()
    first, second = pair(desk)
    desk.advance(50)
    desk.now_ms -= 86_400_000
    first.beat()
    second.beat()
    first.unlock(2, 3)
    second.lock(2, 3)
    desk.advance(10_000)
    totals = desk.state.moves.totals[GROUP]
    assert (totals.rebalances, totals.moves["given up"]) == (2, 2)
    assert [record.rebalance is not None for record in history(desk)[-2:]] == [False, True]


def test_moves_of_many_groups_that_wait_to_be_written_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.broker.moves_story._MOST_WAITING", 10)
    moves = Moves(0)
    for turn in range(5):
        for group in ("a", "b", "c"):
            moves.member(group, "c1", What.JOINED, turn)
            moves.taken(group, ("orders", turn), "c1", turn, is_kept=False)
    stories = list(moves.ripe(5, everything=True))
    assert sum(len(each.moves) + len(each.members) for each in stories) == 10
    assert sum(each.left_out for each in stories) == 10
    for each in stories:
        each.wrote()
    moves.taken("a", ("orders", 9), "c1", 5, is_kept=False)
    assert [len(each.moves) for each in moves.ripe(5, everything=True)] == [1]


def test_a_record_that_would_be_too_large_has_fewer_moves_and_still_says_who_holds_what() -> None:
    desk = Desk(segment_bytes=8 << 20)
    make_topic(desk, "orders", queues=2_000)
    member = Client(desk, "c" * 255)
    member.beat()
    member.lock(*range(2_000))
    desk.advance(200)
    (record,) = history(desk)
    assert record.members == (member.id,)
    assert record.owners["orders"] == (0,) * 2_000
    assert (len(record.moves), record.left_out) == (500, 1_500)


def test_groups_without_rest_keep_no_other_group_from_being_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.broker.moves_writing._RECORDS_A_TICK", 1)
    desk = opened()
    restless = [Client(desk, f"r{number}", group=f"restless-{number}", ours=False) for number in range(20)]
    member = Client(desk, "c1")
    for turn in range(40):
        for each in restless:
            each.locking((Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ)[turn % 2], [0])
        if turn == 1:
            member.beat()
        desk.advance(100)
    assert history(desk)
