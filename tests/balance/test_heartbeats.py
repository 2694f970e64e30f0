"""What a member knows of its brokers, and when it sends heartbeats to them."""

from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.balance.group.actions import Action, MemberReport, QueryUptime, SendHeartbeat
from steelyard.balance.group.events import (
    ConnectionLost,
    ConnectionOpened,
    HeartbeatAcknowledged,
    HeartbeatFailed,
    Tick,
    UptimeReceived,
)
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import MemberOptions, MemberTimings
from steelyard.model import Queue, Subscription

_OPTIONS = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
_HELD = {Queue("orders", "a", 0): 17}
_TIMES = MemberTimings()


def _sessions() -> BrokerSessions:
    sessions = BrokerSessions(_OPTIONS)
    sessions.held_leases = lambda broker: _HELD if broker == "a" else {}
    return sessions


def _registered(*brokers: str, ours: bool = True) -> BrokerSessions:
    sessions = _sessions()
    for broker in brokers:
        sessions.step(ConnectionOpened(broker), 0)
        sessions.step(HeartbeatAcknowledged(broker, is_steelyard=ours, heartbeat_ms=3_000 if ours else None), 5)
        sessions.step(UptimeReceived(broker, 1_000_000), 5)
    return sessions


def _beats(actions: list[Action]) -> list[SendHeartbeat]:
    return [action for action in actions if isinstance(action, SendHeartbeat)]


def test_a_connection_begins_with_a_heartbeat_that_says_what_is_held() -> None:
    actions = _sessions().step(ConnectionOpened("a"), 0)
    assert actions == [SendHeartbeat("a", held=_HELD, strategy="STICKY", subscription_version=0), QueryUptime("a")]


def test_what_is_held_is_said_until_a_heartbeat_was_answered_and_then_no_more() -> None:
    sessions = _sessions()
    sessions.step(ConnectionOpened("a"), 0)
    sessions.step(HeartbeatFailed("a"), 100)
    (again,) = _beats(sessions.step(Tick(), sessions.due_ms()))
    assert again.held == _HELD
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 1_200)
    (usual,) = _beats(sessions.step(Tick(), sessions.due_ms()))
    assert usual.held is None


def test_a_member_is_registered_on_the_very_connection_that_is_up() -> None:
    sessions = _registered("a")
    assert sessions.is_connected("a")
    assert sessions.is_registered("a")
    assert sessions.is_steelyard("a") is True
    sessions.step(ConnectionLost("a"), 10)
    assert not sessions.is_connected("a")
    sessions.step(ConnectionOpened("a"), 20)
    assert sessions.is_connected("a")
    assert not sessions.is_registered("a")
    assert sessions.is_steelyard("a") is True, "what a broker was, it most likely is"
    assert not sessions.is_connected("b")
    assert sessions.is_steelyard("b") is None


def test_a_proof_is_as_old_as_its_question() -> None:
    sessions = _registered("a")
    assert sessions.proven_ms("a") == 0
    sessions.step(Tick(), 3_000)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 5_900)
    assert sessions.proven_ms("a") == 3_000
    sessions.step(ConnectionLost("a"), 6_000)
    assert sessions.proven_ms("a") == 3_000


@given(st.lists(st.tuples(st.integers(1, 4_000), st.sampled_from(["beat", "answer", "fail"]), st.integers(0, 9))))
@example([(3_000, "beat", 0)] * 4 + [(1, "fail", 0), (1, "answer", 0), (1, "answer", 0), (1, "answer", 0)])
def test_no_proof_is_newer_than_the_newest_answered_heartbeat(history: list[tuple[int, str, int]]) -> None:
    sessions = _registered("a")
    now_ms, answered = 5, [0]
    sent: list[int] = []
    begun: list[int] = []  # all that were sent since none was unanswered
    answers = 0  # to those
    for passed_ms, what, which in history:
        now_ms += passed_ms
        if what == "beat":
            actions = sessions.step(Tick(), now_ms)
        elif not sent:
            continue
        else:
            at_ms = sent.pop(which % len(sent))
            if what == "answer":
                answered.append(at_ms)
                answers += 1
                actions = sessions.step(HeartbeatAcknowledged("a", is_steelyard=True, heartbeat_ms=3_000), now_ms)
            else:
                actions = sessions.step(HeartbeatFailed("a"), now_ms)
        proven_ms = sessions.proven_ms("a")
        assert proven_ms is not None
        assert proven_ms <= max(answered)
        if answers:
            # So many answers prove the first so many heartbeats at least; if none failed, all of them.
            assert proven_ms >= begun[answers - 1]
        if not sent:
            begun, answers = [], 0
        sent += [now_ms for _ in _beats(actions)]
        begun += [now_ms for _ in _beats(actions)]


def test_heartbeats_keep_the_rhythm_of_the_broker() -> None:
    assert _registered("a").due_ms() == 3_000
    assert _registered("a", ours=False).due_ms() == 30_000
    sessions = _sessions()
    sessions.step(ConnectionOpened("a"), 0)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=True, heartbeat_ms=1_000), 5)
    assert sessions.due_ms() == 1_000
    sessions.step(ConnectionLost("a"), 10)
    assert sessions.step(Tick(), 100_000) == []


def test_a_change_is_sent_to_every_broker_at_once_and_the_version_grows() -> None:
    sessions = _registered("a", "b")
    reported = _beats(sessions.send_heartbeat(None, 50))
    assert [(beat.broker, beat.subscription_version) for beat in reported] == [("a", 1), ("b", 1)]
    assert sessions.send_heartbeat("c", 60) == []


def test_many_changes_cost_one_heartbeat_more_not_many() -> None:
    sessions = _registered("a")
    assert len(sessions.send_heartbeat(None, 50)) == 1
    assert [sessions.send_heartbeat(None, 51 + n) for n in range(10)] == [[]] * 10
    (last,) = _beats(sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 70))
    assert last.subscription_version == 11
    assert sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 75) == []


def test_that_we_leave_is_said_at_once() -> None:
    sessions = _registered("a")
    sessions.send_heartbeat(None, 50)
    sessions.is_leaving = True
    (beat,) = _beats(sessions.send_heartbeat(None, 51))
    assert beat.is_leaving


def test_a_refused_heartbeat_is_tried_again_and_reported_once() -> None:
    sessions = _sessions()
    sessions.step(ConnectionOpened("a"), 0)
    reports = []
    for n in range(3):
        actions = sessions.step(HeartbeatFailed("a", "the id is taken"), 1_000 * n + 5)
        reports += [action for action in actions if isinstance(action, MemberReport)]
        assert sessions.due_ms() == 1_000 * n + 5 + _TIMES.query_retry_ms
        assert len(_beats(sessions.step(Tick(), sessions.due_ms()))) == 1
    assert len(reports) == 1
    assert "the id is taken" in reports[0].sentence
    assert not sessions.is_registered("a")


def test_a_broker_that_is_not_ours_settles_after_its_start() -> None:
    sessions = _sessions()
    assert sessions.is_settling("a", 0, has_foreign=False), "nothing is known of it"
    sessions.step(ConnectionOpened("a"), 0)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=False), 5)
    assert sessions.is_settling("a", 10, has_foreign=False), "its uptime is not known"
    sessions.step(UptimeReceived("a", 1_000), 10)
    assert sessions.is_settling("a", 2_009, has_foreign=False)
    assert not sessions.is_settling("a", 2_010, has_foreign=False)
    assert sessions.is_settling("a", 2_010, has_foreign=True), "foreign members beat every half minute"
    assert not sessions.is_settling("a", 34_010, has_foreign=True)


def test_a_broker_without_an_uptime_counts_from_our_connection() -> None:
    sessions = _sessions()
    sessions.step(ConnectionOpened("a"), 100)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=False), 105)
    sessions.step(UptimeReceived("a", None), 200)
    assert sessions.is_settling("a", 3_099, has_foreign=False)
    assert not sessions.is_settling("a", 3_100, has_foreign=False)


def test_our_broker_settles_by_itself() -> None:
    sessions = _sessions()
    sessions.step(ConnectionOpened("a"), 0)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 5)
    assert not sessions.is_settling("a", 6, has_foreign=True)


def test_only_a_connection_after_another_is_a_reconnect() -> None:
    sessions = _registered("a")
    assert (sessions.is_connected("a"), sessions.reconnected_ms("a")) == (True, None)
    sessions.step(ConnectionLost("a"), 10)
    assert not sessions.is_connected("a")
    sessions.step(ConnectionOpened("a"), 20)
    assert (sessions.is_connected("a"), sessions.reconnected_ms("a")) == (True, 20)


def test_a_response_of_a_lost_connection_proves_nothing() -> None:
    sessions = _registered("a")
    sessions.step(Tick(), 3_000)
    sessions.step(ConnectionLost("a"), 3_001)
    sessions.step(HeartbeatAcknowledged("a", is_steelyard=True), 3_002)
    assert sessions.proven_ms("a") == 0
    assert not sessions.is_registered("a")
