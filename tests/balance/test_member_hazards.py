"""What a member tells of what looks wrong: in its group after each look, in its own queues by the clock; each once."""

import pytest
from tests.balance.crowd import NAMES, RETRY, Crowd, Watcher
from tests.balance.stage import ME, Q1, Q, Stage

from steelyard.balance.actions import Report
from steelyard.balance.allocate import Average, Circle, Sticky
from steelyard.balance.life import State
from steelyard.balance.member_options import Mode
from steelyard.model import Queue

_MINUTE_MS = 60_000


def hazards(member: Watcher) -> list[str]:
    return [report.sentence for report in member.told if report.kind == "hazard"]


# -- the group ---------------------------------------------------------------------------------------------------------


def test_members_with_different_strategies_are_named_once_while_it_lasts() -> None:
    crowd = Crowd({"a": {"t": 6}}, strategy=Average())
    first = crowd.join(NAMES[0], "t")
    crowd.join(NAMES[1], "t")
    crowd.settle()
    crowd.run(_MINUTE_MS)
    assert hazards(first) == []
    for _ in range(2):
        crowd.join(NAMES[2], "t", strategy=Circle())
        crowd.run(_MINUTE_MS)
        crowd.crash(NAMES[2])
        crowd.settle()
    told = [sentence for sentence in hazards(first) if "strategies" in sentence]
    assert len(told) == 2, "it was well in between"
    assert f"different strategies: {NAMES[2]} by AVG_BY_CIRCLE, most by AVG" in told[0]


def test_members_of_ours_that_want_other_topics_are_named_and_nothing_is_said_to_stay_unread() -> None:
    crowd = Crowd({"a": {"t": 6, "u": 2}})
    first = crowd.join(NAMES[0], "t")
    crowd.join(NAMES[1], "t")
    crowd.join(NAMES[2], "t", "u")
    crowd.run(_MINUTE_MS)
    (told,) = hazards(first)
    assert f"other topics than most ({NAMES[2]}, in u): each topic is shared among its subscribers" in told
    crowd.settle()
    assert crowd.planned() == sorted(crowd.readable()), "it is true"


def test_what_a_broker_says_of_subscriptions_is_not_said_again() -> None:
    crowd = Crowd({"a": {"t": 6, "u": 2}})
    crowd.brokers["a"].hazards = ("queues of a topic stay unread",)
    crowd.list_stranger("java")
    first = crowd.join(NAMES[0], "t")
    crowd.join(NAMES[1], "t", "u")
    crowd.run(_MINUTE_MS)
    assert hazards(first) == ["queues of a topic stay unread"]


def test_on_apaches_broker_members_compare_what_they_tell_each_other() -> None:
    crowd = Crowd({"a": {"t": 6, "u": 2}}, ours=False)
    members = [crowd.join(NAMES[0], "t"), crowd.join(NAMES[1], "t"), crowd.join(NAMES[2], "t", "u")]
    crowd.run(_MINUTE_MS)
    assert set(crowd.planned()) < crowd.readable(), "it is true"
    for member in members:
        (told,) = [sentence for sentence in hazards(member) if "subscribe to other topics" in sentence]
        assert f"({NAMES[2]}, in u): all topics are shared among all members" in told
        assert "stay unread" in told
    crowd.crash(NAMES[2])
    crowd.settle()
    assert not [hazard for hazard in members[0].views.hazards if "subscribe" in hazard.sentence], "it is over"


def test_on_apaches_broker_members_compare_their_filters() -> None:
    crowd = Crowd({"a": {"t": 6}}, ours=False)
    first = crowd.join(NAMES[0], "t")
    crowd.join(NAMES[1], "t", filters={"t": "paid"})
    crowd.run(_MINUTE_MS)
    (told,) = [sentence for sentence in hazards(first) if "filter t differently" in sentence]
    assert f"({NAMES[1]} by paid, most by *)" in told


def test_on_apaches_broker_who_is_never_asked_is_not_compared() -> None:
    crowd = Crowd({"a": {"t": 6, "u": 2}}, ours=False, strategy=Average())
    first = crowd.join(NAMES[0], "t")
    crowd.join(NAMES[1], "t", "u", strategy=Circle())
    crowd.run(_MINUTE_MS)
    assert hazards(first) == []


def test_an_entry_that_is_about_nobody_is_told_once_its_member_had_time_to_start() -> None:
    one, other = (f"10.0.0.7@till-{number}#7#1700000000#ab12@sy1" for number in (1, 2))
    crowd = Crowd({"a": {"t": 6}}, strategy=Sticky(weights={"till-1": 2, "till-2": 1, other: 1}))
    first = crowd.join(one, "t")
    crowd.settle()
    crowd.run(30_000)
    assert hazards(first) == [], "the others may be on their way"
    crowd.run(_MINUTE_MS)
    (told,) = hazards(first)
    assert f"weights has entries for till-2, {other}, and group billing has no such member" in told
    crowd.join(other, "t")
    crowd.settle()
    assert not [each for each in first.views.hazards if "entries" in each.sentence]
    assert [len(member.plan) for member in crowd.members.values()] == [4, 2]


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "apache"])
def test_a_member_for_whom_there_is_no_queue_says_so(*, ours: bool) -> None:
    crowd = Crowd({"a": {"t": 2, RETRY: 1}}, ours=ours)
    members = [crowd.join(name, "t") for name in NAMES[:3]]
    crowd.run(1_000)
    crowd.carry_out()
    crowd.run(_MINUTE_MS)
    idle = [member for member in members if all(queue.topic == RETRY for queue in member.plan)]
    assert len(idle) == 1
    for member in members:
        sentence = f"group billing has 3 members and 2 queues, so {member.id} has nothing to do"
        assert [sentence in told for told in hazards(member)] == ([True] if member in idle else [])


def test_a_queue_that_nobody_owns_for_a_minute_is_told_of_by_all() -> None:
    crowd = Crowd({"a": {"t": 4}})
    members = [crowd.join(name, "t") for name in NAMES[:2]]
    crowd.run(1_000)
    crowd.carry_out(3)
    crowd.run(50_000)
    assert [hazards(member) for member in members] == [[], []], "a hand-over has its time"
    crowd.run(2 * _MINUTE_MS)
    (nobodys,) = [queue for queue in crowd.readable() if crowd.owner(queue) is None]
    for member in members:
        (told,) = hazards(member)
        assert told.startswith(f"nobody in group billing reads {nobodys};")


def test_where_owners_cannot_be_known_nobody_says_that_there_are_none() -> None:
    crowd = Crowd({"a": {"t": 4}}, ours=False, strategy=Average())
    member = crowd.join(NAMES[0], "t")
    crowd.run(3 * _MINUTE_MS)
    assert hazards(member) == []


# -- a member's own queues ---------------------------------------------------------------------------------------------


def pass_time(stage: Stage, time_ms: int, *queues: Queue) -> None:
    """Let time pass in which pulls bring nothing more."""
    for _ in range(time_ms // 10_000):
        stage.wait(10_000)
        for queue in queues:
            stage.pulled(queue)


def stalls(stage: Stage) -> list[str]:
    return [report.sentence for report in stage.said(Report) if report.kind == "hazard"]


@pytest.mark.parametrize("mode", [Mode.CONCURRENT, Mode.ORDERLY])
def test_a_queue_that_stands_still_with_messages_in_hand_is_told_of_once(mode: Mode) -> None:
    stage = Stage(mode=mode).own(Q, Q1)
    for queue in (Q, Q1):
        stage.pulled(queue, 0, 1, 2)
    pass_time(stage, 50_000, Q, Q1)
    assert stalls(stage) == []
    stage.handled(Q1, 0)
    pass_time(stage, 40_000, Q, Q1)
    (told,) = stalls(stage)
    assert told.startswith(f"{ME} owns {Q} in group g and has been at offset 0 for ")
    assert "with 3 messages behind it" in told
    pass_time(stage, 200_000, Q, Q1)
    assert [sentence.split(" in group")[0] for sentence in stalls(stage)] == [f"{ME} owns {Q}", f"{ME} owns {Q1}"]


def test_a_queue_that_has_nothing_to_do_does_not_stand_still() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.handled(Q, 0)
    pass_time(stage, 300_000, Q)
    assert stalls(stage) == []


def test_a_queue_that_moves_again_and_then_stands_still_is_told_of_again() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0, 1, 2)
    pass_time(stage, 100_000, Q)
    stage.handled(Q, 0)
    pass_time(stage, 30_000, Q)
    assert len(stalls(stage)) == 1
    pass_time(stage, 100_000, Q)
    assert len(stalls(stage)) == 2


def test_a_queue_in_doubt_does_not_count_as_standing_still() -> None:
    stage = Stage().own(Q)
    stage.pulled(Q, 0)
    stage.cut()
    stage.wait(50_000)
    assert stage.state(Q) is State.UNSURE
    stage.wait(100_000)
    assert stalls(stage) == []
