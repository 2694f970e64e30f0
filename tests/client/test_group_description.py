"""A view of a group is made of facts alone: who has what, what does not move, and what a change would move."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.admin.group_description import (
    GroupDescription,
    GroupFacts,
    MemberDescription,
    describe_group,
    dry_run_rebalance,
)
from steelyard.diagnostics.group import ProgressSample
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

QUEUES = tuple(Queue("orders", "broker-a", number) for number in range(6))
OURS = MemberDescription("a@sy1", "10.0.0.1:5000", ours=True, strategy="STICKY", topics=("orders",))
OTHER = MemberDescription("b@sy1", "10.0.0.2:5000", ours=True, strategy="STICKY", topics=("orders",))
JAVA = MemberDescription("c@7", "10.0.0.3:5000", "JAVA", "4.9.8")


def _at(at_ms: int, committed: int, end: int, earlier: GroupDescription | None = None) -> GroupDescription:
    facts = GroupFacts(
        group="billing",
        at_ms=at_ms,
        members=(OURS,),
        queues=QUEUES[:1],
        claimed={OURS.id: frozenset(QUEUES[:1])},
        progress={QUEUES[0]: ProgressSample(at_ms, committed, end)},
    )
    return describe_group(facts, earlier)


def test_a_queue_that_does_not_move_for_a_minute_is_reported_with_its_owner() -> None:
    first = _at(0, 5, 9)
    assert first.findings == ()
    second = _at(30_000, 5, 12, first)
    assert second.findings == ()
    third = _at(61_000, 5, 12, second)
    assert [finding.kind for finding in third.findings] == ["stuck: a@sy1"]
    assert "a@sy1 of group billing has made no progress for 1 min 1 s in orders@broker-a:0 (offset 5, " in str(third)
    assert _at(90_000, 6, 12, third).findings == ()


def test_watching_for_long_keeps_two_samples_of_a_queue() -> None:
    view = _at(0, 5, 9)
    for minute in range(1, 50):
        view = _at(minute * 60_000, 5, 9, view)
    assert [sample.at_ms for sample in view.samples[QUEUES[0]]] == [0, 49 * 60_000]


def test_on_a_broker_of_ours_the_lock_counts_and_elsewhere_the_member() -> None:
    facts = GroupFacts(
        group="billing",
        at_ms=0,
        members=(OURS, OTHER, JAVA),
        queues=QUEUES[:3],
        locked={QUEUES[0]: OURS.id},
        our_brokers=frozenset({"broker-a"}),
        claimed={OTHER.id: frozenset({QUEUES[0]}), JAVA.id: frozenset({QUEUES[1]})},
    )
    assert [each.owners for each in describe_group(facts).queues] == [(OURS.id,), (JAVA.id,), ()]


def test_an_id_that_a_foreign_broker_lists_twice_is_reported() -> None:
    facts = GroupFacts(
        group="billing", at_ms=0, members=(JAVA,), listed={"broker-a": (JAVA.id, JAVA.id)}, queues=QUEUES[:1]
    )
    assert [finding.kind for finding in describe_group(facts).findings] == [f"duplicate id: {JAVA.id}"]


def test_an_id_that_all_brokers_list_twice_is_reported_once() -> None:
    listed = {"broker-a": (JAVA.id, JAVA.id), "broker-b": (JAVA.id, JAVA.id)}
    facts = GroupFacts(group="billing", at_ms=0, members=(JAVA,), listed=listed)
    assert [finding.kind for finding in describe_group(facts).findings] == [f"duplicate id: {JAVA.id}"]


def test_members_that_want_different_topics_are_reported_where_no_broker_does_it() -> None:
    odd = MemberDescription("z@sy1", ours=True, strategy="STICKY", topics=("orders", "refunds"))
    facts = GroupFacts(group="billing", at_ms=0, members=(OURS, OTHER, odd), queues=QUEUES)
    assert [finding.kind for finding in describe_group(facts).findings] == ["unequal subscriptions"]


def test_a_broadcasting_group_has_no_owners_to_miss() -> None:
    facts = GroupFacts(group="news", at_ms=0, members=(OURS,), broadcast=True, queues=QUEUES)
    view = describe_group(facts)
    assert view.findings == ()
    assert str(view).splitlines()[0] == "group news has 1 member and 6 queues of orders, each member reads all; lag 0"


def test_who_is_about_to_leave_is_shown_so() -> None:
    leaving = MemberDescription("z@sy1", ours=True, strategy="STICKY", leaving=True)
    view = describe_group(GroupFacts(group="billing", at_ms=0, members=(OURS, leaving), queues=QUEUES))
    assert "z@sy1, which is about to leave, has 0 queues" in str(view).splitlines()


def _view(*members: MemberDescription, owned: dict[str, tuple[Queue, ...]]) -> GroupDescription:
    claimed = {name: frozenset(queues) for name, queues in owned.items()}
    return describe_group(GroupFacts(group="billing", at_ms=0, members=members, queues=QUEUES, claimed=claimed))


def test_members_of_others_make_all_share_as_java_does() -> None:
    view = _view(OURS, JAVA, owned={OURS.id: QUEUES[3:], JAVA.id: QUEUES[:3]})
    assert view.strategy == "AVG"
    assert dry_run_rebalance(view).moved == 6
    assert dry_run_rebalance(view, leave=[JAVA.id]).moved == 3


def test_a_group_that_does_not_say_how_it_shares_wants_to_be_told() -> None:
    silent = MemberDescription("a@sy1", ours=True)
    view = _view(silent, owned={silent.id: QUEUES})
    with pytest.raises(ConfigurationError, match="give strategy, such as sticky"):
        dry_run_rebalance(view)
    assert dry_run_rebalance(view, join=["b@sy1"], strategy="sticky").moved == 3
    odd = MemberDescription("a@sy1", ours=True, strategy="CONFIG")
    with pytest.raises(ConfigurationError, match="has strategy CONFIG, which cannot be tried out here"):
        dry_run_rebalance(_view(odd, owned={}))


def test_everybody_may_be_replaced() -> None:
    view = _view(OURS, OTHER, owned={OURS.id: QUEUES[:3], OTHER.id: QUEUES[3:]})
    reported = dry_run_rebalance(view, join=["x@sy1", "y@sy1"], leave=[OURS.id, OTHER.id])
    assert (reported.moved, reported.least, reported.most, reported.fewest) == (6, 6, 3, 3)


def test_only_members_leave_and_only_others_join() -> None:
    view = _view(OURS, owned={OURS.id: QUEUES})
    with pytest.raises(ConfigurationError, match=r"x cannot leave group billing: no member has that id"):
        dry_run_rebalance(view, leave=["x"])
    with pytest.raises(ConfigurationError, match="it is there already"):
        dry_run_rebalance(view, join=[OURS.id])


def test_a_topic_is_shared_by_those_who_want_it() -> None:
    refunds = Queue("refunds", "broker-a", 0)
    more = MemberDescription("c@sy1", ours=True, strategy="STICKY", topics=("orders", "refunds"))
    claimed = {OURS.id: frozenset(QUEUES[:3]), more.id: frozenset({*QUEUES[3:], refunds})}
    view = describe_group(
        GroupFacts(group="billing", at_ms=0, members=(OURS, more), queues=(*QUEUES, refunds), claimed=claimed)
    )
    reported = dry_run_rebalance(view)
    assert reported.moved == 0
    assert next(change.now for change in reported.changes if change.queue == refunds) == more.id


@given(
    owners=st.lists(st.sampled_from([OURS.id, OTHER.id]), min_size=6, max_size=6),
    joining=st.integers(0, 3),
    leaves=st.booleans(),
)
def test_a_sticky_change_moves_the_least_and_leaves_nothing_unowned(
    owners: list[str], joining: int, leaves: bool
) -> None:
    owned = {
        name: tuple(queue for queue, owner in zip(QUEUES, owners, strict=True) if owner == name)
        for name in (OURS.id, OTHER.id)
    }
    view = _view(OURS, OTHER, owned=owned)
    reported = dry_run_rebalance(view, join=[f"x{n}@sy1" for n in range(joining)], leave=[OTHER.id] if leaves else [])
    assert reported.moved == reported.least
    assert all(change.now is not None for change in reported.changes)
    assert reported.most - reported.fewest <= 1


def test_since_when_a_queue_is_owned_is_reported_by_its_only_owner() -> None:
    since = datetime(2026, 11, 1, tzinfo=UTC)
    owned_at = {(OURS.id, QUEUES[0]): since}
    facts = GroupFacts(
        group="billing", at_ms=0, queues=QUEUES[:1], claimed={OURS.id: frozenset(QUEUES[:1])}, owned_at=owned_at
    )
    assert describe_group(facts).queues[0].owned_at == since
    both = replace(facts, claimed={name: frozenset(QUEUES[:1]) for name in (OURS.id, OTHER.id)})
    assert describe_group(both).queues[0].owned_at is None
