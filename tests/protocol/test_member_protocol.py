"""Every request has exactly one outcome: its response, its timeout, or the end of its connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group import actions, events
from steelyard.balance.group.actions import Action, StartPosition
from steelyard.balance.group.events import ConnectionLost, Event
from steelyard.balance.group.timers import NEVER_MS
from steelyard.model import StoredMessage
from steelyard.protocol.member_protocol import DecodedCommand, MemberProtocol, OutgoingCommand
from steelyard.wire.command import RESPONSE_FLAG, Command
from tests.protocol.broker_dialogue import BROKER, OTHER, nothing_held, options, q

QUESTIONS: tuple[tuple[Action, Event], ...] = (
    (actions.QueryRoute("orders"), events.RouteFailed("orders")),
    (actions.SendHeartbeat(BROKER), events.HeartbeatFailed(BROKER)),
    (actions.QueryUptime(BROKER), events.UptimeReceived(BROKER, None)),
    (actions.QueryMemberList(BROKER, 4), events.MemberListFailed(BROKER, 4)),
    (actions.ProbeOwnership(BROKER, OTHER, request_id=5), events.OwnershipProbeFailed(BROKER, OTHER, request_id=5)),
    (actions.LockQueues(BROKER, (q(),), "g"), events.LockFailed(BROKER, (q(),))),
    (actions.RenewLocks(BROKER, (q(),), "g", (1,)), events.LockFailed(BROKER, (q(),))),
    (actions.UnlockQueues(BROKER, (q(),), "g", (1,)), events.UnlockFailed(BROKER, (q(),))),
    (actions.QueryStartOffset(q(), StartPosition()), events.StartOffsetFailed(q())),
    (actions.PullMessages(q(), 3, 0), events.PullFailed(q(), 3)),
    (actions.Commit(q(), 9, 1), events.CommitFailed(q(), 9)),
    (actions.SendBackMessage(q(), 3, 1, StoredMessage(q(), 1, b"")), events.SendBackFailed(q(), 3, 1)),
)


def encoded(member_protocol: MemberProtocol, action: Action, now_ms: int = 0) -> OutgoingCommand:
    command = member_protocol.encode(action, now_ms)
    assert command is not None
    return command


def receive(
    member_protocol: MemberProtocol, command: Command, to: str | None = BROKER, now_ms: int = 0
) -> DecodedCommand:
    return member_protocol.decode(to, command, now_ms, nothing_held)


@pytest.mark.parametrize(("action", "failed"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_question_without_an_answer_fails_after_its_time(action: Action, failed: Event) -> None:
    member_protocol = MemberProtocol(options(), "i")
    asked = encoded(member_protocol, action, 1_000)
    wait_ms = 30_000 if isinstance(action, actions.PullMessages) else 3_000
    assert member_protocol.due_ms() == 1_000 + wait_ms
    assert member_protocol.expire(1_000 + wait_ms - 1).events == []
    assert member_protocol.expire(1_000 + wait_ms).events == [failed]
    assert member_protocol.due_ms() == NEVER_MS
    late = Command(0, {}, b"", asked.command.opaque, RESPONSE_FLAG)
    assert receive(member_protocol, late, asked.server) == DecodedCommand()


@pytest.mark.parametrize(("action", "failed"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_refusal_and_nonsense_are_the_same_failure(action: Action, failed: Event) -> None:
    for code, body in ((2_016, b""), (0, b"\xff{"), (1, b"")):
        member_protocol = MemberProtocol(options(), "i")
        asked = encoded(member_protocol, action)
        received = receive(
            member_protocol, Command(code, {}, body, asked.command.opaque, RESPONSE_FLAG), asked.server
        ).events
        assert len(received) == 1
        if code or not isinstance(
            action,
            actions.SendHeartbeat
            | actions.Commit
            | actions.UnlockQueues
            | actions.SendBackMessage
            | actions.PullMessages,
        ):
            assert type(received[0]) is type(failed)


def test_a_lost_connection_answers_nothing_more() -> None:
    member_protocol = MemberProtocol(options(), "i")
    asked = [encoded(member_protocol, action) for action, _ in QUESTIONS]
    assert member_protocol.connection_lost(BROKER) == [ConnectionLost(BROKER)]
    for each in asked:
        if each.server is not None:
            assert receive(member_protocol, Command(0, {}, b"", each.command.opaque, RESPONSE_FLAG)) == DecodedCommand()
    assert member_protocol.expire(1 << 40).events == [events.RouteFailed("orders")]


def test_what_a_name_server_did_not_answer_has_failed_when_its_connection_is_lost() -> None:
    member_protocol = MemberProtocol(options(), "i")
    encoded(member_protocol, actions.QueryRoute("a"))
    encoded(member_protocol, actions.QueryRoute("b"))
    assert member_protocol.connection_lost(None) == [events.RouteFailed("a"), events.RouteFailed("b")]
    assert member_protocol.connection_lost(None) == []


def test_an_answer_of_another_server_is_no_answer() -> None:
    member_protocol = MemberProtocol(options(), "i")
    asked = encoded(member_protocol, actions.Commit(q(), 9))
    answer = Command(0, {}, b"", asked.command.opaque, RESPONSE_FLAG)
    assert receive(member_protocol, answer, "another") == DecodedCommand()
    assert receive(member_protocol, answer, None) == DecodedCommand()
    assert list(receive(member_protocol, answer).events) == [events.CommitConfirmed(q(), 9)]
    assert receive(member_protocol, answer) == DecodedCommand()


def test_what_could_not_leave_has_failed() -> None:
    member_protocol = MemberProtocol(options(), "i")
    asked = encoded(member_protocol, actions.Commit(q(), 9))
    assert member_protocol.undelivered(asked) == [events.CommitFailed(q(), 9)]
    assert member_protocol.undelivered(asked) == []
    assert member_protocol.due_ms() == NEVER_MS


def test_a_follow_up_question_has_its_own_time() -> None:
    member_protocol = MemberProtocol(options(), "i")
    asked = encoded(member_protocol, actions.QueryStartOffset(q(), StartPosition()), 0)
    (follow_up,) = receive(
        member_protocol, Command(22, {}, b"", asked.command.opaque, RESPONSE_FLAG), now_ms=2_000
    ).requests
    assert follow_up.server == BROKER
    assert member_protocol.expire(3_000).events == []
    assert member_protocol.expire(5_000).events == [events.StartOffsetFailed(q())]


def test_a_broker_that_says_nothing_at_all_is_given_up_after_its_second_miss() -> None:
    member_protocol = MemberProtocol(options(), "i")
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 0)
    assert member_protocol.expire(3_000).silent_servers == []
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 3_000)
    assert member_protocol.expire(6_000).silent_servers == [BROKER]


def test_a_broker_that_says_anything_between_is_not_given_up() -> None:
    member_protocol = MemberProtocol(options(), "i")
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 0)
    assert member_protocol.expire(3_000).silent_servers == []
    receive(member_protocol, Command(0, {}, b"", 1 << 20, RESPONSE_FLAG), now_ms=4_000)
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 3_000)
    assert member_protocol.expire(6_000).silent_servers == []


def test_a_name_server_is_given_up_at_once() -> None:
    member_protocol = MemberProtocol(options(), "i")
    encoded(member_protocol, actions.QueryRoute("orders"), 0)
    assert member_protocol.expire(3_000).silent_servers == [None]


def test_a_lost_connection_starts_with_a_clean_slate() -> None:
    member_protocol = MemberProtocol(options(), "i")
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 0)
    member_protocol.expire(3_000)
    member_protocol.connection_lost(BROKER)
    encoded(member_protocol, actions.SendHeartbeat(BROKER), 4_000)
    assert member_protocol.expire(7_000).silent_servers == []


@given(st.lists(st.tuples(st.sampled_from(QUESTIONS), st.sampled_from(["answer", "wait", "cut"]))))
def test_no_question_has_two_outcomes(script: list[tuple[tuple[Action, Event], str]]) -> None:
    member_protocol, now_ms = MemberProtocol(options(), "i"), 0
    pending = 0
    for (action, _), then in script:
        now_ms += 700
        each = encoded(member_protocol, action, now_ms)
        pending += 1
        if then == "answer":
            answer = Command(1, {}, b"", each.command.opaque, RESPONSE_FLAG)
            pending -= len(receive(member_protocol, answer, each.server, now_ms).events)
        elif then == "wait":
            now_ms += 2_500
            pending -= len(member_protocol.expire(now_ms).events)
        else:
            member_protocol.connection_lost(None)
            member_protocol.connection_lost(BROKER)
            pending = 0
        assert pending >= 0
    assert len(member_protocol.expire(now_ms + 60_000).events) == pending
    assert member_protocol.due_ms() == NEVER_MS
