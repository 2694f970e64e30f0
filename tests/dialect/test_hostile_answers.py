"""A server may send anything: a question still has one outcome, and nothing raises."""

from itertools import islice

import pytest
from tests.dialect.talk import BROKER, nothing_held, options, q
from tests.dialect.test_voice import QUESTIONS
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames

from steelyard.balance import actions
from steelyard.balance.actions import Action
from steelyard.dialect.voice import Voice
from steelyard.errors import SteelyardError
from steelyard.model import StoredMessage
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.frames import Splitter, encode_frame

ANSWERS: dict[int, type[Action]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: actions.AskRoute,
    Code.HEART_BEAT: actions.Heartbeat,
    Code.GET_BROKER_RUNTIME_INFO: actions.AskUptime,
    Code.GET_CONSUMER_LIST_BY_GROUP: actions.AskGroup,
    Code.GET_CONSUMER_RUNNING_INFO: actions.AskHolders,
    Code.LOCK_BATCH_MQ: actions.Lock,
    Code.UNLOCK_BATCH_MQ: actions.Unlock,
    Code.QUERY_CONSUMER_OFFSET: actions.AskOffset,
    Code.PULL_MESSAGE: actions.Pull,
    Code.CONSUMER_SEND_MSG_BACK: actions.SendBack,
}
BY_KIND = {type(action): action for action, _ in QUESTIONS}

_LIST = (
    b'{"consumerIdList":["a","b"],"steelyard":{"epoch":3,"hazards":["h"],"members":[{"id":"a","leaving":false,'
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
    return found + [Command(0, {"offset": "4"}, body, flag=RESPONSE) for body in OURS]


def _read(frame: bytes) -> Command:
    (command,) = Splitter().feed(frame)
    return command


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ANSWERS.values())
def test_a_broken_answer_is_one_outcome(kind: type[Action]) -> None:
    action = BY_KIND[kind]
    corpus = [encode_frame(Command(a.code, a.fields, a.body, 1, RESPONSE, a.remark)) for a in answers_of(kind)]
    heard = 0
    for frame in islice(mutations(corpus, seed=5), rounds()):
        try:
            commands = list(Splitter().feed(frame))
        except SteelyardError:
            continue
        voice = Voice(options(), "i")
        said = voice.say(action, 0)
        assert said is not None
        outcomes = 0
        for command in commands:
            meant = voice.hear(said.to, command, 1, nothing_held)
            outcomes += len(meant.events) + len(meant.says)
        heard += outcomes
        assert outcomes <= max(1, len(commands))
        assert outcomes + len(voice.tick(1 << 40).events) >= 1
    assert heard


@pytest.mark.fuzz
def test_a_broken_request_is_refused_or_passed_over() -> None:
    asked = [each.frame for each in golden_frames() if not each.is_answer and each.request_code in (40, 220, 307, 309)]
    voice = Voice(options(), "i")
    for frame in islice(mutations(asked, seed=6), rounds()):
        try:
            commands = list(Splitter().feed(frame))
        except SteelyardError:
            continue
        for command in commands:
            heard = voice.hear(BROKER, command, 0, nothing_held)
            assert len(heard.replies) <= 1


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_the_answers_of_real_apache_brokers_are_understood(release: str) -> None:
    seen: set[str] = set()
    for each in golden_frames():
        kind = ANSWERS.get(each.request_code)
        if not each.is_answer or kind is None or each.release != release:
            continue
        answer = _read(each.frame)
        voice = Voice(options(), "i")
        said = voice.say(BY_KIND[kind], 0)
        assert said is not None
        command = Command(answer.code, answer.fields, answer.body, said.command.opaque, RESPONSE, answer.remark)
        heard = voice.hear(said.to, command, 1, nothing_held)
        if answer.code in (0, 19, 20, 21, 17) or (kind is actions.AskOffset and answer.code == 22):
            assert heard.says or not type(heard.events[0]).__name__.endswith("Failed"), str(each)
            seen.add(kind.__name__)
    assert seen == {kind.__name__ for kind in ANSWERS.values()}


def test_apaches_list_of_nobody_is_an_empty_list() -> None:
    for each in golden_frames():
        answer = _read(each.frame)
        if each.is_answer and each.request_code == Code.GET_CONSUMER_LIST_BY_GROUP and answer.code == 1:
            voice = Voice(options(), "i")
            said = voice.say(actions.AskGroup(BROKER), 0)
            assert said is not None
            command = Command(1, {}, b"", said.command.opaque, RESPONSE, answer.remark)
            (seen,) = voice.hear(BROKER, command, 1, nothing_held).events
            assert type(seen).__name__ == "GroupSeen"


def test_a_huge_table_of_owners_or_holders_is_read_or_refused() -> None:
    body = b'{"consumerIdList":["a"],"steelyard":{"owners":{"t":[' + b",".join([b"0"] * 100_000) + b"]}}}"
    voice = Voice(options(), "i")
    said = voice.say(actions.AskGroup(BROKER), 0)
    assert said is not None
    assert voice.hear(BROKER, Command(0, {}, body, said.command.opaque, RESPONSE), 1, nothing_held).events


def test_a_message_that_is_none_is_our_own_fault_and_says_so() -> None:
    voice = Voice(options(), "i")
    with pytest.raises(SteelyardError, match="cannot be given back"):
        voice.say(actions.SendBack(q(), 1, 0, "not a message"), 0)
    assert voice.say(actions.SendBack(q(), 1, 0, StoredMessage(q(), 0, b"")), 0) is not None
