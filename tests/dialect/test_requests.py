"""What servers ask of a member is answered; what nobody understands is refused, and nothing ever raises."""

from collections.abc import Sequence

from tests.dialect.talk import BROKER, GROUP, ME, OTHER, nothing_held, options, q

from steelyard.balance.events import MembersChanged, OffsetReset, Poked
from steelyard.balance.holdings import Holdings
from steelyard.dialect.voice import Heard, Voice
from steelyard.model import Queue
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.running import RunningState
from steelyard.wire.codes import OUR_VERSION, HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import ONEWAY, Command, Fields
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.group import AskRunningState, ResetOffset

HOLDINGS = Holdings((q(0), q(1)), (q(1),), (q(2),), {OTHER: 40})


def asked(code: int, fields: Fields | None = None, body: bytes = b"", flag: int = 0, to: str | None = BROKER) -> Heard:
    request = Command(code, fields or {}, body, opaque=91, flag=flag, header_type=HeaderType.BINARY)
    return Voice(options(), "i").hear(to, request, 5, lambda _: HOLDINGS)


def test_a_notice_is_heard_if_it_is_for_our_group() -> None:
    assert asked(Code.NOTIFY_CONSUMER_IDS_CHANGED, Group(GROUP), flag=ONEWAY).events == [MembersChanged(BROKER)]
    assert asked(Code.NOTIFY_CONSUMER_IDS_CHANGED, Group("another"), flag=ONEWAY) == Heard([])


def test_a_member_tells_what_it_holds_in_javas_words_and_in_ours() -> None:
    heard = asked(Code.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, ME))
    (reply,) = heard.replies
    assert (reply.code, reply.opaque, reply.is_answer, reply.version) == (0, 91, True, OUR_VERSION)
    assert reply.header_type is HeaderType.BINARY
    state = decode_body(RunningState, reply.body)
    assert {queue: each.dropped for queue, each in state.queues.items()} == {q(0): False, q(1): True}
    assert [each.topic for each in state.subscriptions] == ["orders", "%RETRY%billing"]
    word = state.steelyard
    assert word is not None
    assert (word.held, word.draining, word.wanted, word.departed) == ((q(0), q(1)), (q(1),), (q(2),), {OTHER: 40})
    assert heard.events == []


def test_who_says_what_it_waits_for_pokes() -> None:
    wants = '[["orders","broker-0",1],["orders","broker-0",0]]'
    heard = asked(Code.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, ME, steelyard_wants=wants))
    assert heard.events == [Poked(None, (q(1), q(0)))]
    assert heard.replies


def test_a_poke_that_cannot_be_read_is_refused() -> None:
    heard = asked(Code.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, ME, steelyard_wants="[[1"))
    assert not heard.events
    assert [reply.code for reply in heard.replies] == [1]


def test_a_question_for_somebody_else_is_refused() -> None:
    for header in (AskRunningState("another", ME), AskRunningState(GROUP, OTHER)):
        (reply,) = asked(Code.GET_CONSUMER_RUNNING_INFO, header).replies
        assert reply.code == 1


def test_a_reset_comes_as_a_table_or_as_a_list() -> None:
    header = ResetOffset("orders", GROUP, timestamp=0, is_force=True)
    table = (
        b'{"offsetTable":{{"brokerName":"broker-0","queueId":1,"topic":"orders"}:7,'
        b'{"brokerName":"broker-0","queueId":0,"topic":"orders"}:5}}'
    )
    listed = b'{"offsetTable":[{"brokerName":"broker-0","offset":5,"queueId":0,"topic":"orders"}]}'
    code = Code.RESET_CONSUMER_CLIENT_OFFSET
    assert asked(code, header, table, ONEWAY).events == [OffsetReset(q(0), 5), OffsetReset(q(1), 7)]
    assert asked(code, header, listed, ONEWAY).events == [OffsetReset(q(0), 5)]
    assert asked(code, ResetOffset("orders", "another", 0, True), table).events == []
    assert not asked(code, header, table, ONEWAY).replies


def test_what_is_not_understood_is_refused_and_a_oneway_passed_over() -> None:
    (reply,) = asked(Code.CONSUME_MESSAGE_DIRECTLY).replies
    assert (reply.code, reply.opaque) == (3, 91)
    assert asked(9_999, flag=ONEWAY) == Heard([])
    assert asked(Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP}).replies[0].code == 1


def test_a_name_server_asks_nothing() -> None:
    assert asked(Code.GET_CONSUMER_RUNNING_INFO, AskRunningState(GROUP, ME), to=None) == Heard()


def test_holdings_are_only_looked_at_when_they_are_asked_for() -> None:
    def never(_about: Sequence[Queue]) -> Holdings:
        raise AssertionError("nobody asked")

    notice = Command(Code.NOTIFY_CONSUMER_IDS_CHANGED, Group(GROUP), flag=ONEWAY)
    assert Voice(options(), "i").hear(BROKER, notice, 0, never).events
    assert nothing_held() == Holdings()
