"""What looks wrong in a group is found and named in one sentence; what is fine is not."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group.diagnostics import (
    ProgressSample,
    duplicate_ids,
    idle_members,
    stalled_queues,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.model import Queue

_QUEUES = [Queue("orders", "broker-a", number) for number in range(8)]


def test_an_id_that_is_listed_twice_is_named() -> None:
    found = duplicate_ids("billing", ["c2", "c1", "c2", "c1", "c3"])
    assert [finding.kind for finding in found] == ["duplicate c1", "duplicate c2"]
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
    assert "filter orders differently (c3 by *, most by paid || sent)" in finding.message
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


def test_a_queue_that_is_owned_and_stands_still_is_reported() -> None:
    stuck, moving, empty, young = _QUEUES[:4]
    samples = {
        stuck: [
            ProgressSample(0, 4, 9),
            ProgressSample(10_000, 7, 9),
            ProgressSample(40_000, 7, 20),
            ProgressSample(80_000, 7, 30),
        ],
        moving: [ProgressSample(0, 4, 9), ProgressSample(80_000, 5, 9)],
        empty: [ProgressSample(0, 9, 9), ProgressSample(80_000, 9, 9)],
        young: [ProgressSample(0, 9, 9), ProgressSample(60_000, 9, 10), ProgressSample(80_000, 9, 12)],
        _QUEUES[4]: [],
    }
    owners = dict.fromkeys(samples, "c1")
    (finding,) = stalled_queues("billing", samples, owners)
    assert "c1 owns orders@broker-a:0" in finding.message
    assert "at offset 7 for 70 s, with 23 messages behind it" in finding.message
    assert not stalled_queues("billing", samples, {}), "without an owner it is another finding"
    assert len(stalled_queues("billing", samples, owners, after_ms=20_000)) == 2


@given(st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), st.lists(st.sampled_from(["a", "b"]), unique=True)))
def test_equal_subscriptions_are_no_finding_whatever_their_order(topics: dict[str, list[str]]) -> None:
    is_equal = len({frozenset(wanted) for wanted in topics.values()}) <= 1
    assert bool(unequal_subscriptions("billing", topics)) is not is_equal
