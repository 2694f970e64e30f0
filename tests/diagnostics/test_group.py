"""What looks wrong in a group is found and named in one sentence; what is fine is not."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from steelyard.diagnostics.group import (
    WaitingQueue,
    dead_letters,
    duplicate_ids,
    growing_lag,
    idle_members,
    next_lag_samples,
    no_members,
    stuck_queues,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.model import Queue
from steelyard.model.finding import Severity

_QUEUES = [Queue("orders", "broker-a", number) for number in range(8)]


def test_an_id_that_is_listed_twice_is_named() -> None:
    found = duplicate_ids("billing", ["c2", "c1", "c2", "c1", "c3"])
    assert [finding.kind for finding in found] == ["duplicate id: c1", "duplicate id: c2"]
    assert "lists c1 more than once" in found[0].message
    assert "it reads only the first of its shares, so queues stay unread" in found[0].message
    (ours,) = duplicate_ids("billing", ["c2@sy1", "c1@sy1", "c2@sy1"])
    assert "members count it once and no queue stays unread" in ours.message
    (beside,) = duplicate_ids("billing", ["c2@sy1", "java", "c2@sy1"])
    assert "queues stay unread" in beside.message
    assert not duplicate_ids("billing", ["c1", "c2"])


def test_members_that_want_other_topics_than_most_are_named_with_the_topics() -> None:
    topics = {"c1": ["orders"], "c2": ["orders"], "c3": ["orders", "refunds"]}
    (finding,) = unequal_subscriptions("billing", topics)
    assert "(c3, in refunds): all topics are shared among all members" in finding.message
    assert "stay unread" in finding.message
    (mild,) = unequal_subscriptions("billing", topics, by_subscribers=True)
    assert mild.kind != finding.kind
    assert "each topic is shared among its subscribers and all queues are read" in mild.message
    assert not unequal_subscriptions("billing", {"c1": ["b", "a"], "c2": ["a", "b"]})
    assert not unequal_subscriptions("billing", {})


def test_members_that_want_other_messages_than_most_are_named_with_the_filters() -> None:
    filters = {"c1": {"orders": "paid || sent"}, "c2": {"orders": "sent||paid"}, "c3": {"orders": "*", "refunds": "*"}}
    (finding,) = unequal_filters("billing", filters)
    assert "different subscriptions to orders (c3 filters by *, most by paid || sent)" in finding.message
    assert not unequal_filters("billing", {"c1": filters["c1"], "c2": filters["c2"]})


def test_members_with_different_strategies_are_named() -> None:
    (finding,) = unequal_strategies("billing", {"c1": "STICKY", "c2": "AVG", "c3": "STICKY"})
    assert "c2 AVG, most STICKY" in finding.message
    assert not unequal_strategies("billing", {"c1": "AVG", "c2": "AVG"})


def test_more_members_than_queues_is_reported() -> None:
    (finding,) = idle_members("billing", {"c1": _QUEUES[:1], "c2": [], "c3": _QUEUES[1:2], "c4": []})
    assert finding.message.startswith("group billing has 4 members and 2 queues, so c2, c4 have nothing to do")
    assert not idle_members("billing", {"c1": _QUEUES})


def test_queues_without_an_owner_are_named_a_few_at_a_time() -> None:
    (finding,) = unowned_queues("billing", _QUEUES, _QUEUES[:1])
    assert "orders@broker-a:1, orders@broker-a:2" in finding.message
    assert "orders@broker-a:5 and 2 more" in finding.message
    assert not unowned_queues("billing", _QUEUES, _QUEUES)


def test_a_member_that_makes_no_progress_is_named_with_its_queues_and_the_oldest_message() -> None:
    owners = dict.fromkeys(_QUEUES[:3], "c1")
    waiting = [
        WaitingQueue(_QUEUES[0], 0, 10, 5, 20_000),
        WaitingQueue(_QUEUES[1], 40_000, 7, 2),
        WaitingQueue(_QUEUES[2], 150_000, 7, 2),
        WaitingQueue(_QUEUES[3], 0, 7, 2),
    ]
    (finding,) = stuck_queues("billing", waiting, owners, 200_000)
    assert finding.kind == "stuck: c1"
    assert finding.message == (
        "c1 of group billing has made no progress for 3 min in orders@broker-a:0, orders@broker-a:1 (2 queues, lag 7), "
        "and the oldest waiting message is 3 min old"
    )
    assert dict(finding.evidence) == {"seconds_since_progress": 180, "lag": 7, "oldest_seconds": 180}
    assert finding.severity is Severity.WARNING, "a slow handler looks the same"


def test_an_idle_queue_makes_no_progress_and_is_not_stuck() -> None:
    waiting = [WaitingQueue(_QUEUES[0], 0, 10, 1, 190_000)]
    assert not stuck_queues("billing", waiting, {_QUEUES[0]: "c1"}, 200_000), "its message just came"


def test_a_lag_that_grows_through_three_samples_is_reported_and_a_burst_is_not() -> None:
    samples: tuple[tuple[int, int], ...] = ()
    for at_ms, lag in ((0, 0), (30_000, 300), (60_000, 400), (61_000, 500), (119_000, 800)):
        samples = next_lag_samples(samples, at_ms, lag)
        assert not growing_lag("billing", samples)
    for at_ms, lag, grown in (
        (120_000, 900, "0 to 900 messages in 2 min"),
        (190_000, 2_000, "0 to 2,000 messages in 3 min"),
    ):
        samples = next_lag_samples(samples, at_ms, lag)
        (finding,) = growing_lag("billing", samples)
        assert f"grew from {grown}" in finding.message
    assert len(next_lag_samples(samples, 400_000, 1)) == 4
    assert not growing_lag("billing", [(0, 0), (60_000, 900), (120_000, 800)])
    assert not growing_lag("billing", [(0, 0), (60_000, 9), (120_000, 20)]), "so few are noise"


def test_a_group_without_members_is_reported_if_messages_wait_for_one() -> None:
    (finding,) = no_members("billing", 0, 3)
    assert str(finding).startswith("group billing has no member online and a lag of 3 messages; start its consumers")
    assert not no_members("billing", 0, 0)
    assert not no_members("billing", 1, 3)


def test_dead_letters_are_news_for_a_day_and_worse_while_they_grow() -> None:
    now = datetime(2026, 11, 1, 12, tzinfo=UTC)
    (finding,) = dead_letters("billing", 3, now - timedelta(hours=2), now)
    assert finding.message == "group billing has 3 dead letters, the last 2 h old"
    assert finding.severity is Severity.WARNING
    (growing,) = dead_letters("billing", 3, now, now, growth=2, span_s=600)
    assert growing.severity is Severity.ERROR
    assert "gave up 2 messages within the last 10 min" in growing.message
    assert not dead_letters("billing", 3, now - timedelta(days=2), now)


@given(st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), st.lists(st.sampled_from(["a", "b"]), unique=True)))
def test_equal_subscriptions_are_no_finding_whatever_their_order(topics: dict[str, list[str]]) -> None:
    is_equal = len({frozenset(wanted) for wanted in topics.values()}) <= 1
    assert bool(unequal_subscriptions("billing", topics)) is not is_equal
