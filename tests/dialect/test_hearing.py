"""Each action said to a real broker ends with the one event that tells what came of it."""

import pytest
from msgspec import structs
from tests.broker.desk import message
from tests.broker.reader import put
from tests.dialect.talk import BROKER, GROUP, ME, OTHER, Talk, nothing_held, options, q, stocked

from steelyard.balance import actions, events
from steelyard.balance.actions import Start, StartAt
from steelyard.balance.events import Event, MemberFacts, PullOutcome
from steelyard.balance.holdings import Holdings
from steelyard.balance.member_options import Mode
from steelyard.dialect.hearing import uptime_ms
from steelyard.dialect.voice import Heard, Voice
from steelyard.model import StoredMessage
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode, Version
from steelyard.wire.command import RESPONSE, Command, Fields
from steelyard.wire.headers.common import OffsetAnswer

LEASE = "billing%LEASE"


def answered(
    action: actions.Action, code: int = 0, body: bytes = b"", fields: Fields | None = None, remark: str | None = None
) -> events.Event:
    """Let a broker of another kind answer."""
    voice = Voice(options(), "i")
    said = voice.say(action, 0)
    assert said is not None
    answer = Command(code, fields or {}, body, said.command.opaque, RESPONSE, remark)
    (event,) = voice.hear(said.to, answer, 5, nothing_held).events
    return event


# -- membership -------------------------------------------------------------------------------------------------------


def test_our_broker_is_known_by_its_word_in_the_answer() -> None:
    beat = actions.Heartbeat(BROKER, held={})
    assert Talk(stocked()).ask(beat) == events.BeatAnswered(BROKER, ours=True, heartbeat_ms=3_000)
    assert answered(beat) == events.BeatAnswered(BROKER, ours=False)
    assert answered(beat, fields={"IS_SUB_CHANGE": "true", "heartbeatMs": "9"}) == events.BeatAnswered(BROKER, False)


def test_a_second_process_with_our_id_is_told_why_it_is_not_let_in() -> None:
    desk = stocked()
    Talk.registered(desk)
    rival = Talk(desk)
    rival.voice = Voice(options(), "another instance")
    refused = rival.ask(actions.Heartbeat(BROKER, held={}))
    assert isinstance(refused, events.BeatFailed)
    assert "already in group" in refused.why


def test_a_list_names_members_queues_and_owners() -> None:
    desk = stocked(queues=3)
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER))
    talk.ask(actions.Lock(BROKER, (q(2),), LEASE))
    other.ask(actions.Lock(BROKER, (q(0),), LEASE))
    seen = talk.ask(actions.AskGroup(BROKER, ticket=7))
    assert isinstance(seen, events.GroupSeen)
    assert sorted(seen.ids) == [ME, OTHER]
    assert seen.ticket == 7
    assert seen.owners == {q(0): OTHER, q(2): ME}
    assert seen.queues is not None
    assert seen.queues["orders"] == 3
    assert seen.members is not None
    assert MemberFacts(ME, True, False, "sticky", ("%RETRY%billing", "orders")) in seen.members
    assert seen.settled is True


def test_a_leaving_member_is_listed_as_leaving() -> None:
    desk = stocked()
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER))
    other.ask(actions.Heartbeat(BROKER, leaving=True, strategy="sticky"))
    seen = talk.ask(actions.AskGroup(BROKER))
    assert isinstance(seen, events.GroupSeen)
    assert seen.members is not None
    assert {each.id: each.leaving for each in seen.members} == {ME: False, OTHER: True}


def test_a_group_without_members_is_an_empty_list_and_another_error_is_none() -> None:
    ask = actions.AskGroup(BROKER, 3)
    assert Talk(stocked()).ask(ask) == events.GroupSeen(BROKER, (), ticket=3)
    assert answered(ask, 1, remark="java.lang.NullPointerException") == events.GroupFailed(BROKER, 3)
    assert answered(ask, 0, b"{") == events.GroupFailed(BROKER, 3)


def test_apaches_list_has_ids_alone_even_twice() -> None:
    seen = answered(actions.AskGroup(BROKER), body=b'{"consumerIdList":["a","b","a"]}')
    assert seen == events.GroupSeen(BROKER, ("a", "b", "a"))


def test_an_owner_that_is_not_in_the_list_is_nobody() -> None:
    body = b'{"consumerIdList":["a"],"steelyard":{"owners":{"orders":[0,-1,7,-9]}}}'
    seen = answered(actions.AskGroup(BROKER), body=body)
    assert isinstance(seen, events.GroupSeen)
    assert seen.owners == {q(0): "a"}


def test_a_broker_tells_how_long_it_is_up() -> None:
    desk = stocked()
    talk = Talk.registered(desk)
    desk.advance(95_300, step_ms=5_000)
    assert talk.ask(actions.AskUptime(BROKER)) == events.UptimeSeen(BROKER, 95_000)
    assert answered(actions.AskUptime(BROKER), ResponseCode.NO_PERMISSION) == events.UptimeSeen(BROKER, None)
    assert answered(actions.AskUptime(BROKER), body=b'{"table":{}}') == events.UptimeSeen(BROKER, None)


@pytest.mark.parametrize(
    ("runtime", "told_ms"),
    [
        ("[ 2 days, 3 hours, 4 minutes, 5 seconds ]", 183_845_000),
        ("[ 1,234 days, 0 hours, 0 minutes, 0 seconds ]", 1_234 * 86_400_000),
        ("[ 1\u202f234 days, 0 hours, 0 minutes, 1 seconds ]", 1_234 * 86_400_000 + 1_000),
        ("", None),
        ("9" * 500, None),
    ],
)
def test_a_runtime_is_read_as_java_prints_it(runtime: str, told_ms: int | None) -> None:
    assert uptime_ms(runtime) == told_ms


# -- holders ----------------------------------------------------------------------------------------------------------


def test_a_peer_answers_for_itself_and_is_poked() -> None:
    desk = stocked(queues=4)
    silent = "10.0.0.9@1@sy1"
    holdings = Holdings((q(0), q(1)), (q(1),), (q(2),), {silent: 120}, {silent: (q(3),)}, {silent: ()})
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER), holdings)
    desk.sent_to(talk.peer)
    assert talk.say(actions.AskHolders(BROKER, OTHER, (q(1),), ticket=5, asked_ms=7)) == []
    assert other.hear() == [events.Poked(ME, (q(1),))]
    assert talk.hear() == [
        events.HoldersSeen(
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


def test_a_question_without_a_want_tells_who_asks() -> None:
    desk = stocked()
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER))
    desk.sent_to(talk.peer)
    talk.say(actions.AskHolders(BROKER, OTHER))
    assert other.hear() == [events.Poked(ME)]
    assert talk.hear() == [events.HoldersSeen(BROKER, OTHER, frozenset(), filters={"orders": "*"})]


def test_a_member_that_the_broker_does_not_know_is_gone() -> None:
    talk = Talk.registered(stocked())
    gone = events.HoldersFailed(BROKER, OTHER, gone=True, ticket=9)
    assert talk.ask(actions.AskHolders(BROKER, OTHER, ticket=9)) == gone
    silent = answered(actions.AskHolders(BROKER, OTHER), ResponseCode.CONSUME_MSG_TIMEOUT, remark="Timeout")
    assert silent == events.HoldersFailed(BROKER, OTHER)
    remark = f"invoke consumer <{GROUP}> <{OTHER}> Exception: RemotingSendRequestException: send request to <…> failed"
    closed = answered(actions.AskHolders(BROKER, OTHER), ResponseCode.SYSTEM_ERROR, remark=remark)
    assert closed == events.HoldersFailed(BROKER, OTHER, closed=True)


def test_a_foreign_member_holds_what_it_has_not_dropped() -> None:
    body = (
        b'{"mqTable":{{"brokerName":"broker-0","queueId":0,"topic":"orders"}:{"droped":false},'
        b'{"brokerName":"broker-0","queueId":1,"topic":"orders"}:{"droped":true}},"properties":{},'
        b'"subscriptionSet":[{"topic":"orders","subString":"paid"},{"topic":"%RETRY%billing","subString":"*"}]}'
    )
    seen = answered(actions.AskHolders(BROKER, "10.0.0.7@8"), body=body)
    assert seen == events.HoldersSeen(BROKER, "10.0.0.7@8", frozenset({q(0)}), filters={"orders": "paid"})


# -- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_is_granted_with_its_epoch_and_denied_with_its_holder() -> None:
    desk = stocked()
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER))
    other.ask(actions.Lock(BROKER, (q(1),), LEASE))
    seen = talk.ask(actions.Lock(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(seen, events.LocksAnswered)
    assert seen.denied == {q(1): OTHER}
    (epoch,) = seen.granted.values()
    assert epoch is not None
    again = talk.ask(actions.Renew(BROKER, (q(0),), LEASE, (epoch,)))
    assert again == events.LocksAnswered(BROKER, {q(0): epoch}, {})


def test_a_renewal_never_takes() -> None:
    renewed = Talk.registered(stocked()).ask(actions.Renew(BROKER, (q(),), LEASE, (None,)))
    assert renewed == events.LocksAnswered(BROKER, {}, {q(): None})


def test_an_unlock_with_unknown_epochs_among_others_frees_both() -> None:
    desk = stocked()
    talk = Talk.registered(desk)
    granted = talk.ask(actions.Lock(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(granted, events.LocksAnswered)
    unlock = actions.Unlock(BROKER, (q(0), q(1)), LEASE, (granted.granted[q(0)], None))
    assert talk.ask(unlock) == events.Unlocked(BROKER, (q(0), q(1)))
    taken = Talk.registered(desk, options(OTHER)).ask(actions.Lock(BROKER, (q(0), q(1)), LEASE))
    assert isinstance(taken, events.LocksAnswered)
    assert not taken.denied


def test_apaches_locks_have_no_epochs_and_no_holders() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}]}'
    seen = answered(actions.Lock(BROKER, (q(0), q(1)), "billing"), body=body)
    assert seen == events.LocksAnswered(BROKER, {q(0): None}, {q(1): None})


def test_a_queue_that_was_not_asked_for_is_not_granted() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":3,"topic":"orders"}]}'
    assert answered(actions.Lock(BROKER, (q(0),), "billing"), body=body) == events.LocksAnswered(
        BROKER, {}, {q(0): None}
    )


@pytest.mark.parametrize(
    ("code", "remark", "forbidden"),
    [(16, None, True), (1, "org.apache.rocketmq.acl.common.AclException: no", True), (2, "[OVERLOAD]", False)],
)
def test_a_lock_may_be_forbidden(code: int, remark: str | None, forbidden: bool) -> None:
    failed = events.LockFailed(BROKER, (q(),), forbidden)
    assert answered(actions.Lock(BROKER, (q(),), LEASE), code, remark=remark) == failed


def test_epochs_that_do_not_fit_the_locks_are_no_answer() -> None:
    body = b'{"lockOKMQSet":[{"brokerName":"broker-0","queueId":0,"topic":"orders"}],"steelyard":{"epochs":[1,2]}}'
    assert answered(actions.Lock(BROKER, (q(),), LEASE), body=body) == events.LockFailed(BROKER, (q(),))


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_a_stored_offset_is_found() -> None:
    talk = Talk.registered(stocked("a", "b", "c"))
    assert talk.ask(actions.Commit(q(), 2)) == events.CommitConfirmed(q(), 2)
    assert talk.ask(actions.AskOffset(q(), Start())) == events.OffsetSeen(q(), 2, stored=True)


@pytest.mark.parametrize(
    ("start", "offset"),
    [(Start(), 3), (Start(StartAt.FIRST), 0), (Start(StartAt.TIME, 1), 0), (Start(StartAt.TIME, 1 << 41), 3)],
)
def test_without_a_stored_offset_the_start_is_looked_for(start: Start, offset: int) -> None:
    talk = Talk.registered(stocked("a", "b", "c"))
    assert talk.ask(actions.AskOffset(q(), start)) == events.OffsetSeen(q(), offset, stored=False)


def test_retries_start_with_the_first_however_the_group_starts() -> None:
    desk = stocked()
    talk = Talk.registered(desk)
    put(desk, [b"failed"], "%RETRY%billing")
    retry = q(0, "%RETRY%billing")
    assert talk.ask(actions.AskOffset(retry, Start())) == events.OffsetSeen(retry, 0, stored=False)


def _old_broker(*answers: Command) -> tuple[Voice, Heard, list[int]]:
    """Ask for an offset, and give these answers of release 4.9 to what is asked; return the last and what was asked."""
    voice, codes = Voice(options(), "i"), list[int]()
    said = voice.say(actions.AskOffset(q(), Start()), 0)
    heard = Heard()
    for answer in answers:
        assert said is not None
        codes.append(said.command.code)
        told = structs.replace(answer, opaque=said.command.opaque, flag=RESPONSE, version=Version.V4_9_7)
        heard = voice.hear(BROKER, told, 0, nothing_held)
        said = heard.says[0] if heard.says else None
    return voice, heard, codes


_ZERO, _THREE = Command(0, OffsetAnswer(0)), Command(0, OffsetAnswer(3))
_ASKED = [Code.QUERY_CONSUMER_OFFSET, Code.GET_MAX_OFFSET, Code.GET_ALL_CONSUMER_OFFSET]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('{"orders@billing":{0:0,1:2}}', events.OffsetSeen(q(), 0, stored=True)),
        ('{"orders@billing":{0:2}}', events.OffsetSeen(q(), 2, stored=True)),
        ('{"orders@billing":{1:0},"orders@others":{0:0}}', events.OffsetSeen(q(), 3, stored=False)),
        ("{}", events.OffsetSeen(q(), 3, stored=False)),
    ],
)
def test_the_0_of_an_old_broker_is_looked_up_among_all_offsets(table: str, expected: Event) -> None:
    _, heard, codes = _old_broker(_ZERO, _THREE, Command(0, body=b'{"offsetTable":%b}' % table.encode()))
    assert (list(heard.events), codes) == ([expected], _ASKED)


def test_an_empty_queue_of_an_old_broker_starts_at_0_and_that_is_stored() -> None:
    _, heard, _ = _old_broker(_ZERO, _ZERO)
    assert list(heard.events) == [events.OffsetSeen(q(), 0, stored=False)]


@pytest.mark.parametrize("answer", [Command(1, remark="no"), Command(0, body=b"{")])
def test_an_old_broker_that_does_not_tell_all_offsets_is_believed_and_that_is_said_once(answer: Command) -> None:
    _, heard, _ = _old_broker(_ZERO, _THREE, answer)
    assert list(heard.events) == [events.OffsetSeen(q(), 0, stored=True)]
    (note,) = heard.notes
    assert "broker-0 does not say whether group billing was ever here" in note


@pytest.mark.parametrize("how", ["late", "cut"])
def test_an_old_broker_that_fails_over_all_its_offsets_is_not_asked_for_them_again(how: str) -> None:
    voice, heard, _ = _old_broker(_ZERO, _THREE)
    assert [said.command.code for said in heard.says] == [Code.GET_ALL_CONSUMER_OFFSET]
    if how == "late":
        assert voice.tick(10_000).events == [events.OffsetFailed(q())]
    else:
        assert voice.cut(BROKER) == [events.LineCut(BROKER)]
    said = voice.say(actions.AskOffset(q(), Start()), 20_000)
    for answer in (_ZERO, _THREE):
        assert said is not None
        told = structs.replace(answer, opaque=said.command.opaque, flag=RESPONSE, version=Version.V4_9_7)
        heard = voice.hear(BROKER, told, 20_000, nothing_held)
        said = heard.says[0] if heard.says else None
    assert list(heard.events) == [events.OffsetSeen(q(), 0, stored=True)]


def test_a_broadcasting_member_looks_for_the_start_at_once() -> None:
    talk = Talk.registered(stocked("a", "b"), options(mode=Mode.BROADCAST))
    assert talk.ask(actions.AskOffset(q(), Start())) == events.OffsetSeen(q(), 2, stored=False)


def test_a_commit_of_who_lost_the_queue_is_refused() -> None:
    desk = stocked("a", "b")
    talk, other = Talk.registered(desk), Talk.registered(desk, options(OTHER))
    other.ask(actions.Lock(BROKER, (q(),), LEASE))
    assert talk.ask(actions.Commit(q(), 2, epoch=1)) == events.CommitRefused(q(), 2)


def test_a_commit_that_cannot_be_taken_has_failed() -> None:
    assert Talk.registered(stocked()).ask(actions.Commit(q(0, "nowhere"), 2)) == events.CommitFailed(q(0, "nowhere"), 2)


# -- messages ---------------------------------------------------------------------------------------------------------


def test_a_pull_brings_messages_with_their_offsets() -> None:
    talk = Talk.registered(stocked("a", "b", "c"))
    found = talk.ask(actions.Pull(q(), 4, 1))
    assert isinstance(found, events.Pulled)
    assert (found.outcome, found.generation, found.next_offset) == (PullOutcome.FOUND, 4, 3)
    assert list(found.offsets) == [1, 2]
    bodies = [each.body for each in found.messages if isinstance(each, StoredMessage)]
    assert bodies == [b"m1", b"m2"]
    assert found.body_bytes == 4


def test_a_pull_at_the_end_waits_and_then_brings_nothing() -> None:
    desk = stocked("a")
    talk = Talk.registered(desk)
    assert talk.say(actions.Pull(q(), 1, 1)) == []
    desk.advance(8_000, step_ms=1_000)
    talk.ask(actions.Heartbeat(BROKER))
    desk.advance(8_000, step_ms=1_000)
    assert talk.hear() == [events.Pulled(q(), 1, PullOutcome.NOTHING, 1)]


def test_a_pull_that_waits_is_answered_by_the_next_message() -> None:
    desk = stocked()
    talk = Talk.registered(desk)
    assert talk.say(actions.Pull(q(), 1, 0)) == []
    desk.ask(Code.SEND_MESSAGE_V2, message(), b"new")
    (found,) = talk.hear()
    assert isinstance(found, events.Pulled)
    assert list(found.offsets) == [0]


def test_a_pull_outside_of_the_queue_is_corrected() -> None:
    talk = Talk.registered(stocked("a"))
    assert talk.ask(actions.Pull(q(), 1, 99)) == events.Pulled(q(), 1, PullOutcome.MOVED, 1)


def test_a_tag_with_the_same_hash_is_left_out_and_passed_by() -> None:
    # "Aa" and "BB" have the same hash in Java: a broker cannot tell them apart.
    talk = Talk.registered(stocked("Aa", "BB", "Aa", "other", "BB"), options(expression="Aa"))
    found = talk.ask(actions.Pull(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    assert list(found.offsets) == [0, 2]
    assert found.next_offset >= 4


def test_a_pull_that_is_refused_has_failed_and_may_be_told_to_spare_the_broker() -> None:
    pull = actions.Pull(q(), 3, 0)
    assert answered(pull, ResponseCode.SUBSCRIPTION_NOT_LATEST) == events.PullFailed(q(), 3)
    assert answered(pull, ResponseCode.FLOW_CONTROL) == events.PullFailed(q(), 3, busy=True)
    assert answered(pull, ResponseCode.SYSTEM_BUSY) == events.PullFailed(q(), 3, busy=True)


PULL_FIELDS = {"suggestWhichBrokerId": "0", "nextBeginOffset": "9", "minOffset": "0", "maxOffset": "9"}


def records(count: int) -> list[bytes]:
    """Return the bytes of some stored messages, one by one."""
    desk = stocked(*"x" * count)
    store = desk.state.store
    return [store.read(b"orders", 0, offset, most=1, most_bytes=1 << 20).joined()[:] for offset in range(count)]


def test_messages_before_a_damaged_one_are_good_and_the_next_pull_begins_with_it() -> None:
    first, second, third = records(3)
    body = bytes(first) + bytes(second) + bytes(third)[:40]
    found = answered(actions.Pull(q(), 1, 0), body=body, fields=PULL_FIELDS)
    assert isinstance(found, events.Pulled)
    assert (list(found.offsets), found.next_offset) == ([0, 1], 2)
    damaged = answered(actions.Pull(q(), 1, 2), body=bytes(third)[:40], fields=PULL_FIELDS)
    assert isinstance(damaged, events.PullFailed)
    assert (damaged.generation, damaged.busy) == (1, False)
    assert "record, byte 0: 40 bytes are left" in damaged.why


def test_offsets_only_go_up_whatever_a_broker_sends() -> None:
    first, second, third = records(3)
    body = bytes(first) + bytes(third) + bytes(second) + bytes(third)
    found = answered(actions.Pull(q(), 1, 1), body=body, fields={**PULL_FIELDS, "nextBeginOffset": "0"})
    assert isinstance(found, events.Pulled)
    assert (list(found.offsets), found.next_offset) == ([2], 3)


def test_nothing_found_never_leads_back() -> None:
    found = answered(actions.Pull(q(), 1, 5), 19, fields={**PULL_FIELDS, "nextBeginOffset": "-4"})
    assert found == events.Pulled(q(), 1, PullOutcome.NOTHING, 5)


def test_a_failed_message_comes_back_in_the_topic_of_retries() -> None:
    desk = stocked("a")
    talk = Talk.registered(desk)
    found = talk.ask(actions.Pull(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    sent = talk.ask(actions.SendBack(q(), 1, 0, found.messages[0], 1))
    assert sent == events.SentBack(q(), 1, 0)
    desk.advance(1_500)
    retry = q(0, f"%RETRY%{GROUP}")
    again = talk.ask(actions.Pull(retry, 1, 0))
    assert isinstance(again, events.Pulled)
    (message_again,) = again.messages
    assert isinstance(message_again, StoredMessage)
    assert (message_again.body, message_again.queue, message_again.reconsume_times) == (b"m0", retry, 1)


def test_a_message_that_is_not_there_cannot_be_given_back() -> None:
    stranger = StoredMessage(q(), 0, b"?", position=1 << 40)
    talk = Talk.registered(stocked())
    assert talk.ask(actions.SendBack(q(), 2, 0, stranger)) == events.SendBackFailed(q(), 2, 0)
