"""Each action that is sent to a real broker ends with one event."""

import pytest
from msgspec import structs

from steelyard.balance.group import actions, events
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import Event, MemberFacts, PullOutcome
from steelyard.balance.group.options import ConsumeMode
from steelyard.model import StoredMessage
from steelyard.protocol.member_protocol import DecodedCommand, MemberProtocol
from steelyard.protocol.member_responses import parse_uptime_ms
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode, Version
from steelyard.wire.command import RESPONSE_FLAG, Command, CommandFields
from steelyard.wire.headers.common import OffsetResponse
from tests.broker.broker_harness import message
from tests.broker.pull_requests import store_messages
from tests.protocol.broker_dialogue import BROKER, GROUP, ME, OTHER, BrokerDialogue, nothing_held, options, q, stocked

LEASE = "billing%LEASE"


def answered(
    action: actions.Action,
    code: int = 0,
    body: bytes = b"",
    fields: CommandFields | None = None,
    remark: str | None = None,
) -> events.Event:
    """Let a broker of another kind answer."""
    member_protocol = MemberProtocol(options(), "i")
    outgoing = member_protocol.encode(action, 0)
    assert outgoing is not None
    answer = Command(code, fields or {}, body, outgoing.command.opaque, RESPONSE_FLAG, remark)
    (event,) = member_protocol.decode(outgoing.server, answer, 5, nothing_held).events
    return event


# -- membership -------------------------------------------------------------------------------------------------------


def test_our_broker_is_known_by_its_word_in_the_answer() -> None:
    beat = actions.SendHeartbeat(BROKER, held={})
    assert BrokerDialogue(stocked()).ask(beat) == events.HeartbeatAcknowledged(
        BROKER, is_steelyard=True, heartbeat_ms=3_000
    )
    assert answered(beat) == events.HeartbeatAcknowledged(BROKER, is_steelyard=False)
    assert answered(beat, fields={"IS_SUB_CHANGE": "true", "heartbeatMs": "9"}) == events.HeartbeatAcknowledged(
        BROKER, False
    )


def test_a_second_process_with_our_id_learns_why_it_is_refused() -> None:
    harness = stocked()
    BrokerDialogue.registered(harness)
    rival = BrokerDialogue(harness)
    rival.codec = MemberProtocol(options(), "another instance")
    refused = rival.ask(actions.SendHeartbeat(BROKER, held={}))
    assert isinstance(refused, events.HeartbeatFailed)
    assert "already in group" in refused.why


def test_a_list_names_members_queues_and_owners() -> None:
    harness = stocked(queues=3)
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER))
    talk.ask(actions.LockQueues(BROKER, (q(2),), LEASE))
    other.ask(actions.LockQueues(BROKER, (q(0),), LEASE))
    seen = talk.ask(actions.QueryMemberList(BROKER, request_id=7))
    assert isinstance(seen, events.MemberListReceived)
    assert sorted(seen.ids) == [ME, OTHER]
    assert seen.request_id == 7
    assert seen.owners == {q(0): OTHER, q(2): ME}
    assert seen.queue_counts is not None
    assert seen.queue_counts["orders"] == 3
    assert seen.members is not None
    assert MemberFacts(ME, True, False, "sticky", ("%RETRY%billing", "orders")) in seen.members
    assert seen.is_settled is True


def test_a_leaving_member_is_listed_as_leaving() -> None:
    harness = stocked()
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER))
    other.ask(actions.SendHeartbeat(BROKER, is_leaving=True, strategy="sticky"))
    seen = talk.ask(actions.QueryMemberList(BROKER))
    assert isinstance(seen, events.MemberListReceived)
    assert seen.members is not None
    assert {each.id: each.is_leaving for each in seen.members} == {ME: False, OTHER: True}


def test_a_group_without_members_is_an_empty_list_and_another_error_is_none() -> None:
    ask = actions.QueryMemberList(BROKER, 3)
    assert BrokerDialogue(stocked()).ask(ask) == events.MemberListReceived(BROKER, (), request_id=3)
    assert answered(ask, 1, remark="java.lang.NullPointerException") == events.MemberListFailed(BROKER, 3)
    assert answered(ask, 0, b"{") == events.MemberListFailed(BROKER, 3)


def test_apaches_list_has_ids_alone_even_twice() -> None:
    seen = answered(actions.QueryMemberList(BROKER), body=b'{"consumerIdList":["a","b","a"]}')
    assert seen == events.MemberListReceived(BROKER, ("a", "b", "a"))


def test_an_owner_that_is_not_in_the_list_does_not_count() -> None:
    body = b'{"consumerIdList":["a"],"steelyard":{"owners":{"orders":[0,-1,7,-9]}}}'
    seen = answered(actions.QueryMemberList(BROKER), body=body)
    assert isinstance(seen, events.MemberListReceived)
    assert seen.owners == {q(0): "a"}


def test_a_broker_reports_its_uptime() -> None:
    harness = stocked()
    talk = BrokerDialogue.registered(harness)
    harness.advance(95_300, step_ms=5_000)
    assert talk.ask(actions.QueryUptime(BROKER)) == events.UptimeReceived(BROKER, 95_000)
    assert answered(actions.QueryUptime(BROKER), ResponseCode.NO_PERMISSION) == events.UptimeReceived(BROKER, None)
    assert answered(actions.QueryUptime(BROKER), body=b'{"table":{}}') == events.UptimeReceived(BROKER, None)


@pytest.mark.parametrize(
    ("runtime", "reported_ms"),
    [
        ("[ 2 days, 3 hours, 4 minutes, 5 seconds ]", 183_845_000),
        ("[ 1,234 days, 0 hours, 0 minutes, 0 seconds ]", 1_234 * 86_400_000),
        ("[ 1\u202f234 days, 0 hours, 0 minutes, 1 seconds ]", 1_234 * 86_400_000 + 1_000),
        ("", None),
        ("9" * 500, None),
    ],
)
def test_a_runtime_is_read_as_java_prints_it(runtime: str, reported_ms: int | None) -> None:
    assert parse_uptime_ms(runtime) == reported_ms


# -- holders ----------------------------------------------------------------------------------------------------------


def test_a_peer_reports_its_queues_and_gets_the_handover_request() -> None:
    harness = stocked(queues=4)
    silent = "10.0.0.9@1@sy1"
    claimed = ClaimedQueues((q(0), q(1)), (q(1),), (q(2),), {silent: 120}, {silent: (q(3),)}, {silent: ()})
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER), claimed)
    harness.sent_to(talk.peer)
    assert talk.send_action(actions.ProbeOwnership(BROKER, OTHER, (q(1),), request_id=5, asked_ms=7)) == []
    assert other.receive() == [events.HandoverRequested(ME, (q(1),))]
    assert talk.receive() == [
        events.OwnershipReported(
            BROKER,
            OTHER,
            frozenset({q(0), q(1)}),
            frozenset({q(2)}),
            {silent: 120},
            5,
            {silent: (q(3),)},
            {silent: ()},
            7,
            {"orders": "*"},
        )
    ]


def test_a_probe_without_queues_names_its_member() -> None:
    harness = stocked()
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER))
    harness.sent_to(talk.peer)
    talk.send_action(actions.ProbeOwnership(BROKER, OTHER))
    assert other.receive() == [events.HandoverRequested(ME)]
    assert talk.receive() == [events.OwnershipReported(BROKER, OTHER, frozenset(), filters={"orders": "*"})]


def test_a_member_that_the_broker_does_not_know_is_gone() -> None:
    talk = BrokerDialogue.registered(stocked())
    gone = events.OwnershipProbeFailed(BROKER, OTHER, is_unknown=True, request_id=9)
    assert talk.ask(actions.ProbeOwnership(BROKER, OTHER, request_id=9)) == gone
    silent = answered(actions.ProbeOwnership(BROKER, OTHER), ResponseCode.CONSUME_MSG_TIMEOUT, remark="Timeout")
    assert silent == events.OwnershipProbeFailed(BROKER, OTHER)
    remark = f"invoke consumer <{GROUP}> <{OTHER}> Exception: RemotingSendRequestException: send request to <…> failed"
    closed = answered(actions.ProbeOwnership(BROKER, OTHER), ResponseCode.SYSTEM_ERROR, remark=remark)
    assert closed == events.OwnershipProbeFailed(BROKER, OTHER, is_connection_closed=True)


def test_a_foreign_member_holds_what_it_has_not_dropped() -> None:
    body = (
        b'{"mqTable":{{"brokerName":"broker-0","queueId":0,"topic":"orders"}:{"droped":false},'
        b'{"brokerName":"broker-0","queueId":1,"topic":"orders"}:{"droped":true}},"properties":{},'
        b'"subscriptionSet":[{"topic":"orders","subString":"paid"},{"topic":"%RETRY%billing","subString":"*"}]}'
    )
    seen = answered(actions.ProbeOwnership(BROKER, "10.0.0.7@8"), body=body)
    assert seen == events.OwnershipReported(BROKER, "10.0.0.7@8", frozenset({q(0)}), filters={"orders": "paid"})


# -- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_is_granted_with_its_epoch_and_denied_with_its_holder() -> None:
    harness = stocked()
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER))
    other.ask(actions.LockQueues(BROKER, (q(1),), LEASE))
    seen = talk.ask(actions.LockQueues(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(seen, events.LocksAnswered)
    assert seen.denied == {q(1): OTHER}
    (epoch,) = seen.granted.values()
    assert epoch is not None
    again = talk.ask(actions.RenewLocks(BROKER, (q(0),), LEASE, (epoch,)))
    assert again == events.LocksAnswered(BROKER, {q(0): epoch}, {})


def test_a_renewal_never_takes() -> None:
    renewed = BrokerDialogue.registered(stocked()).ask(actions.RenewLocks(BROKER, (q(),), LEASE, (None,)))
    assert renewed == events.LocksAnswered(BROKER, {}, {q(): None})


def test_an_unlock_with_unknown_epochs_among_others_frees_both() -> None:
    harness = stocked()
    talk = BrokerDialogue.registered(harness)
    granted = talk.ask(actions.LockQueues(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(granted, events.LocksAnswered)
    unlock = actions.UnlockQueues(BROKER, (q(0), q(1)), LEASE, (granted.granted[q(0)], None))
    assert talk.ask(unlock) == events.Unlocked(BROKER, (q(0), q(1)))
    taken = BrokerDialogue.registered(harness, options(OTHER)).ask(actions.LockQueues(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(taken, events.LocksAnswered)
    assert not taken.denied


def test_apaches_locks_have_no_epochs_and_no_holders() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}]}'
    seen = answered(actions.LockQueues(BROKER, (q(0), q(1)), "billing"), body=body)
    assert seen == events.LocksAnswered(BROKER, {q(0): None}, {q(1): None})


def test_a_queue_that_was_not_asked_for_is_not_granted() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":3,"topic":"orders"}]}'
    assert answered(actions.LockQueues(BROKER, (q(0),), "billing"), body=body) == events.LocksAnswered(
        BROKER, {}, {q(0): None}
    )


@pytest.mark.parametrize(
    ("code", "remark", "forbidden"),
    [(16, None, True), (1, "org.apache.rocketmq.acl.common.AclException: no", True), (2, "[OVERLOAD]", False)],
)
def test_a_lock_may_be_forbidden(code: int, remark: str | None, forbidden: bool) -> None:
    failed = events.LockFailed(BROKER, (q(),), forbidden)
    assert answered(actions.LockQueues(BROKER, (q(),), LEASE), code, remark=remark) == failed


def test_epochs_that_do_not_fit_the_locks_are_no_answer() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}],"steelyard":{"epochs":[1,2]}}'
    assert answered(actions.LockQueues(BROKER, (q(),), LEASE), body=body) == events.LockFailed(BROKER, (q(),))


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_a_stored_offset_is_found() -> None:
    talk = BrokerDialogue.registered(stocked("a", "b", "c"))
    assert talk.ask(actions.Commit(q(), 2)) == events.CommitConfirmed(q(), 2)
    assert talk.ask(actions.QueryStartOffset(q(), StartPosition())) == events.StartOffsetReceived(q(), 2, stored=True)


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (StartPosition(), 3),
        (StartPosition(StartAt.FIRST), 0),
        (StartPosition(StartAt.TIME, 1), 0),
        (StartPosition(StartAt.TIME, 1 << 41), 3),
    ],
)
def test_without_a_stored_offset_the_start_is_looked_up(start: StartPosition, offset: int) -> None:
    talk = BrokerDialogue.registered(stocked("a", "b", "c"))
    assert talk.ask(actions.QueryStartOffset(q(), start)) == events.StartOffsetReceived(q(), offset, stored=False)


def test_retries_start_with_the_first_however_the_group_starts() -> None:
    harness = stocked()
    talk = BrokerDialogue.registered(harness)
    store_messages(harness, [b"failed"], "%RETRY%billing")
    retry = q(0, "%RETRY%billing")
    assert talk.ask(actions.QueryStartOffset(retry, StartPosition())) == events.StartOffsetReceived(
        retry, 0, stored=False
    )


def _old_broker(*answers: Command) -> tuple[MemberProtocol, DecodedCommand, list[int]]:
    """Ask for an offset, and give these answers of release 4.9 to what is asked; return the last and what was asked."""
    member_protocol, codes = MemberProtocol(options(), "i"), list[int]()
    outgoing = member_protocol.encode(actions.QueryStartOffset(q(), StartPosition()), 0)
    received = DecodedCommand()
    for answer in answers:
        assert outgoing is not None
        codes.append(outgoing.command.code)
        reported = structs.replace(answer, opaque=outgoing.command.opaque, flag=RESPONSE_FLAG, version=Version.V4_9_7)
        received = member_protocol.decode(BROKER, reported, 0, nothing_held)
        outgoing = received.requests[0] if received.requests else None
    return member_protocol, received, codes


_ZERO, _THREE = Command(0, OffsetResponse(0)), Command(0, OffsetResponse(3))
_ASKED = [Code.QUERY_CONSUMER_OFFSET, Code.GET_MAX_OFFSET, Code.GET_ALL_CONSUMER_OFFSET]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('{"orders@billing":{0:0,1:2}}', events.StartOffsetReceived(q(), 0, stored=True)),
        ('{"orders@billing":{0:2}}', events.StartOffsetReceived(q(), 2, stored=True)),
        ('{"orders@billing":{1:0},"orders@others":{0:0}}', events.StartOffsetReceived(q(), 3, stored=False)),
        ("{}", events.StartOffsetReceived(q(), 3, stored=False)),
    ],
)
def test_the_0_of_an_old_broker_is_looked_up_among_all_offsets(table: str, expected: Event) -> None:
    _, received, codes = _old_broker(_ZERO, _THREE, Command(0, body=b'{"offsetTable":%b}' % table.encode()))
    assert (list(received.events), codes) == ([expected], _ASKED)


def test_an_empty_queue_of_an_old_broker_starts_at_0_and_that_is_stored() -> None:
    _, received, _ = _old_broker(_ZERO, _ZERO)
    assert list(received.events) == [events.StartOffsetReceived(q(), 0, stored=False)]


@pytest.mark.parametrize("answer", [Command(1, remark="no"), Command(0, body=b"{")])
def test_an_old_broker_without_a_table_of_offsets_is_believed_and_that_is_logged_once(answer: Command) -> None:
    _, received, _ = _old_broker(_ZERO, _THREE, answer)
    assert list(received.events) == [events.StartOffsetReceived(q(), 0, stored=True)]
    (note,) = received.notes
    assert "broker-0 does not report whether group billing has offsets" in note


@pytest.mark.parametrize("how", ["late", "cut"])
def test_an_old_broker_that_fails_over_all_its_offsets_is_not_asked_for_them_again(how: str) -> None:
    member_protocol, received, _ = _old_broker(_ZERO, _THREE)
    assert [outgoing.command.code for outgoing in received.requests] == [Code.GET_ALL_CONSUMER_OFFSET]
    if how == "late":
        assert member_protocol.expire(10_000).events == [events.StartOffsetFailed(q())]
    else:
        assert member_protocol.connection_lost(BROKER) == [events.ConnectionLost(BROKER)]
    outgoing = member_protocol.encode(actions.QueryStartOffset(q(), StartPosition()), 20_000)
    for answer in (_ZERO, _THREE):
        assert outgoing is not None
        reported = structs.replace(answer, opaque=outgoing.command.opaque, flag=RESPONSE_FLAG, version=Version.V4_9_7)
        received = member_protocol.decode(BROKER, reported, 20_000, nothing_held)
        outgoing = received.requests[0] if received.requests else None
    assert list(received.events) == [events.StartOffsetReceived(q(), 0, stored=True)]


def test_a_broadcasting_member_looks_up_the_start_at_once() -> None:
    talk = BrokerDialogue.registered(stocked("a", "b"), options(mode=ConsumeMode.BROADCAST))
    assert talk.ask(actions.QueryStartOffset(q(), StartPosition())) == events.StartOffsetReceived(q(), 2, stored=False)


def test_a_commit_of_who_lost_the_queue_is_refused() -> None:
    harness = stocked("a", "b")
    talk, other = BrokerDialogue.registered(harness), BrokerDialogue.registered(harness, options(OTHER))
    other.ask(actions.LockQueues(BROKER, (q(),), LEASE))
    assert talk.ask(actions.Commit(q(), 2, epoch=1)) == events.CommitRefused(q(), 2)


def test_a_commit_that_cannot_be_taken_has_failed() -> None:
    assert BrokerDialogue.registered(stocked()).ask(actions.Commit(q(0, "nowhere"), 2)) == events.CommitFailed(
        q(0, "nowhere"), 2
    )


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_pull_brings_messages_with_their_offsets() -> None:
    talk = BrokerDialogue.registered(stocked("a", "b", "c"))
    found = talk.ask(actions.PullMessages(q(), 4, 1))
    assert isinstance(found, events.Pulled)
    assert (found.outcome, found.generation, found.next_offset) == (PullOutcome.FOUND, 4, 3)
    assert list(found.offsets) == [1, 2]
    bodies = [each.body for each in found.messages if isinstance(each, StoredMessage)]
    assert bodies == [b"m1", b"m2"]
    assert found.body_bytes == 4


def test_a_pull_at_the_end_waits_and_then_brings_nothing() -> None:
    harness = stocked("a")
    talk = BrokerDialogue.registered(harness)
    assert talk.send_action(actions.PullMessages(q(), 1, 1)) == []
    harness.advance(8_000, step_ms=1_000)
    talk.ask(actions.SendHeartbeat(BROKER))
    harness.advance(8_000, step_ms=1_000)
    assert talk.receive() == [events.Pulled(q(), 1, PullOutcome.NOTHING, 1)]


def test_a_pull_that_waits_is_answered_by_the_next_message() -> None:
    harness = stocked()
    talk = BrokerDialogue.registered(harness)
    assert talk.send_action(actions.PullMessages(q(), 1, 0)) == []
    harness.request(Code.SEND_MESSAGE_V2, message(), b"new")
    (found,) = talk.receive()
    assert isinstance(found, events.Pulled)
    assert list(found.offsets) == [0]


def test_a_pull_outside_of_the_queue_is_corrected() -> None:
    talk = BrokerDialogue.registered(stocked("a"))
    assert talk.ask(actions.PullMessages(q(), 1, 99)) == events.Pulled(q(), 1, PullOutcome.OFFSET_MOVED, 1)


def test_a_tag_with_the_same_hash_is_left_out_and_passed_by() -> None:
    # "Aa" and "BB" have the same hash in Java: a broker cannot tell them apart.
    talk = BrokerDialogue.registered(stocked("Aa", "BB", "Aa", "other", "BB"), options(expression="Aa"))
    found = talk.ask(actions.PullMessages(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    assert list(found.offsets) == [0, 2]
    assert found.next_offset >= 4


def test_a_pull_that_is_refused_has_failed_and_may_be_of_a_busy_broker() -> None:
    pull = actions.PullMessages(q(), 3, 0)
    assert answered(pull, ResponseCode.SUBSCRIPTION_NOT_LATEST) == events.PullFailed(q(), 3)
    assert answered(pull, ResponseCode.FLOW_CONTROL) == events.PullFailed(q(), 3, is_busy=True)
    assert answered(pull, ResponseCode.SYSTEM_BUSY) == events.PullFailed(q(), 3, is_busy=True)


PULL_FIELDS = {"suggestWhichBrokerId": "0", "nextBeginOffset": "9", "minOffset": "0", "maxOffset": "9"}


def records(count: int) -> list[bytes]:
    """Return the bytes of some stored messages, one by one."""
    harness = stocked(*"x" * count)
    store = harness.state.store
    return [store.read(b"orders", 0, offset, max_messages=1, max_bytes=1 << 20).joined()[:] for offset in range(count)]


def test_messages_before_a_damaged_one_are_good_and_the_next_pull_begins_with_it() -> None:
    first, second, third = records(3)
    body = bytes(first) + bytes(second) + bytes(third)[:40]
    found = answered(actions.PullMessages(q(), 1, 0), body=body, fields=PULL_FIELDS)
    assert isinstance(found, events.Pulled)
    assert (list(found.offsets), found.next_offset) == ([0, 1], 2)
    damaged = answered(actions.PullMessages(q(), 1, 2), body=bytes(third)[:40], fields=PULL_FIELDS)
    assert isinstance(damaged, events.PullFailed)
    assert (damaged.generation, damaged.is_busy) == (1, False)
    assert "record, byte 0: 40 bytes are left" in damaged.why


def test_offsets_only_go_up_whatever_a_broker_sends() -> None:
    first, second, third = records(3)
    body = bytes(first) + bytes(third) + bytes(second) + bytes(third)
    found = answered(actions.PullMessages(q(), 1, 1), body=body, fields={**PULL_FIELDS, "nextBeginOffset": "0"})
    assert isinstance(found, events.Pulled)
    assert (list(found.offsets), found.next_offset) == ([2], 3)


def test_nothing_found_never_leads_back() -> None:
    found = answered(actions.PullMessages(q(), 1, 5), 19, fields={**PULL_FIELDS, "nextBeginOffset": "-4"})
    assert found == events.Pulled(q(), 1, PullOutcome.NOTHING, 5)


def test_a_failed_message_comes_back_in_the_topic_of_retries() -> None:
    harness = stocked("a")
    talk = BrokerDialogue.registered(harness)
    found = talk.ask(actions.PullMessages(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    sent = talk.ask(actions.SendBackMessage(q(), 1, 0, found.messages[0], 1))
    assert sent == events.SentBack(q(), 1, 0)
    harness.advance(1_500)
    retry = q(0, f"%RETRY%{GROUP}")
    again = talk.ask(actions.PullMessages(retry, 1, 0))
    assert isinstance(again, events.Pulled)
    (message_again,) = again.messages
    assert isinstance(message_again, StoredMessage)
    assert (message_again.body, message_again.queue, message_again.reconsume_times) == (b"m0", retry, 1)


def test_a_message_that_is_not_there_cannot_be_given_back() -> None:
    stranger = StoredMessage(q(), 0, b"?", position=1 << 40)
    talk = BrokerDialogue.registered(stocked())
    assert talk.ask(actions.SendBackMessage(q(), 2, 0, stranger)) == events.SendBackFailed(q(), 2, 0)
