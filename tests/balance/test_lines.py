"""What a member knows of its brokers, and when it lets them hear of it."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.actions import Action, AskUptime, Heartbeat, Report
from steelyard.balance.events import BeatAnswered, BeatFailed, LineCut, LineOpened, Tick, UptimeSeen
from steelyard.balance.lines import Lines
from steelyard.balance.member_options import MemberOptions, Times
from steelyard.model import Queue, Subscription

_OPTIONS = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
_HELD = {Queue("orders", "a", 0): 17}
_TIMES = Times()


def _lines() -> Lines:
    lines = Lines(_OPTIONS)
    lines.claims = lambda broker: _HELD if broker == "a" else {}
    return lines


def _registered(*brokers: str, ours: bool = True) -> Lines:
    lines = _lines()
    for broker in brokers:
        lines.step(LineOpened(broker), 0)
        lines.step(BeatAnswered(broker, ours=ours, heartbeat_ms=3_000 if ours else None), 5)
        lines.step(UptimeSeen(broker, 1_000_000), 5)
    return lines


def _beats(actions: list[Action]) -> list[Heartbeat]:
    return [action for action in actions if isinstance(action, Heartbeat)]


def test_a_line_begins_with_a_heartbeat_that_says_what_is_held() -> None:
    actions = _lines().step(LineOpened("a"), 0)
    assert actions == [Heartbeat("a", held=_HELD, strategy="STICKY", version=0), AskUptime("a")]


def test_what_is_held_is_said_until_a_heartbeat_was_answered_and_then_no_more() -> None:
    lines = _lines()
    lines.step(LineOpened("a"), 0)
    lines.step(BeatFailed("a"), 100)
    (again,) = _beats(lines.step(Tick(), lines.due_ms()))
    assert again.held == _HELD
    lines.step(BeatAnswered("a", ours=True), 1_200)
    (usual,) = _beats(lines.step(Tick(), lines.due_ms()))
    assert usual.held is None


def test_a_member_is_registered_on_the_very_line_that_is_up() -> None:
    lines = _registered("a")
    assert lines.is_open("a")
    assert lines.is_registered("a")
    assert lines.is_ours("a") is True
    lines.step(LineCut("a"), 10)
    assert not lines.is_open("a")
    lines.step(LineOpened("a"), 20)
    assert lines.is_open("a")
    assert not lines.is_registered("a")
    assert lines.is_ours("a") is True, "what a broker was, it most likely is"
    assert not lines.is_open("b")
    assert lines.is_ours("b") is None


def test_a_proof_is_as_old_as_its_question() -> None:
    lines = _registered("a")
    assert lines.proven_ms("a") == 0
    lines.step(Tick(), 3_000)
    lines.step(BeatAnswered("a", ours=True), 5_900)
    assert lines.proven_ms("a") == 3_000
    lines.step(LineCut("a"), 6_000)
    assert lines.proven_ms("a") == 3_000


@given(st.lists(st.tuples(st.integers(1, 4_000), st.sampled_from(["beat", "answer", "fail"]), st.integers(0, 9))))
def test_no_proof_is_newer_than_the_newest_answered_heartbeat(history: list[tuple[int, str, int]]) -> None:
    lines = _registered("a")
    now_ms, answered = 5, [0]
    sent: list[int] = []
    for passed_ms, what, which in history:
        now_ms += passed_ms
        if what == "beat":
            actions = lines.step(Tick(), now_ms)
        elif not sent:
            continue
        else:
            at_ms = sent.pop(which % len(sent))
            if what == "answer":
                answered.append(at_ms)
                actions = lines.step(BeatAnswered("a", ours=True, heartbeat_ms=3_000), now_ms)
            else:
                actions = lines.step(BeatFailed("a"), now_ms)
        sent += [now_ms for _ in _beats(actions)]
        proven_ms = lines.proven_ms("a")
        assert proven_ms is not None
        assert proven_ms <= max(answered)
        if not sent and what == "answer":
            assert proven_ms >= min(answered[-1], max(answered))


def test_heartbeats_keep_the_rhythm_of_the_broker() -> None:
    assert _registered("a").due_ms() == 3_000
    assert _registered("a", ours=False).due_ms() == 30_000
    lines = _lines()
    lines.step(LineOpened("a"), 0)
    lines.step(BeatAnswered("a", ours=True, heartbeat_ms=1_000), 5)
    assert lines.due_ms() == 1_000
    lines.step(LineCut("a"), 10)
    assert lines.step(Tick(), 100_000) == []


def test_a_change_is_told_to_every_broker_at_once_and_the_version_grows() -> None:
    lines = _registered("a", "b")
    told = _beats(lines.beat(None, 50))
    assert [(beat.broker, beat.version) for beat in told] == [("a", 1), ("b", 1)]
    assert lines.beat("c", 60) == []


def test_many_changes_cost_one_heartbeat_more_not_many() -> None:
    lines = _registered("a")
    assert len(lines.beat(None, 50)) == 1
    assert [lines.beat(None, 51 + n) for n in range(10)] == [[]] * 10
    (last,) = _beats(lines.step(BeatAnswered("a", ours=True), 70))
    assert last.version == 11
    assert lines.step(BeatAnswered("a", ours=True), 75) == []


def test_that_we_leave_is_said_at_once() -> None:
    lines = _registered("a")
    lines.beat(None, 50)
    lines.leaving = True
    (beat,) = _beats(lines.beat(None, 51))
    assert beat.leaving


def test_a_refused_heartbeat_is_tried_again_and_reported_once() -> None:
    lines = _lines()
    lines.step(LineOpened("a"), 0)
    reports = []
    for n in range(3):
        actions = lines.step(BeatFailed("a", "the id is taken"), 1_000 * n + 5)
        reports += [action for action in actions if isinstance(action, Report)]
        assert lines.due_ms() == 1_000 * n + 5 + _TIMES.ask_again_ms
        assert len(_beats(lines.step(Tick(), lines.due_ms()))) == 1
    assert len(reports) == 1
    assert "the id is taken" in reports[0].sentence
    assert not lines.is_registered("a")


def test_a_broker_that_is_not_ours_settles_after_its_start() -> None:
    lines = _lines()
    assert lines.settles("a", 0, foreign=False), "nothing is known of it"
    lines.step(LineOpened("a"), 0)
    lines.step(BeatAnswered("a", ours=False), 5)
    assert lines.settles("a", 10, foreign=False), "it has not told its age"
    lines.step(UptimeSeen("a", 1_000), 10)
    assert lines.settles("a", 2_009, foreign=False)
    assert not lines.settles("a", 2_010, foreign=False)
    assert lines.settles("a", 2_010, foreign=True), "foreign members beat every half minute"
    assert not lines.settles("a", 34_010, foreign=True)


def test_a_broker_that_does_not_tell_its_age_counts_from_our_line() -> None:
    lines = _lines()
    lines.step(LineOpened("a"), 100)
    lines.step(BeatAnswered("a", ours=False), 105)
    lines.step(UptimeSeen("a", None), 200)
    assert lines.settles("a", 3_099, foreign=False)
    assert not lines.settles("a", 3_100, foreign=False)


def test_our_broker_settles_by_itself() -> None:
    lines = _lines()
    lines.step(LineOpened("a"), 0)
    lines.step(BeatAnswered("a", ours=True), 5)
    assert not lines.settles("a", 6, foreign=True)


def test_only_a_line_after_a_cut_is_a_restored_one() -> None:
    lines = _registered("a")
    assert (lines.opened_ms("a"), lines.restored_ms("a")) == (0, None)
    lines.step(LineCut("a"), 10)
    assert lines.opened_ms("a") is None
    lines.step(LineOpened("a"), 20)
    assert (lines.opened_ms("a"), lines.restored_ms("a")) == (20, 20)


def test_an_answer_of_a_line_that_is_gone_proves_nothing() -> None:
    lines = _registered("a")
    lines.step(Tick(), 3_000)
    lines.step(LineCut("a"), 3_001)
    lines.step(BeatAnswered("a", ours=True), 3_002)
    assert lines.proven_ms("a") == 0
    assert not lines.is_registered("a")
