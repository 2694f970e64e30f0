"""A server may send anything: a question still has one outcome, and nothing raises."""

from itertools import islice

import pytest

from steelyard.balance.group import actions
from steelyard.balance.group.actions import Action
from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage
from steelyard.protocol.member_protocol import MemberProtocol
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import RESPONSE_FLAG, Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames
from tests.protocol.broker_dialogue import BROKER, nothing_held, options, q
from tests.protocol.test_member_protocol import QUESTIONS

ANSWERS: dict[int, type[Action]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: actions.QueryRoute,
    Code.HEART_BEAT: actions.SendHeartbeat,
    Code.GET_BROKER_RUNTIME_INFO: actions.QueryUptime,
    Code.GET_CONSUMER_LIST_BY_GROUP: actions.QueryMemberList,
    Code.GET_CONSUMER_RUNNING_INFO: actions.ProbeOwnership,
    Code.LOCK_BATCH_MQ: actions.LockQueues,
    Code.UNLOCK_BATCH_MQ: actions.UnlockQueues,
    Code.QUERY_CONSUMER_OFFSET: actions.QueryStartOffset,
    Code.PULL_MESSAGE: actions.PullMessages,
    Code.CONSUMER_SEND_MSG_BACK: actions.SendBackMessage,
}
BY_KIND = {type(action): action for action, _ in QUESTIONS}

_LIST = (
    b'{"consumerIdList":["a","b"],"steelyard":{"epoch":3,"findings":[{"kind":"k","message":"h"}],'
    b'"members":[{"id":"a","leaving":false,'
    b'"ours":true,"strategy":"sticky","topics":["t"]}],"owners":{"t":[0,1,-1]},"queues":{"t":3},"settled":true}}'
)
_LOCKS = (
    b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}],"steelyard":{"denied":'
    b'[["orders",1,"a"]],"epochs":[7],"v":1}}'
)
_RUNNING = (
    b'{"mqTable":{},"properties":{},"statusTable":{},"steelyard":{"departed":{"a":1},"draining":[["t","b",1]],'
    b'"held":[["t","b",0]],"v":1,"wanted":[]},"subscriptionSet":[]}'
)
OURS = (_LIST, _LOCKS, _RUNNING)


def answers_of(kind: type[Action]) -> list[Command]:
    """Return recorded answers to a kind of question, and ours."""
    found = [_read(each.frame) for each in golden_frames() if each.is_answer and ANSWERS.get(each.request_code) is kind]
    return found + [Command(0, {"offset": "4"}, body, flag=RESPONSE_FLAG) for body in OURS]


def _read(frame: bytes) -> Command:
    (command,) = FrameDecoder().feed(frame)
    return command


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ANSWERS.values())
def test_a_broken_answer_is_one_outcome(kind: type[Action]) -> None:
    action = BY_KIND[kind]
    corpus = [encode_frame(Command(a.code, a.fields, a.body, 1, RESPONSE_FLAG, a.remark)) for a in answers_of(kind)]
    received = 0
    for frame in islice(mutations(corpus, seed=5), rounds()):
        try:
            commands = list(FrameDecoder().feed(frame))
        except SteelyardError:
            continue
        member_protocol = MemberProtocol(options(), "i")
        outgoing = member_protocol.encode(action, 0)
        assert outgoing is not None
        outcomes = 0
        for command in commands:
            meant = member_protocol.decode(outgoing.server, command, 1, nothing_held)
            outcomes += len(meant.events) + len(meant.requests)
        received += outcomes
        assert outcomes <= max(1, len(commands))
        assert outcomes + len(member_protocol.expire(1 << 40).events) >= 1
    assert received


@pytest.mark.fuzz
def test_a_broken_request_is_refused_or_passed_over() -> None:
    asked = [each.frame for each in golden_frames() if not each.is_answer and each.request_code in (40, 220, 307, 309)]
    member_protocol = MemberProtocol(options(), "i")
    for frame in islice(mutations(asked, seed=6), rounds()):
        try:
            commands = list(FrameDecoder().feed(frame))
        except SteelyardError:
            continue
        for command in commands:
            received = member_protocol.decode(BROKER, command, 0, nothing_held)
            assert len(received.replies) <= 1


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_the_answers_of_real_apache_brokers_are_understood(release: str) -> None:
    seen: set[str] = set()
    for each in golden_frames():
        kind = ANSWERS.get(each.request_code)
        if not each.is_answer or kind is None or each.release != release:
            continue
        answer = _read(each.frame)
        member_protocol = MemberProtocol(options(), "i")
        outgoing = member_protocol.encode(BY_KIND[kind], 0)
        assert outgoing is not None
        command = Command(
            answer.code, answer.fields, answer.body, outgoing.command.opaque, RESPONSE_FLAG, answer.remark
        )
        received = member_protocol.decode(outgoing.server, command, 1, nothing_held)
        if answer.code in (0, 19, 20, 21, 17) or (kind is actions.QueryStartOffset and answer.code == 22):
            assert received.requests or not type(received.events[0]).__name__.endswith("Failed"), str(each)
            seen.add(kind.__name__)
    assert seen == {kind.__name__ for kind in ANSWERS.values()}


def test_apaches_error_for_no_members_is_an_empty_list() -> None:
    for each in golden_frames():
        answer = _read(each.frame)
        if each.is_answer and each.request_code == Code.GET_CONSUMER_LIST_BY_GROUP and answer.code == 1:
            member_protocol = MemberProtocol(options(), "i")
            outgoing = member_protocol.encode(actions.QueryMemberList(BROKER), 0)
            assert outgoing is not None
            command = Command(1, {}, b"", outgoing.command.opaque, RESPONSE_FLAG, answer.remark)
            (seen,) = member_protocol.decode(BROKER, command, 1, nothing_held).events
            assert type(seen).__name__ == "MemberListReceived"


def test_a_huge_table_of_owners_or_holders_is_read_or_refused() -> None:
    body = b'{"consumerIdList":["a"],"steelyard":{"owners":{"t":[' + b",".join([b"0"] * 100_000) + b"]}}}"
    member_protocol = MemberProtocol(options(), "i")
    outgoing = member_protocol.encode(actions.QueryMemberList(BROKER), 0)
    assert outgoing is not None
    assert member_protocol.decode(
        BROKER, Command(0, {}, body, outgoing.command.opaque, RESPONSE_FLAG), 1, nothing_held
    ).events


def test_a_message_that_is_none_is_our_own_fault_and_reports_it() -> None:
    member_protocol = MemberProtocol(options(), "i")
    with pytest.raises(SteelyardError, match="cannot be sent back"):
        member_protocol.encode(actions.SendBackMessage(q(), 1, 0, "not a message"), 0)
    assert member_protocol.encode(actions.SendBackMessage(q(), 1, 0, StoredMessage(q(), 0, b"")), 0) is not None
