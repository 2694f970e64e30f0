"""A pull goes where the last response suggested: to a slave, else to the master."""

from steelyard.balance.group.actions import PullMessages
from steelyard.balance.group.events import PullFailed
from steelyard.protocol.member_protocol import MemberProtocol, OutgoingCommand
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE_FLAG, Command
from steelyard.wire.headers.pull import PullMessageResponse
from tests.protocol.broker_dialogue import BROKER, nothing_held, options, q


def _pull(member_protocol: MemberProtocol, queue_id: int = 0, now_ms: int = 0) -> OutgoingCommand:
    outgoing = member_protocol.encode(PullMessages(q(queue_id), 3, 0), now_ms)
    assert outgoing is not None
    return outgoing


def _answer(
    member_protocol: MemberProtocol, outgoing: OutgoingCommand, broker_id: int, code: int = ResponseCode.PULL_NOT_FOUND
) -> None:
    answer = Command(code, PullMessageResponse(broker_id, 0, 0, 0), b"", outgoing.command.opaque, RESPONSE_FLAG)
    assert member_protocol.decode(BROKER, answer, 0, nothing_held).events


def test_a_suggestion_counts_for_its_queue_until_the_next_answer() -> None:
    member_protocol = MemberProtocol(options(), "i")
    _answer(member_protocol, _pull(member_protocol), 1)
    outgoing = _pull(member_protocol)
    assert (outgoing.broker_id, _pull(member_protocol, 1).broker_id) == (1, 0)
    _answer(member_protocol, outgoing, 0)
    assert _pull(member_protocol).broker_id == 0


def test_what_a_slave_did_not_answer_is_asked_of_the_master() -> None:
    member_protocol = MemberProtocol(options(), "i")
    _answer(member_protocol, _pull(member_protocol), 1)
    outgoing = _pull(member_protocol)
    assert member_protocol.undelivered(outgoing) == [PullFailed(q(), 3)]
    assert _pull(member_protocol).broker_id == 0
    _answer(member_protocol, _pull(member_protocol, 2), 1)
    _pull(member_protocol, 2, now_ms=0)
    member_protocol.expire(60_000)
    assert _pull(member_protocol, 2).broker_id == 0


def test_an_offset_out_of_range_is_for_the_master_to_correct() -> None:
    member_protocol = MemberProtocol(options(), "i")
    _answer(member_protocol, _pull(member_protocol), 1)
    _answer(member_protocol, _pull(member_protocol), 1, ResponseCode.PULL_OFFSET_MOVED)
    assert _pull(member_protocol).broker_id == 0


def test_a_slave_gets_a_heartbeat_that_claims_nothing() -> None:
    beat = MemberProtocol(options(), "i").slave_heartbeat(BROKER)
    assert beat.code == RequestCode.HEART_BEAT
    assert b'"subscriptionDataSet"' in beat.body
