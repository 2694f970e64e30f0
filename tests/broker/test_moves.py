"""The history of moves: of each queue that changes hands it is kept from whom to whom, how long that took, and why."""

from tests.broker.client import GROUP, Client, view
from tests.broker.desk import START_MS, Desk
from tests.broker.reader import make_topic

from steelyard.broker.options import BrokerOptions
from steelyard.model.names import MOVES_TOPIC
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.common import TopicName
from steelyard.wire.moves import MemberChange, MoveLine, MovesRecord, read_moves

OPTIONS = BrokerOptions()
QUIET_MS = 200


def opened(options: BrokerOptions | None = None) -> Desk:
    """Open a broker with a topic of four queues."""
    desk = Desk(options)
    make_topic(desk, "orders", queues=4)
    return desk


def history(desk: Desk, group: str = GROUP) -> list[MovesRecord]:
    """Return what was written down of a group."""
    found = [read_moves(record.body) for record in desk.queue(MOVES_TOPIC)]
    assert None not in found
    return [each for each in found if each is not None and each.group == group]


def marks(record: MovesRecord) -> list[tuple[str, str]]:
    """Return who came and went."""
    return [(change.member, change.what) for change in record.changed]


def moves(desk: Desk) -> list[MoveLine]:
    """Return all moves that were written down."""
    return [move for record in history(desk) for move in record.moves]


def in_short(lines: list[MoveLine]) -> list[tuple[int, str | None, str | None, int | None, str, str]]:
    """Return what matters of the moves of the topic."""
    found = [each for each in lines if each.topic == "orders"]
    return [(each.queue, each.before, each.after, each.gap_ms, each.kind, each.why) for each in found]


def pair(desk: Desk) -> tuple[Client, Client]:
    """Let a member take all queues and come to rest, and another one join."""
    first, second = Client(desk, "c1"), Client(desk, "c2")
    first.beat()
    first.lock(0, 1, 2, 3)
    first.lock(0, topic=f"%RETRY%{GROUP}")
    desk.advance(2_000)
    second.beat()
    return first, second


def test_the_first_to_take_a_queue_takes_it_from_nobody() -> None:
    desk = opened()
    member = Client(desk, "c1")
    member.beat()
    member.lock(0, 1, 2, 3)
    assert history(desk) == []
    desk.advance(QUIET_MS)
    (record,) = history(desk)
    assert (record.version, record.broker, record.members) == (1, "broker-0", ("c1",))
    assert record.changed == (MemberChange("c1", "joined", START_MS),)
    assert record.owners["orders"] == (0, 0, 0, 0)
    assert in_short(list(record.moves)) == [(queue, None, "c1", None, "first", "c1 joined") for queue in range(4)]


def test_a_planned_hand_over_is_one_move_with_its_gap_and_the_reason() -> None:
    desk = opened()
    first, second = pair(desk)
    first.unlock(2, 3)
    desk.now_ms += 7
    second.lock(2, 3)
    desk.advance(QUIET_MS)
    record = history(desk)[-1]
    assert marks(record) == [("c2", "joined")]
    assert record.owners["orders"] == (0, 0, 1, 1)
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 7, "given up", "c2 joined") for queue in (2, 3)]


def test_a_queue_that_is_free_for_long_is_told_when_it_gets_free_and_when_it_is_taken() -> None:
    desk = opened()
    first, second = pair(desk)
    first.unlock(3)
    desk.advance(QUIET_MS)
    assert history(desk)[-1].owners["orders"] == (0, 0, 0, -1)
    desk.advance(800)
    second.lock(3)
    desk.advance(QUIET_MS)
    assert history(desk)[-1].owners["orders"] == (0, 0, 0, 1)
    assert in_short(moves(desk)[-2:]) == [
        (3, "c1", None, None, "given up", "c2 joined"),
        (3, "c1", "c2", 1_000, "given up", "c2 joined"),
    ]


def test_who_says_goodbye_left() -> None:
    desk = opened()
    first, second = pair(desk)
    first.leave()
    second.lock(0)
    desk.advance(QUIET_MS)
    record = history(desk)[-1]
    assert record.members == ("c2",)
    assert marks(record) == [("c2", "joined"), ("c1", "left")]
    assert in_short(list(record.moves))[0] == (0, "c1", "c2", 0, "left", "c1 left")
    assert in_short(list(record.moves))[1] == (1, "c1", None, None, "left", "c1 left")


def test_who_hands_over_before_it_goes_left_too() -> None:
    desk = opened()
    first, second = pair(desk)
    desk.advance(QUIET_MS)
    first.beat(leaving=True)
    first.unlock(0, 1, 2, 3)
    second.lock(0, 1, 2, 3)
    first.leave()
    desk.advance(QUIET_MS)
    record = history(desk)[-1]
    assert marks(record) == [("c1", "leaving"), ("c1", "left")]
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 0, "left", "c1 left") for queue in range(4)]


def test_whose_line_closed_is_gone_and_its_queues_are_lost() -> None:
    desk = opened()
    first, second = pair(desk)
    desk.advance(QUIET_MS)
    first.close()
    desk.advance(OPTIONS.line_grace_ms)
    desk.now_ms += 20
    second.lock(0, 1, 2, 3)
    desk.advance(QUIET_MS)
    record = history(desk)[-1]
    assert marks(record) == [("c1", "gone")]
    why = "c1 is gone: its line closed"
    assert in_short(list(record.moves)) == [(queue, "c1", "c2", 20, "lost", why) for queue in range(4)]


def test_what_is_handled_in_order_is_lost_when_its_grace_is_over() -> None:
    desk = opened()
    first, second = Client(desk, "c1"), Client(desk, "c2")
    for member in (first, second):
        member.beat()
    first.lock(0, lease=False)
    first.close()
    desk.advance(OPTIONS.line_grace_ms + OPTIONS.order_grace_ms)
    second.lock(0, lease=False)
    desk.advance(QUIET_MS)
    assert in_short(moves(desk)[-1:]) == [(0, "c1", "c2", 0, "lost", "c1 is gone: its line closed")]


def test_who_falls_silent_is_gone_and_it_is_said_for_how_long() -> None:
    desk = opened()
    _, second = pair(desk)
    for _ in range(5):
        desk.advance(3_000, step_ms=500)
        second.beat()
    second.lock(0)
    desk.advance(QUIET_MS)
    assert "c1 is gone: it was silent for 12 s" in {move.why for move in moves(desk)}


def test_a_lock_of_java_that_is_not_renewed_expires() -> None:
    desk = opened()
    first, second = Client(desk, "j1", ours=False), Client(desk, "j2", ours=False)
    for member in (first, second):
        member.beat()
    first.lock(0)
    desk.advance(OPTIONS.java_lock_ms + 250, step_ms=20_050)
    second.lock(0)
    desk.advance(QUIET_MS)
    assert in_short(moves(desk)[-1:]) == [(0, "j1", "j2", 250, "expired", "j1 did not renew its lock")]


def test_of_a_group_that_locks_nothing_only_who_came_and_went_is_known() -> None:
    desk = opened()
    member = Client(desk, "j1", ours=False)
    member.beat()
    desk.advance(QUIET_MS)
    member.leave()
    desk.advance(40_000)
    told = [(record.members, marks(record), record.owners, record.moves) for record in history(desk)]
    assert told == [
        (("j1",), [("j1", "joined")], {}, ()),
        ((), [("j1", "left")], {}, ()),
    ]


def test_who_goes_on_after_a_restart_has_not_moved() -> None:
    desk = opened()
    first, _ = pair(desk)
    desk.advance(QUIET_MS)
    held = first.renew(dict.fromkeys(range(4), -1))
    before = len(history(desk))
    desk.restart()
    first.reconnect(held={"orders": tuple(held.items())})
    desk.advance(5_000)
    later = history(desk)[before:]
    assert [(marks(record), record.moves, record.rebalance) for record in later] == [([("c1", "back")], (), None)]
    assert later[0].owners["orders"] == (0, 0, 0, 0)
    assert desk.state.moves.totals[GROUP].kept == 4


def test_what_nobody_claims_after_a_restart_is_taken_because_of_it() -> None:
    desk = opened()
    _, second = pair(desk)
    desk.restart()
    second.reconnect()
    desk.advance(OPTIONS.settle_ms)
    second.lock(0)
    desk.advance(QUIET_MS)
    assert in_short(moves(desk)[-1:]) == [(0, None, "c2", None, "first", "the broker was restarted")]


def test_the_history_outlives_a_crash_and_a_close_writes_what_is_left() -> None:
    desk = opened()
    first, second = pair(desk)
    first.unlock(0)
    second.lock(0)
    desk.restart()
    assert in_short(moves(desk)[-1:]) == [(0, "c1", "c2", 0, "given up", "c2 joined")]
    known = history(desk)
    desk.crash()
    assert history(desk) == known


def test_queues_that_are_added_are_a_reason() -> None:
    desk = opened()
    first, _ = pair(desk)
    desk.advance(3_000)
    make_topic(desk, "orders", queues=6)
    desk.advance(600)
    first.lock(4, 5)
    desk.advance(QUIET_MS)
    assert {move.why for move in moves(desk) if move.queue > 3} == {"2 queues were added to orders"}


def test_what_is_given_up_for_a_topic_that_is_gone_says_so() -> None:
    desk = opened()
    first, _ = pair(desk)
    desk.advance(QUIET_MS)
    desk.ask(Code.DELETE_TOPIC_IN_BROKER, TopicName("orders"))
    first.unlock(0)
    desk.advance(QUIET_MS)
    assert in_short(moves(desk)[-1:]) == [(0, "c1", None, None, "topic gone", "topic orders is gone")]


def test_changes_that_come_together_are_one_record_and_a_storm_is_cut_into_several() -> None:
    desk = opened()
    first, second = pair(desk)
    desk.advance(QUIET_MS)
    before = len(history(desk))
    for _ in range(12):
        first.unlock(0)
        second.lock(0)
        second.unlock(0)
        first.lock(0)
        desk.advance(50)
    desk.advance(QUIET_MS)
    later = history(desk)[before:]
    assert len(later) == 2
    assert sum(len(record.moves) for record in later) == 24


def test_a_group_at_rest_tells_how_long_it_took_and_how_much_had_to_move() -> None:
    desk = opened()
    first, second = pair(desk)
    began_ms = desk.now_ms
    desk.advance(300)
    first.unlock(2, 3)
    desk.now_ms += 5
    second.lock(2, 3)
    ended_ms = desk.now_ms
    desk.advance(2_000)
    first_line, line = [record.rebalance for record in history(desk) if record.rebalance is not None]
    assert (first_line.moved, first_line.least) == (0, 0)
    assert (line.began_ms, line.ended_ms, line.moved, line.least) == (began_ms, ended_ms, 2, 2)
    totals = desk.state.moves.totals[GROUP]
    assert (totals.rebalances, dict(totals.moves), totals.gap_ms.sum, totals.duration_ms.total) == (
        2,
        {"given up": 2},
        10,
        2,
    )


def test_nothing_is_written_where_that_is_not_wanted_but_it_is_counted() -> None:
    desk = opened(BrokerOptions(keep_moves=False))
    first, second = pair(desk)
    first.unlock(0)
    second.lock(0)
    desk.advance(3_000)
    assert desk.state.topics.get(MOVES_TOPIC) is None
    assert desk.queue(MOVES_TOPIC) == []
    assert dict(desk.state.moves.totals[GROUP].moves) == {"given up": 1}


def test_the_topic_belongs_to_the_broker() -> None:
    desk = opened()
    name = TopicName(MOVES_TOPIC)
    assert desk.ask(Code.DELETE_TOPIC_IN_BROKER, name).code != 0
    assert MOVES_TOPIC in desk.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body.decode()
    topic = desk.state.topics[MOVES_TOPIC]
    assert (topic.queues, topic.is_readable, topic.is_writable) == (1, True, False)


def test_the_history_counts_as_nobodys_messages() -> None:
    desk = opened()
    pair(desk)
    desk.advance(QUIET_MS)
    assert history(desk)
    assert desk.state.rates.stored.messages == 0
    assert desk.state.rates.of_topic(MOVES_TOPIC) is None


def test_the_last_record_says_what_the_broker_tells_members() -> None:
    desk = opened()
    first, second = pair(desk)
    first.unlock(1, 3)
    second.lock(3)
    desk.advance(QUIET_MS)
    assert history(desk)[-1].owners == view(desk).owners
    assert START_MS <= history(desk)[-1].at_ms <= desk.now_ms
