"""Transactions: a half message is invisible, ends once, and a forgotten one is checked with its producer."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.disk import ProcessDied
from steelyard.broker.options import BrokerOptions
from steelyard.broker.producer_registry import RegisteredProducer
from steelyard.wire.command import Command, Peer
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.admin import ResumeCheckHalfMessage
from steelyard.wire.headers.send import CheckTransactionState, EndTransaction, SendMessageResponse
from steelyard.wire.message_ids import parse_offset_id
from steelyard.wire.properties import decode_properties
from steelyard.wire.record import decode_record
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.golden_frames import golden_frames

_HALVES, _OPS, _UNRESOLVED = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
_COMMIT, _ROLL_BACK = 8, 12
_ROUND_MS = 30_000


def _begin(harness: BrokerHarness, body: bytes = b"paid", extra: str = "", queue_id: int = 2) -> EndTransaction:
    """Send a half, and return its commit."""
    text = f"TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01U-{body.decode()}\x02TAGS\x01T\x02{extra}"
    header = message(properties=text, queue_id=queue_id, sys_flag=4, born_ms=harness.now_ms)
    answer = harness.request(310, header, body)
    assert answer.code == 0, answer.remark
    fields = answer.header(SendMessageResponse)
    assert fields.queue_id == queue_id
    return EndTransaction(
        "shop", fields.queue_offset, parse_offset_id(fields.msg_id)[1], _COMMIT, fields.transaction_id or "", False
    )


def _end(harness: BrokerHarness, commit: EndTransaction, what: int = _COMMIT, *, asked: bool = False) -> Command:
    return harness.request(
        37,
        EndTransaction(
            commit.producer_group, commit.tran_state_table_offset, commit.commit_log_offset, what, commit.msg_id, asked
        ),
    )


def _producer(harness: BrokerHarness, group: str = "shop") -> Peer:
    peer = harness.connect()
    harness.state.producers.register(
        group, RegisteredProducer("127.0.0.1@p", peer, "JAVA", 513, harness.now_ms + 10**9)
    )
    return peer


def _bodies(harness: BrokerHarness, topic: str = "orders") -> list[bytes]:
    return [record.body for record in harness.topic(topic)]


def _asked(harness: BrokerHarness, peer: Peer) -> list[EndTransaction]:
    """Return commits of the halves that a producer was asked about."""
    questions = [command for command in harness.sent_to(peer) if command.code == 39]
    fields = [command.header(CheckTransactionState) for command in questions]
    return [
        EndTransaction("shop", each.tran_state_table_offset, each.commit_log_offset, _COMMIT, each.msg_id or "", True)
        for each in fields
    ]


def test_a_half_waits_where_nobody_sees_it() -> None:
    harness = BrokerHarness()
    _begin(harness)
    assert harness.topic("orders") == []
    (half,) = harness.queue(_HALVES)
    properties = decode_properties(half.properties)
    assert half.sys_flag & 0xC == 0
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "2")
    assert properties["__transactionId__"] == properties["UNIQ_KEY"] == "U-paid"


def test_a_commit_shows_the_message_and_is_written_down() -> None:
    harness = BrokerHarness()
    harness.request(310, message(), b"first")
    commit = _begin(harness)
    harness.now_ms += 50
    assert _end(harness, commit).code == 0
    (record,) = harness.queue("orders", 2)
    properties = decode_properties(record.properties)
    assert (record.body, record.sys_flag & 0xC, record.prepared_offset) == (b"paid", 8, commit.commit_log_offset)
    assert (record.born_ms, record.stored_ms) == (START_MS, START_MS + 50)
    assert {"REAL_TOPIC", "REAL_QID"}.isdisjoint(properties)
    assert properties["TRAN_MSG"] == "true", "by which consumers know that the message has a transaction's id"
    assert (properties["PGROUP"], properties["TAGS"], properties["UNIQ_KEY"]) == ("shop", "T", "U-paid")
    (op,) = harness.queue(_OPS)
    assert (op.body, decode_properties(op.properties)["TAGS"]) == (b"0,", "d")


def test_a_rollback_shows_nothing_and_is_written_down() -> None:
    harness = BrokerHarness()
    assert _end(harness, _begin(harness), _ROLL_BACK).code == 0
    assert harness.topic("orders") == []
    assert [op.body for op in harness.queue(_OPS)] == [b"0,"]


def test_an_end_that_is_not_known_yet_is_not_answered() -> None:
    harness = BrokerHarness()
    commit = _begin(harness)
    opaque = harness.send(37, EndTransaction("shop", 0, commit.commit_log_offset, 0, "U"))
    assert harness.pop_response(opaque) is None
    assert harness.topic(_OPS) == []


@pytest.mark.parametrize("end", [None, "restart", "crash"])
@pytest.mark.parametrize("first", [_COMMIT, _ROLL_BACK])
def test_a_transaction_ends_once(first: int, end: str | None) -> None:
    harness = BrokerHarness()
    commit = _begin(harness)
    _end(harness, commit, first)
    before = _bodies(harness)
    if end is not None:
        getattr(harness, end)()
    assert _end(harness, commit, first).code == 0
    other = _end(harness, commit, _COMMIT + _ROLL_BACK - first)
    assert other.code == 604
    assert ("committed" if first == _COMMIT else "rolled back") in (other.remark or "")
    assert _bodies(harness) == before
    assert len(harness.topic(_OPS)) == 1


def test_two_ends_in_one_breath_are_one() -> None:
    harness = BrokerHarness()
    commit = _begin(harness)
    first = harness.send(37, commit, flush=False)
    second = harness.send(37, commit, flush=False)
    harness.flush()
    answers = [harness.pop_response(opaque) for opaque in (first, second)]
    assert [answer and answer.code for answer in answers] == [0, 0]
    assert _bodies(harness) == [b"paid"]


def test_an_end_that_the_disk_did_not_take_may_be_tried_again() -> None:
    harness = BrokerHarness()
    commit = _begin(harness)
    harness.disk.fail_next("write", "no_space")
    assert _end(harness, commit).code == 14
    assert _bodies(harness) == []
    assert _end(harness, commit).code == 0
    assert _bodies(harness) == [b"paid"]


def test_an_end_must_name_group_and_both_places() -> None:
    harness = BrokerHarness()
    harness.request(310, message(), b"first")
    commit = _begin(harness)
    wrong = [
        EndTransaction("thief", 0, commit.commit_log_offset, _COMMIT, "U"),
        EndTransaction("shop", 1, commit.commit_log_offset, _COMMIT, "U"),
        EndTransaction("shop", 0, commit.commit_log_offset + 1, _COMMIT, "U"),
        EndTransaction("shop", 0, 0, _COMMIT, "U"),
        EndTransaction("shop", 0, -1, _COMMIT, "U"),
        EndTransaction("shop", 0, commit.commit_log_offset, 5, "U"),
    ]
    assert [harness.request(37, each).code for each in wrong] == [1] * len(wrong)
    assert _bodies(harness) == [b"first"]


def test_an_end_without_an_answer_counts() -> None:
    harness = BrokerHarness()
    harness.send(37, _begin(harness), oneway=True)
    assert harness.sent_to() == []
    assert _bodies(harness) == [b"paid"]


def test_a_committed_message_may_be_delayed() -> None:
    harness = BrokerHarness()
    _end(harness, _begin(harness, b"a", "DELAY\x012\x02"))
    _end(harness, _begin(harness, b"b", "TIMER_DELAY_MS\x011500\x02"))
    harness.advance(1_500)
    assert _bodies(harness) == [b"b"]
    harness.advance(3_500)
    assert _bodies(harness) == [b"b", b"a"]


def test_a_half_cannot_pass_for_the_record_of_another_transaction() -> None:
    harness = BrokerHarness()
    mine = _begin(harness, b"mine")
    thief = _begin(harness, b"thief", "TRAN_PREPARED_QUEUE_OFFSET\x010\x02TRANSACTION_CHECK_TIMES\x0115\x02")
    _end(harness, thief, _ROLL_BACK)
    assert _end(harness, mine).code == 0
    assert _bodies(harness) == [b"mine"]


# -- questions ---------------------------------------------------------------------------------------------------------


def test_a_producer_is_asked_about_a_half_that_it_forgot() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    commit = _begin(harness, queue_id=1)
    harness.advance(_ROUND_MS - 100, step_ms=1_000)
    assert harness.sent_to(peer) == []
    harness.advance(100)
    (question,) = harness.sent_to(peer)
    fields = question.header(CheckTransactionState)
    _, anew = harness.queue(_HALVES)
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
    assert decode_properties(shown.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert fields.offset_msg_id == harness.state.broker_properties.offset_message_id(anew.position)


def test_the_question_has_the_fields_of_a_real_one() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    _begin(harness)
    harness.advance(_ROUND_MS, step_ms=1_000)
    (question,) = harness.sent_to(peer)
    golden = next(each for each in golden_frames() if (each.release, each.code) == ("5.5.0", 39))
    (recorded,) = FrameDecoder().feed(golden.frame)
    assert question.texts().keys() == recorded.texts().keys()
    assert question.flag == recorded.flag


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("end", [None, "restart", "crash"])
def test_an_answer_ends_the_transaction_whichever_record_it_names(late: bool, end: str | None) -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    commit = _begin(harness)
    harness.advance(2 * _ROUND_MS, step_ms=1_000)
    first, second = _asked(harness, peer)
    if end is not None:
        getattr(harness, end)()
    assert _end(harness, commit if late else second, asked=not late).code == 0
    for each in (commit, first, second):
        assert _end(harness, each).code == 0
    peer = _producer(harness)
    harness.advance(3 * _ROUND_MS, step_ms=1_000)
    assert _asked(harness, peer) == []
    assert _bodies(harness) == [b"paid"]


def test_a_half_whose_properties_leave_no_room_for_questions_is_refused_and_not_asked_about_forever() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    codes = set[int]()
    for size in range(32_400, 32_760, 5):
        text = f"TRAN_MSG\x01true\x02PGROUP\x01shop\x02a\x01{'x' * size}\x02"
        codes.add(harness.request(310, message(properties=text, sys_flag=4)).code)
    assert codes == {0, 13}
    harness.advance(_ROUND_MS, step_ms=1_000)
    assert len(_asked(harness, peer)) == len(harness.queue(_HALVES)) // 2


def test_a_fresh_half_is_left_alone() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    harness.advance(_ROUND_MS - 5_000, step_ms=1_000)
    _begin(harness)
    harness.advance(6_000, step_ms=1_000)
    assert harness.sent_to(peer) == []
    harness.advance(_ROUND_MS, step_ms=1_000)
    assert len(_asked(harness, peer)) == 1


def test_a_half_may_say_how_long_it_is_left_alone_and_is_then_ended_by_answers_only() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    commit = _begin(harness, extra="CHECK_IMMUNITY_TIME_IN_SECONDS\x01100\x02")
    harness.advance(3 * _ROUND_MS, step_ms=1_000)
    assert harness.sent_to(peer) == []
    harness.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(harness, peer)
    late = _end(harness, commit)
    assert (late.code, bool(late.remark)) == (604, True)
    assert _end(harness, asked, asked=True).code == 0
    assert _bodies(harness) == [b"paid"]


def test_a_half_is_given_up_after_fifteen_questions_and_can_be_taken_up_again() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    commit = _begin(harness)
    harness.advance(17 * _ROUND_MS, step_ms=5_000)
    assert len(_asked(harness, peer)) == 15
    (given_up,) = harness.queue(_UNRESOLVED)
    assert given_up.body == b"paid"
    late = _end(harness, commit)
    assert (late.code, _UNRESOLVED in (late.remark or "")) == (604, True)
    place = harness.state.broker_properties.offset_message_id(given_up.position)
    for _ in range(2):
        assert harness.request(323, ResumeCheckHalfMessage(topic=_UNRESOLVED, msg_id=place)).code == 0
    harness.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(harness, peer)
    assert _end(harness, asked, asked=True).code == 0
    assert _bodies(harness) == [b"paid"]


@pytest.mark.parametrize(
    "place", ["", "nonsense", "7F00000100002A9F0000000000000000", "7F00000100002A9F00000000FFFFFFFF"]
)
def test_only_a_given_up_message_is_taken_up_again(place: str) -> None:
    harness = BrokerHarness()
    _begin(harness)
    assert harness.request(323, ResumeCheckHalfMessage(topic=_UNRESOLVED, msg_id=place)).code == 1
    assert len(harness.queue(_HALVES)) == 1


def test_a_transaction_waits_for_its_producer_and_is_given_up_after_a_day() -> None:
    harness = BrokerHarness()
    harness.tick()
    _begin(harness)
    harness.advance(3_600_000, step_ms=_ROUND_MS)
    assert (len(harness.queue(_HALVES)), harness.topic(_UNRESOLVED)) == (1, [])
    peer = _producer(harness)
    harness.advance(_ROUND_MS, step_ms=_ROUND_MS)
    assert len(_asked(harness, peer)) == 1
    harness.disconnect(peer)
    harness.advance(25 * 3_600_000, step_ms=60_000)
    assert len(harness.queue(_UNRESOLVED)) == 1


def test_questions_of_a_round_are_spread_over_ticks() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    harness.tick()
    for number in range(7):
        _begin(harness, b"%d" % number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.broker.transaction_checks._CHECKS_PER_TICK", 3)
        harness.advance(_ROUND_MS, step_ms=_ROUND_MS)
        counts = [len(_asked(harness, peer))]
        for _ in range(3):
            harness.tick()
            counts.append(len(_asked(harness, peer)))
    assert counts == [3, 3, 1, 0]


# -- starts ------------------------------------------------------------------------------------------------------------


def _die(*_: object) -> None:
    raise ProcessDied


def test_a_commit_whose_end_was_not_written_is_found_after_a_crash() -> None:
    harness = BrokerHarness()
    peer = _producer(harness)
    commit = _begin(harness)
    with pytest.MonkeyPatch.context() as patch:
        # The lights go out between the message and the record of the end.
        patch.setattr("steelyard.broker.requests.transactions.write_outcome", _die)
        with pytest.raises(ProcessDied):
            harness.send(37, commit)
    harness.flush()
    assert _bodies(harness) == [b"paid"]
    harness.crash()
    assert _end(harness, commit).code == 0
    peer = _producer(harness)
    harness.advance(3 * _ROUND_MS, step_ms=1_000)
    assert _asked(harness, peer) == []
    assert _bodies(harness) == [b"paid"]


def test_an_end_that_was_lost_with_the_power_leaves_the_transaction_open() -> None:
    harness = BrokerHarness()
    commit = _begin(harness)
    harness.sync()
    _end(harness, commit)
    harness.tick()
    harness.save(everything=True)
    harness.lose_power()
    assert _bodies(harness) == []
    peer = _producer(harness)
    harness.tick()
    harness.advance(_ROUND_MS, step_ms=1_000)
    (asked,) = _asked(harness, peer)
    _end(harness, asked, asked=True)
    assert _bodies(harness) == [b"paid"]


def test_a_start_reads_on_where_all_before_is_resolved() -> None:
    harness = BrokerHarness()
    for number in range(5):
        _end(harness, _begin(harness, b"%d" % number))
    _begin(harness, b"open")
    harness.tick()
    harness.sync()
    harness.tick()
    group = "CID_RMQ_SYS_TRANS"
    assert (harness.state.offsets.get(group, _HALVES, 0), harness.state.offsets.get(group, _OPS, 0)) == (5, 5)
    harness.restart()
    harness.tick()
    assert [half.offset for half in harness.state.half_messages.open.values()] == [5]


def test_too_many_open_transactions_are_refused() -> None:
    harness = BrokerHarness()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steelyard.broker.half_messages.MAX_OPEN", 2)
        commits = [_begin(harness, b"%d" % number) for number in range(2)]
        harness.tick()
        refused = harness.request(310, message(properties="TRAN_MSG\x01true\x02PGROUP\x01shop\x02", sys_flag=4))
        assert refused.code == 2
        _end(harness, commits[0])
        harness.tick()
        _begin(harness, b"more")


def test_the_answer_waits_for_the_disk_on_a_careful_broker() -> None:
    harness = BrokerHarness(BrokerOptions(flush="sync"))
    text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01U\x02"
    harness.send(310, message(properties=text, sys_flag=4), b"paid")
    opaque = harness.send(37, EndTransaction("shop", 0, 0, _COMMIT, "U"))
    assert harness.pop_response(opaque) is None
    harness.sync()
    assert harness.pop_response(opaque) is not None


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
    harness = BrokerHarness(segment_bytes=1 << 16)
    begun: list[EndTransaction] = []
    ended: dict[int, int] = {}
    peer = _producer(harness)
    for what, number in steps:
        if what == "begin":
            begun.append(_begin(harness, b"%d" % len(begun), "DELAY\x012\x02" if is_delayed else ""))
        elif what in ("commit", "roll back") and number < len(begun):
            end = _COMMIT if what == "commit" else _ROLL_BACK
            first = ended.setdefault(number, end)
            assert _end(harness, begun[number], end).code == (0 if first == end else 604)
        elif what == "time":
            harness.advance(number, step_ms=5_000)
            # In a minute the same may be asked twice before it is answered: the last question counts.
            for asked in {asked.msg_id: asked for asked in _asked(harness, peer)}.values():
                # Every second question is answered, with a commit.
                transaction = int(asked.msg_id.removeprefix("U-"))
                if transaction % 2:
                    assert transaction not in ended
                    ended[transaction] = _COMMIT
                    _end(harness, asked, asked=True)
        elif what in ("restart", "crash"):
            getattr(harness, what)()
            peer = _producer(harness)
        elif what == "sync":
            harness.sync()
        elif what == "save":
            harness.save(everything=True)
    harness.advance(6_000)
    committed = [b"%d" % number for number, end in ended.items() if end == _COMMIT]
    assert Counter(_bodies(harness)) == Counter(committed)
