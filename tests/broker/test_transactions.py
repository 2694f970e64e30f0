"""Transactions: a half is seen by nobody, ends once, and whoever forgot it is asked."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.desk import START_MS, Desk, message
from tests.golden_frames import golden_frames

from steelyard.broker.options import BrokerOptions
from steelyard.broker.producers import Producer
from steelyard.sim.disk import ProcessDied
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter
from steelyard.wire.headers.admin import ResumeCheck
from steelyard.wire.headers.send import CheckTransaction, EndTransaction, SendAnswer
from steelyard.wire.message_ids import read_offset_id
from steelyard.wire.peers import Peer
from steelyard.wire.properties import parse_properties
from steelyard.wire.record import decode_record

_HALVES, _OPS, _UNRESOLVED = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
_COMMIT, _ROLL_BACK = 8, 12
_ROUND_MS = 30_000


def _begin(desk: Desk, body: bytes = b"paid", extra: str = "", queue_id: int = 2) -> EndTransaction:
    """Send a half, and return its commit."""
    text = f"TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01U-{body.decode()}\x02TAGS\x01T\x02{extra}"
    header = message(properties=text, queue_id=queue_id, sys_flag=4, born_ms=desk.now_ms)
    answer = desk.ask(310, header, body)
    assert answer.code == 0, answer.remark
    fields = answer.header(SendAnswer)
    assert fields.queue_id == queue_id
    return EndTransaction(
        "shop", fields.queue_offset, read_offset_id(fields.msg_id)[1], _COMMIT, fields.transaction_id or "", False
    )


def _end(desk: Desk, commit: EndTransaction, what: int = _COMMIT, *, asked: bool = False) -> Command:
    return desk.ask(
        37,
        EndTransaction(
            commit.producer_group, commit.tran_state_table_offset, commit.commit_log_offset, what, commit.msg_id, asked
        ),
    )


def _producer(desk: Desk, group: str = "shop") -> Peer:
    line = desk.line()
    desk.state.producers.heard(group, Producer("127.0.0.1@p", line, "JAVA", 513, desk.now_ms + 10**9))
    return line


def _bodies(desk: Desk, topic: str = "orders") -> list[bytes]:
    return [record.body for record in desk.topic(topic)]


def _asked(desk: Desk, line: Peer) -> list[EndTransaction]:
    """Return commits of the halves that a producer was asked about."""
    questions = [command for command in desk.sent_to(line) if command.code == 39]
    fields = [command.header(CheckTransaction) for command in questions]
    return [
        EndTransaction("shop", each.tran_state_table_offset, each.commit_log_offset, _COMMIT, each.msg_id or "", True)
        for each in fields
    ]


def test_a_half_waits_where_nobody_sees_it() -> None:
    desk = Desk()
    _begin(desk)
    assert desk.topic("orders") == []
    (half,) = desk.queue(_HALVES)
    properties = parse_properties(half.properties)
    assert half.sys_flag & 0xC == 0
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "2")
    assert properties["__transactionId__"] == properties["UNIQ_KEY"] == "U-paid"


def test_a_commit_shows_the_message_and_is_written_down() -> None:
    desk = Desk()
    desk.ask(310, message(), b"first")
    commit = _begin(desk)
    desk.now_ms += 50
    assert _end(desk, commit).code == 0
    (record,) = desk.queue("orders", 2)
    properties = parse_properties(record.properties)
    assert (record.body, record.sys_flag & 0xC, record.prepared_offset) == (b"paid", 8, commit.commit_log_offset)
    assert (record.born_ms, record.stored_ms) == (START_MS, START_MS + 50)
    assert {"REAL_TOPIC", "REAL_QID"}.isdisjoint(properties)
    assert properties["TRAN_MSG"] == "true", "by which consumers know that the message has a transaction's id"
    assert (properties["PGROUP"], properties["TAGS"], properties["UNIQ_KEY"]) == ("shop", "T", "U-paid")
    (op,) = desk.queue(_OPS)
    assert (op.body, parse_properties(op.properties)["TAGS"]) == (b"0,", "d")


def test_a_rollback_shows_nothing_and_is_written_down() -> None:
    desk = Desk()
    assert _end(desk, _begin(desk), _ROLL_BACK).code == 0
    assert desk.topic("orders") == []
    assert [op.body for op in desk.queue(_OPS)] == [b"0,"]


def test_an_end_that_is_not_known_yet_is_not_answered() -> None:
    desk = Desk()
    commit = _begin(desk)
    opaque = desk.say(37, EndTransaction("shop", 0, commit.commit_log_offset, 0, "U"))
    assert desk.answer(opaque) is None
    assert desk.topic(_OPS) == []


@pytest.mark.parametrize("end", [None, "restart", "crash"])
@pytest.mark.parametrize("first", [_COMMIT, _ROLL_BACK])
def test_a_transaction_ends_once(first: int, end: str | None) -> None:
    desk = Desk()
    commit = _begin(desk)
    _end(desk, commit, first)
    before = _bodies(desk)
    if end is not None:
        getattr(desk, end)()
    assert _end(desk, commit, first).code == 0
    other = _end(desk, commit, _COMMIT + _ROLL_BACK - first)
    assert other.code == 604
    assert ("committed" if first == _COMMIT else "rolled back") in (other.remark or "")
    assert _bodies(desk) == before
    assert len(desk.topic(_OPS)) == 1


def test_two_ends_in_one_breath_are_one() -> None:
    desk = Desk()
    commit = _begin(desk)
    first = desk.say(37, commit, flush=False)
    second = desk.say(37, commit, flush=False)
    desk.flush()
    answers = [desk.answer(opaque) for opaque in (first, second)]
    assert [answer and answer.code for answer in answers] == [0, 0]
    assert _bodies(desk) == [b"paid"]


def test_an_end_that_the_disk_did_not_take_may_be_tried_again() -> None:
    desk = Desk()
    commit = _begin(desk)
    desk.disk.fail_next("write", "no_space")
    assert _end(desk, commit).code == 14
    assert _bodies(desk) == []
    assert _end(desk, commit).code == 0
    assert _bodies(desk) == [b"paid"]


def test_an_end_must_name_group_and_both_places() -> None:
    desk = Desk()
    desk.ask(310, message(), b"first")
    commit = _begin(desk)
    wrong = [
        EndTransaction("thief", 0, commit.commit_log_offset, _COMMIT, "U"),
        EndTransaction("shop", 1, commit.commit_log_offset, _COMMIT, "U"),
        EndTransaction("shop", 0, commit.commit_log_offset + 1, _COMMIT, "U"),
        EndTransaction("shop", 0, 0, _COMMIT, "U"),
        EndTransaction("shop", 0, -1, _COMMIT, "U"),
        EndTransaction("shop", 0, commit.commit_log_offset, 5, "U"),
    ]
    assert [desk.ask(37, each).code for each in wrong] == [1] * len(wrong)
    assert _bodies(desk) == [b"first"]


def test_an_end_without_an_answer_counts() -> None:
    desk = Desk()
    desk.say(37, _begin(desk), oneway=True)
    assert desk.sent_to() == []
    assert _bodies(desk) == [b"paid"]


def test_a_committed_message_may_be_delayed() -> None:
    desk = Desk()
    _end(desk, _begin(desk, b"a", "DELAY\x012\x02"))
    _end(desk, _begin(desk, b"b", "TIMER_DELAY_MS\x011500\x02"))
    desk.advance(1_500)
    assert _bodies(desk) == [b"b"]
    desk.advance(3_500)
    assert _bodies(desk) == [b"b", b"a"]


def test_a_half_cannot_pass_for_the_record_of_another_transaction() -> None:
    desk = Desk()
    mine = _begin(desk, b"mine")
    thief = _begin(desk, b"thief", "TRAN_PREPARED_QUEUE_OFFSET\x010\x02TRANSACTION_CHECK_TIMES\x0115\x02")
    _end(desk, thief, _ROLL_BACK)
    assert _end(desk, mine).code == 0
    assert _bodies(desk) == [b"mine"]


# -- questions ---------------------------------------------------------------------------------------------------------


def test_a_producer_is_asked_about_a_half_that_it_forgot() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    commit = _begin(desk, queue_id=1)
    desk.advance(_ROUND_MS - 100, step_ms=1_000)
    assert desk.sent_to(line) == []
    desk.advance(100)
    (question,) = desk.sent_to(line)
    fields = question.header(CheckTransaction)
    _, anew = desk.queue(_HALVES)
    assert (question.code, question.is_oneway) == (39, True)
    assert (fields.tran_state_table_offset, fields.commit_log_offset) == (anew.offset, anew.position)
    assert fields.tran_state_table_offset != commit.tran_state_table_offset
    assert (fields.msg_id, fields.transaction_id, fields.topic, fields.broker) == (
        "U-paid",
        "U-paid",
        _HALVES,
        "broker-0",
    )
    shown = decode_record(question.body, check_crc=True)
    assert (shown.topic, shown.queue_id, shown.body) == (b"orders", 1, b"paid")
    assert (shown.offset, shown.position) == (anew.offset, anew.position)
    assert parse_properties(shown.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert fields.offset_msg_id == desk.state.stamps.place_id(anew.position)


def test_the_question_has_the_fields_of_a_real_one() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    _begin(desk)
    desk.advance(_ROUND_MS, step_ms=1_000)
    (question,) = desk.sent_to(line)
    golden = next(each for each in golden_frames() if (each.release, each.code) == ("5.5.0", 39))
    (recorded,) = Splitter().feed(golden.frame)
    assert question.texts().keys() == recorded.texts().keys()
    assert question.flag == recorded.flag


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("end", [None, "restart", "crash"])
def test_an_answer_ends_the_transaction_whichever_record_it_names(late: bool, end: str | None) -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    commit = _begin(desk)
    desk.advance(2 * _ROUND_MS, step_ms=1_000)
    first, second = _asked(desk, line)
    if end is not None:
        getattr(desk, end)()
    assert _end(desk, commit if late else second, asked=not late).code == 0
    for each in (commit, first, second):
        assert _end(desk, each).code == 0
    line = _producer(desk)
    desk.advance(3 * _ROUND_MS, step_ms=1_000)
    assert _asked(desk, line) == []
    assert _bodies(desk) == [b"paid"]


def test_a_half_whose_properties_leave_no_room_for_questions_is_refused_and_not_asked_about_forever() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    codes = set[int]()
    for size in range(32_400, 32_760, 5):
        text = f"TRAN_MSG\x01true\x02PGROUP\x01shop\x02a\x01{'x' * size}\x02"
        codes.add(desk.ask(310, message(properties=text, sys_flag=4)).code)
    assert codes == {0, 13}
    desk.advance(_ROUND_MS, step_ms=1_000)
    assert len(_asked(desk, line)) == len(desk.queue(_HALVES)) // 2


def test_a_fresh_half_is_left_alone() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    desk.advance(_ROUND_MS - 5_000, step_ms=1_000)
    _begin(desk)
    desk.advance(6_000, step_ms=1_000)
    assert desk.sent_to(line) == []
    desk.advance(_ROUND_MS, step_ms=1_000)
    assert len(_asked(desk, line)) == 1


def test_a_half_may_say_how_long_it_is_left_alone_and_is_then_ended_by_answers_only() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    commit = _begin(desk, extra="CHECK_IMMUNITY_TIME_IN_SECONDS\x01100\x02")
    desk.advance(3 * _ROUND_MS, step_ms=1_000)
    assert desk.sent_to(line) == []
    desk.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(desk, line)
    late = _end(desk, commit)
    assert (late.code, bool(late.remark)) == (604, True)
    assert _end(desk, asked, asked=True).code == 0
    assert _bodies(desk) == [b"paid"]


def test_a_half_is_given_up_after_fifteen_questions_and_can_be_taken_up_again() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    commit = _begin(desk)
    desk.advance(17 * _ROUND_MS, step_ms=5_000)
    assert len(_asked(desk, line)) == 15
    (given_up,) = desk.queue(_UNRESOLVED)
    assert given_up.body == b"paid"
    late = _end(desk, commit)
    assert (late.code, _UNRESOLVED in (late.remark or "")) == (604, True)
    place = desk.state.stamps.place_id(given_up.position)
    for _ in range(2):
        assert desk.ask(323, ResumeCheck(topic=_UNRESOLVED, msg_id=place)).code == 0
    desk.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(desk, line)
    assert _end(desk, asked, asked=True).code == 0
    assert _bodies(desk) == [b"paid"]


@pytest.mark.parametrize(
    "place", ["", "nonsense", "7F00000100002A9F0000000000000000", "7F00000100002A9F00000000FFFFFFFF"]
)
def test_only_a_given_up_message_is_taken_up_again(place: str) -> None:
    desk = Desk()
    _begin(desk)
    assert desk.ask(323, ResumeCheck(topic=_UNRESOLVED, msg_id=place)).code == 1
    assert len(desk.queue(_HALVES)) == 1


def test_a_transaction_waits_for_its_producer_and_is_given_up_after_a_day() -> None:
    desk = Desk()
    desk.tick()
    _begin(desk)
    desk.advance(3_600_000, step_ms=_ROUND_MS)
    assert (len(desk.queue(_HALVES)), desk.topic(_UNRESOLVED)) == (1, [])
    line = _producer(desk)
    desk.advance(_ROUND_MS, step_ms=_ROUND_MS)
    assert len(_asked(desk, line)) == 1
    desk.hang_up(line)
    desk.advance(25 * 3_600_000, step_ms=60_000)
    assert len(desk.queue(_UNRESOLVED)) == 1


def test_questions_of_a_round_are_spread_over_ticks() -> None:
    desk = Desk()
    line = _producer(desk)
    desk.tick()
    for number in range(7):
        _begin(desk, b"%d" % number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.broker.checks._ASKED_A_TICK", 3)
        desk.advance(_ROUND_MS, step_ms=_ROUND_MS)
        counts = [len(_asked(desk, line))]
        for _ in range(3):
            desk.tick()
            counts.append(len(_asked(desk, line)))
    assert counts == [3, 3, 1, 0]


# -- starts ------------------------------------------------------------------------------------------------------------


def _die(*_: object) -> None:
    raise ProcessDied


def test_a_commit_whose_end_was_not_written_is_found_after_a_crash() -> None:
    desk = Desk()
    line = _producer(desk)
    commit = _begin(desk)
    with pytest.MonkeyPatch.context() as patch:
        # The lights go out between the message and the record of the end.
        patch.setattr("steelyard.broker.requests.transactions.write_ending", _die)
        with pytest.raises(ProcessDied):
            desk.say(37, commit)
    desk.flush()
    assert _bodies(desk) == [b"paid"]
    desk.crash()
    assert _end(desk, commit).code == 0
    line = _producer(desk)
    desk.advance(3 * _ROUND_MS, step_ms=1_000)
    assert _asked(desk, line) == []
    assert _bodies(desk) == [b"paid"]


def test_an_end_that_was_lost_with_the_power_leaves_the_transaction_open() -> None:
    desk = Desk()
    commit = _begin(desk)
    desk.sync()
    _end(desk, commit)
    desk.tick()
    desk.save(everything=True)
    desk.lose_power()
    assert _bodies(desk) == []
    line = _producer(desk)
    desk.tick()
    desk.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(desk, line)
    _end(desk, asked, asked=True)
    assert _bodies(desk) == [b"paid"]


def test_a_start_reads_on_where_all_before_is_resolved() -> None:
    desk = Desk()
    for number in range(5):
        _end(desk, _begin(desk, b"%d" % number))
    _begin(desk, b"open")
    desk.tick()
    desk.sync()
    desk.tick()
    group = "CID_RMQ_SYS_TRANS"
    assert (desk.state.offsets.get(group, _HALVES, 0), desk.state.offsets.get(group, _OPS, 0)) == (5, 5)
    desk.restart()
    desk.tick()
    assert [half.offset for half in desk.state.halves.open.values()] == [5]


def test_too_many_open_transactions_are_refused() -> None:
    desk = Desk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.broker.halves.MOST_OPEN", 2)
        commits = [_begin(desk, b"%d" % number) for number in range(2)]
        desk.tick()
        refused = desk.ask(310, message(properties="TRAN_MSG\x01true\x02PGROUP\x01shop\x02", sys_flag=4))
        assert refused.code == 2
        _end(desk, commits[0])
        desk.tick()
        _begin(desk, b"more")


def test_the_answer_waits_for_the_disk_on_a_careful_broker() -> None:
    desk = Desk(BrokerOptions(flush="sync"))
    text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01U\x02"
    desk.say(310, message(properties=text, sys_flag=4), b"paid")
    opaque = desk.say(37, EndTransaction("shop", 0, 0, _COMMIT, "U"))
    assert desk.answer(opaque) is None
    desk.sync()
    assert desk.answer(opaque) is not None


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.just(0)),
        st.tuples(st.sampled_from(["commit", "roll back"]), st.integers(0, 5)),
        st.tuples(st.just("time"), st.integers(1, 60_000)),
        st.tuples(st.sampled_from(["restart", "crash", "sync", "save"]), st.just(0)),
    ),
    max_size=16,
)


@settings(max_examples=80, deadline=None)
@given(_STEPS, st.booleans())
def test_whatever_happens_each_committed_message_is_there_once(steps: list[tuple[str, int]], is_delayed: bool) -> None:
    desk = Desk(segment_bytes=1 << 16)
    begun: list[EndTransaction] = []
    ended: dict[int, int] = {}
    line = _producer(desk)
    for what, number in steps:
        if what == "begin":
            begun.append(_begin(desk, b"%d" % len(begun), "DELAY\x012\x02" if is_delayed else ""))
        elif what in ("commit", "roll back") and number < len(begun):
            end = _COMMIT if what == "commit" else _ROLL_BACK
            first = ended.setdefault(number, end)
            assert _end(desk, begun[number], end).code == (0 if first == end else 604)
        elif what == "time":
            desk.advance(number, step_ms=5_000)
            # In a minute the same may be asked twice before it is answered: the last question counts.
            for asked in {asked.msg_id: asked for asked in _asked(desk, line)}.values():
                # Every second question is answered, with a commit.
                transaction = int(asked.msg_id.removeprefix("U-"))
                if transaction % 2:
                    assert transaction not in ended
                    ended[transaction] = _COMMIT
                    _end(desk, asked, asked=True)
        elif what in ("restart", "crash"):
            getattr(desk, what)()
            line = _producer(desk)
        elif what == "sync":
            desk.sync()
        elif what == "save":
            desk.save(everything=True)
    desk.advance(6_000)
    committed = [b"%d" % number for number, end in ended.items() if end == _COMMIT]
    assert Counter(_bodies(desk)) == Counter(committed)
