"""Every question has exactly one outcome: its answer, its time-out, or the end of its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.talk import BROKER, OTHER, nothing_held, options, q

from steelyard.balance import actions, events
from steelyard.balance.actions import Action, Start
from steelyard.balance.events import Event, LineCut
from steelyard.dialect.voice import NEVER_MS, Heard, Said, Voice
from steelyard.model import StoredMessage
from steelyard.wire.command import RESPONSE, Command

QUESTIONS: tuple[tuple[Action, Event], ...] = (
    (actions.AskRoute("orders"), events.RouteFailed("orders")),
    (actions.Heartbeat(BROKER), events.BeatFailed(BROKER)),
    (actions.AskUptime(BROKER), events.UptimeSeen(BROKER, None)),
    (actions.AskGroup(BROKER, 4), events.GroupFailed(BROKER, 4)),
    (actions.AskHolders(BROKER, OTHER, ticket=5), events.HoldersFailed(BROKER, OTHER, ticket=5)),
    (actions.Lock(BROKER, (q(),), "g"), events.LockFailed(BROKER, (q(),))),
    (actions.Renew(BROKER, (q(),), "g", (1,)), events.LockFailed(BROKER, (q(),))),
    (actions.Unlock(BROKER, (q(),), "g", (1,)), events.UnlockFailed(BROKER, (q(),))),
    (actions.AskOffset(q(), Start()), events.OffsetFailed(q())),
    (actions.Pull(q(), 3, 0), events.PullFailed(q(), 3)),
    (actions.Commit(q(), 9, 1), events.CommitFailed(q(), 9)),
    (actions.SendBack(q(), 3, 1, StoredMessage(q(), 1, b"")), events.SendBackFailed(q(), 3, 1)),
)


def said(voice: Voice, action: Action, now_ms: int = 0) -> Said:
    command = voice.say(action, now_ms)
    assert command is not None
    return command


def hear(voice: Voice, command: Command, to: str | None = BROKER, now_ms: int = 0) -> Heard:
    return voice.hear(to, command, now_ms, nothing_held)


@pytest.mark.parametrize(("action", "failed"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_question_without_an_answer_fails_after_its_time(action: Action, failed: Event) -> None:
    voice = Voice(options(), "i")
    asked = said(voice, action, 1_000)
    wait_ms = 30_000 if isinstance(action, actions.Pull) else 3_000
    assert voice.due_ms() == 1_000 + wait_ms
    assert voice.tick(1_000 + wait_ms - 1).events == []
    assert voice.tick(1_000 + wait_ms).events == [failed]
    assert voice.due_ms() == NEVER_MS
    late = Command(0, {}, b"", asked.command.opaque, RESPONSE)
    assert hear(voice, late, asked.to) == Heard()


@pytest.mark.parametrize(("action", "failed"), QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_refusal_and_nonsense_are_the_same_failure(action: Action, failed: Event) -> None:
    for code, body in ((2_016, b""), (0, b"\xff{"), (1, b"")):
        voice = Voice(options(), "i")
        asked = said(voice, action)
        heard = hear(voice, Command(code, {}, body, asked.command.opaque, RESPONSE), asked.to).events
        assert len(heard) == 1
        if code or not isinstance(
            action, actions.Heartbeat | actions.Commit | actions.Unlock | actions.SendBack | actions.Pull
        ):
            assert type(heard[0]) is type(failed)


def test_a_line_that_is_cut_answers_nothing_more() -> None:
    voice = Voice(options(), "i")
    asked = [said(voice, action) for action, _ in QUESTIONS]
    assert voice.cut(BROKER) == [LineCut(BROKER)]
    for each in asked:
        if each.to is not None:
            assert hear(voice, Command(0, {}, b"", each.command.opaque, RESPONSE)) == Heard()
    assert voice.tick(1 << 40).events == [events.RouteFailed("orders")]


def test_what_a_name_server_did_not_answer_has_failed_when_its_line_is_cut() -> None:
    voice = Voice(options(), "i")
    said(voice, actions.AskRoute("a"))
    said(voice, actions.AskRoute("b"))
    assert voice.cut(None) == [events.RouteFailed("a"), events.RouteFailed("b")]
    assert voice.cut(None) == []


def test_an_answer_of_another_server_is_no_answer() -> None:
    voice = Voice(options(), "i")
    asked = said(voice, actions.Commit(q(), 9))
    answer = Command(0, {}, b"", asked.command.opaque, RESPONSE)
    assert hear(voice, answer, "another") == Heard()
    assert hear(voice, answer, None) == Heard()
    assert list(hear(voice, answer).events) == [events.CommitConfirmed(q(), 9)]
    assert hear(voice, answer) == Heard()


def test_what_could_not_leave_has_failed() -> None:
    voice = Voice(options(), "i")
    asked = said(voice, actions.Commit(q(), 9))
    assert voice.unsaid(asked) == [events.CommitFailed(q(), 9)]
    assert voice.unsaid(asked) == []
    assert voice.due_ms() == NEVER_MS


def test_a_follow_up_question_has_its_own_time() -> None:
    voice = Voice(options(), "i")
    asked = said(voice, actions.AskOffset(q(), Start()), 0)
    (follow_up,) = hear(voice, Command(22, {}, b"", asked.command.opaque, RESPONSE), now_ms=2_000).says
    assert follow_up.to == BROKER
    assert voice.tick(3_000).events == []
    assert voice.tick(5_000).events == [events.OffsetFailed(q())]


def test_a_broker_that_says_nothing_at_all_is_given_up_after_its_second_miss() -> None:
    voice = Voice(options(), "i")
    said(voice, actions.Heartbeat(BROKER), 0)
    assert voice.tick(3_000).silent == []
    said(voice, actions.Heartbeat(BROKER), 3_000)
    assert voice.tick(6_000).silent == [BROKER]


def test_a_broker_that_says_anything_between_is_not_given_up() -> None:
    voice = Voice(options(), "i")
    said(voice, actions.Heartbeat(BROKER), 0)
    assert voice.tick(3_000).silent == []
    hear(voice, Command(0, {}, b"", 1 << 20, RESPONSE), now_ms=4_000)
    said(voice, actions.Heartbeat(BROKER), 3_000)
    assert voice.tick(6_000).silent == []


def test_a_name_server_is_given_up_at_once() -> None:
    voice = Voice(options(), "i")
    said(voice, actions.AskRoute("orders"), 0)
    assert voice.tick(3_000).silent == [None]


def test_a_cut_line_starts_with_a_clean_slate() -> None:
    voice = Voice(options(), "i")
    said(voice, actions.Heartbeat(BROKER), 0)
    voice.tick(3_000)
    voice.cut(BROKER)
    said(voice, actions.Heartbeat(BROKER), 4_000)
    assert voice.tick(7_000).silent == []


@given(st.lists(st.tuples(st.sampled_from(QUESTIONS), st.sampled_from(["answer", "wait", "cut"]))))
def test_no_question_has_two_outcomes(script: list[tuple[tuple[Action, Event], str]]) -> None:
    voice, now_ms = Voice(options(), "i"), 0
    unanswered = 0
    for (action, _), then in script:
        now_ms += 700
        each = said(voice, action, now_ms)
        unanswered += 1
        if then == "answer":
            answer = Command(1, {}, b"", each.command.opaque, RESPONSE)
            unanswered -= len(hear(voice, answer, each.to, now_ms).events)
        elif then == "wait":
            now_ms += 2_500
            unanswered -= len(voice.tick(now_ms).events)
        else:
            voice.cut(None)
            voice.cut(BROKER)
            unanswered = 0
        assert unanswered >= 0
    assert len(voice.tick(now_ms + 60_000).events) == unanswered
    assert voice.due_ms() == NEVER_MS
