"""The findings of a member: in its group after each rebalance, in its own queues by the clock; each once."""

import pytest

from steelyard.balance.assignors import Average, AverageByCircle, Sticky
from steelyard.balance.group.actions import MemberReport
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue
from tests.balance.group_harness import NAMES, RETRY, GroupHarness, PlanningMember
from tests.balance.member_harness import ME, Q1, MemberHarness, Q

_MINUTE_MS = 60_000


def finding_messages(member: PlanningMember) -> list[str]:
    return [report.sentence for report in member.reports if report.kind == "warning"]


# -- the group ---------------------------------------------------------------------------------------------------------


def test_members_with_different_strategies_are_named_once_while_it_lasts() -> None:
    cluster = GroupHarness({"a": {"t": 6}}, strategy=Average())
    first = cluster.join(NAMES[0], "t")
    cluster.join(NAMES[1], "t")
    cluster.settle()
    cluster.run(_MINUTE_MS)
    assert finding_messages(first) == []
    for _ in range(2):
        cluster.join(NAMES[2], "t", strategy=AverageByCircle())
        cluster.run(_MINUTE_MS)
        cluster.crash(NAMES[2])
        cluster.settle()
    reported = [sentence for sentence in finding_messages(first) if "strategies" in sentence]
    assert len(reported) == 2, "it was well in between"
    assert f"different strategies: {NAMES[2]} AVG_BY_CIRCLE, most AVG" in reported[0]


def test_members_of_ours_that_want_other_topics_are_named_and_nothing_is_said_to_stay_unread() -> None:
    cluster = GroupHarness({"a": {"t": 6, "u": 2}})
    first = cluster.join(NAMES[0], "t")
    cluster.join(NAMES[1], "t")
    cluster.join(NAMES[2], "t", "u")
    cluster.run(_MINUTE_MS)
    (reported,) = finding_messages(first)
    assert f"other topics than most ({NAMES[2]}, in u): each topic is shared among its subscribers" in reported
    cluster.settle()
    assert cluster.planned() == sorted(cluster.readable()), "it is true"


def test_what_a_broker_says_of_subscriptions_is_not_said_again() -> None:
    cluster = GroupHarness({"a": {"t": 6, "u": 2}})
    cluster.brokers["a"].warnings = ("queues of a topic stay unread",)
    cluster.list_foreign("java")
    first = cluster.join(NAMES[0], "t")
    cluster.join(NAMES[1], "t", "u")
    cluster.run(_MINUTE_MS)
    assert finding_messages(first) == ["queues of a topic stay unread"]


def test_on_apaches_broker_members_compare_what_they_report_to_each_other() -> None:
    cluster = GroupHarness({"a": {"t": 6, "u": 2}}, ours=False)
    members = [cluster.join(NAMES[0], "t"), cluster.join(NAMES[1], "t"), cluster.join(NAMES[2], "t", "u")]
    cluster.run(_MINUTE_MS)
    assert set(cluster.planned()) < cluster.readable(), "it is true"
    for member in members:
        (reported,) = [sentence for sentence in finding_messages(member) if "different subscriptions" in sentence]
        assert f"({NAMES[2]}, in u): all topics are shared among all members" in reported
        assert "stay unread" in reported
    cluster.crash(NAMES[2])
    cluster.settle()
    assert not [
        finding for finding in members[0].rebalancer.assignment.monitor.findings if "subscriptions" in finding.message
    ], "it is over"


def test_on_apaches_broker_members_compare_their_filters() -> None:
    cluster = GroupHarness({"a": {"t": 6}}, ours=False)
    first = cluster.join(NAMES[0], "t")
    cluster.join(NAMES[1], "t", filters={"t": "paid"})
    cluster.run(_MINUTE_MS)
    (reported,) = [sentence for sentence in finding_messages(first) if "different subscriptions to t" in sentence]
    assert f"({NAMES[1]} filters by paid, most by *)" in reported


def test_on_apaches_broker_who_is_never_asked_is_not_compared() -> None:
    cluster = GroupHarness({"a": {"t": 6, "u": 2}}, ours=False, strategy=Average())
    first = cluster.join(NAMES[0], "t")
    cluster.join(NAMES[1], "t", "u", strategy=AverageByCircle())
    cluster.run(_MINUTE_MS)
    assert finding_messages(first) == []


def test_an_entry_that_matches_no_member_is_reported_once_its_member_had_time_to_start() -> None:
    one, other = (f"10.0.0.7@till-{number}#7#1700000000#ab12@sy1" for number in (1, 2))
    cluster = GroupHarness({"a": {"t": 6}}, strategy=Sticky(weights={"till-1": 2, "till-2": 1, other: 1}))
    first = cluster.join(one, "t")
    cluster.settle()
    cluster.run(30_000)
    assert finding_messages(first) == [], "the others may be on their way"
    cluster.run(_MINUTE_MS)
    (reported,) = finding_messages(first)
    assert f"weights has entries for till-2, {other}, and group billing has no such member" in reported
    cluster.join(other, "t")
    cluster.settle()
    assert not [each for each in first.rebalancer.assignment.monitor.findings if "entries" in each.message]
    assert [len(member.plan) for member in cluster.members.values()] == [4, 2]


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "apache"])
def test_a_member_for_whom_there_is_no_queue_reports_it(*, ours: bool) -> None:
    cluster = GroupHarness({"a": {"t": 2, RETRY: 1}}, ours=ours)
    members = [cluster.join(name, "t") for name in NAMES[:3]]
    cluster.run(1_000)
    cluster.carry_out()
    cluster.run(_MINUTE_MS)
    idle = [member for member in members if all(queue.topic == RETRY for queue in member.plan)]
    assert len(idle) == 1
    for member in members:
        sentence = f"group billing has 3 members and 2 queues, so {member.id} has nothing to do"
        assert [sentence in reported for reported in finding_messages(member)] == ([True] if member in idle else [])


def test_a_queue_without_an_owner_for_a_minute_is_reported_by_all() -> None:
    cluster = GroupHarness({"a": {"t": 4}})
    members = [cluster.join(name, "t") for name in NAMES[:2]]
    cluster.run(1_000)
    cluster.carry_out(3)
    cluster.run(50_000)
    assert [finding_messages(member) for member in members] == [[], []], "a hand-over has its time"
    cluster.run(2 * _MINUTE_MS)
    (nobodys,) = [queue for queue in cluster.readable() if cluster.owner(queue) is None]
    for member in members:
        (reported,) = finding_messages(member)
        assert reported.startswith(f"no member of group billing reads {nobodys};")


def test_where_owners_cannot_be_known_no_queue_is_reported_as_unowned() -> None:
    cluster = GroupHarness({"a": {"t": 4}}, ours=False, strategy=Average())
    member = cluster.join(NAMES[0], "t")
    cluster.run(3 * _MINUTE_MS)
    assert finding_messages(member) == []


# -- a member's own queues ---------------------------------------------------------------------------------------------


def pass_time(harness: MemberHarness, time_ms: int, *queues: Queue) -> None:
    """Let time pass in which pulls bring nothing more."""
    for _ in range(time_ms // 10_000):
        harness.wait(10_000)
        for queue in queues:
            harness.pulled(queue)


def stalls(harness: MemberHarness) -> list[str]:
    return [report.sentence for report in harness.emitted(MemberReport) if report.kind == "warning"]


@pytest.mark.parametrize("mode", [ConsumeMode.CONCURRENT, ConsumeMode.ORDERLY])
def test_a_queue_that_stalls_with_messages_in_hand_is_reported_once(mode: ConsumeMode) -> None:
    harness = MemberHarness(mode=mode).own(Q, Q1)
    for queue in (Q, Q1):
        harness.pulled(queue, 0, 1, 2)
    pass_time(harness, 50_000, Q, Q1)
    assert stalls(harness) == []
    harness.handled(Q1, 0)
    pass_time(harness, 40_000, Q, Q1)
    (reported,) = stalls(harness)
    assert reported.startswith(f"{ME} of group g has made no progress for 1 min in {Q} (offset 0, lag 3)")
    pass_time(harness, 200_000, Q, Q1)
    assert stalls(harness) == [reported], "one handler hangs, however many queues wait for it"
    (finding,) = harness.member.findings()
    assert f"in {Q}, {Q1} (2 queues, lag 5)" in finding.message


def test_a_queue_without_messages_does_not_stall() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.handled(Q, 0)
    pass_time(harness, 300_000, Q)
    assert stalls(harness) == []


def test_a_queue_that_moves_again_and_then_stalls_is_reported_again() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0, 1, 2)
    pass_time(harness, 100_000, Q)
    harness.handled(Q, 0)
    pass_time(harness, 30_000, Q)
    assert len(stalls(harness)) == 1
    pass_time(harness, 100_000, Q)
    assert len(stalls(harness)) == 2


def test_a_queue_in_doubt_does_not_count_as_standing_still() -> None:
    harness = MemberHarness().own(Q)
    harness.pulled(Q, 0)
    harness.disconnect()
    harness.wait(50_000)
    assert harness.state(Q) is QueueState.UNSURE
    harness.wait(100_000)
    assert stalls(harness) == []
