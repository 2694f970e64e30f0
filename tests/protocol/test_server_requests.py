"""Requests of servers to a member are served; unknown ones are refused, and nothing ever raises."""

from collections.abc import Sequence

from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import HandoverRequested, MembersChanged, OffsetReset
from steelyard.model import Queue
from steelyard.protocol.member_protocol import DecodedCommand, MemberProtocol
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerRunningState
from steelyard.wire.codes import CLIENT_VERSION, HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import ONEWAY_FLAG, Command, CommandFields
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.group import GetConsumerRunningState, ResetOffset
from tests.protocol.broker_dialogue import BROKER, GROUP, ME, OTHER, nothing_held, options, q

HOLDINGS = ClaimedQueues((q(0), q(1)), (q(1),), (q(2),), {OTHER: 40})


def asked(
    code: int, fields: CommandFields | None = None, body: bytes = b"", flag: int = 0, to: str | None = BROKER
) -> DecodedCommand:
    request = Command(code, fields or {}, body, opaque=91, flag=flag, header_type=HeaderType.BINARY)
    return MemberProtocol(options(), "i").decode(to, request, 5, lambda _: HOLDINGS)


def test_a_notification_counts_if_it_is_for_our_group() -> None:
    assert asked(Code.NOTIFY_CONSUMER_IDS_CHANGED, GroupRequest(GROUP), flag=ONEWAY_FLAG).events == [
        MembersChanged(BROKER)
    ]
    assert asked(Code.NOTIFY_CONSUMER_IDS_CHANGED, GroupRequest("another"), flag=ONEWAY_FLAG) == DecodedCommand([])


def test_a_member_reports_what_it_holds_in_javas_fields_and_in_ours() -> None:
    received = asked(Code.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, ME))
    (reply,) = received.replies
    assert (reply.code, reply.opaque, reply.is_response, reply.version) == (0, 91, True, CLIENT_VERSION)
    assert reply.header_type is HeaderType.BINARY
    state = decode_body(ConsumerRunningState, reply.body)
    assert {queue: each.dropped for queue, each in state.queues.items()} == {q(0): False, q(1): True}
    assert [each.topic for each in state.subscriptions] == ["orders", "%RETRY%billing"]
    word = state.steelyard
    assert word is not None
    assert (word.held, word.draining, word.wanted, word.departed) == ((q(0), q(1)), (q(1),), (q(2),), {OTHER: 40})
    assert received.events == []


def test_a_probe_with_queues_is_a_handover_request() -> None:
    wants = '[["orders","broker-0",1],["orders","broker-0",0]]'
    received = asked(Code.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, ME, steelyard_wants=wants))
    assert received.events == [HandoverRequested(None, (q(1), q(0)))]
    assert received.replies


def test_a_handover_request_that_cannot_be_read_is_refused() -> None:
    received = asked(Code.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, ME, steelyard_wants="[[1"))
    assert not received.events
    assert [reply.code for reply in received.replies] == [1]


def test_a_probe_for_another_member_is_refused() -> None:
    for header in (GetConsumerRunningState("another", ME), GetConsumerRunningState(GROUP, OTHER)):
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
    assert asked(code, header, table, ONEWAY_FLAG).events == [OffsetReset(q(0), 5), OffsetReset(q(1), 7)]
    assert asked(code, header, listed, ONEWAY_FLAG).events == [OffsetReset(q(0), 5)]
    assert asked(code, ResetOffset("orders", "another", 0, True), table).events == []
    assert not asked(code, header, table, ONEWAY_FLAG).replies


def test_what_is_not_understood_is_refused_and_a_oneway_passed_over() -> None:
    (reply,) = asked(Code.CONSUME_MESSAGE_DIRECTLY).replies
    assert (reply.code, reply.opaque) == (3, 91)
    assert asked(9_999, flag=ONEWAY_FLAG) == DecodedCommand([])
    assert asked(Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": GROUP}).replies[0].code == 1


def test_a_name_server_asks_nothing() -> None:
    assert asked(Code.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningState(GROUP, ME), to=None) == DecodedCommand()


def test_claimed_queues_are_only_computed_for_a_probe() -> None:
    def never(_about: Sequence[Queue]) -> ClaimedQueues:
        raise AssertionError("nobody asked")

    notice = Command(Code.NOTIFY_CONSUMER_IDS_CHANGED, GroupRequest(GROUP), flag=ONEWAY_FLAG)
    assert MemberProtocol(options(), "i").decode(BROKER, notice, 0, never).events
    assert nothing_held() == ClaimedQueues()
