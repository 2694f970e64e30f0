"""What looks wrong in a group is found, named and told in one sentence; what is fine is not."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.hazards import (
    Progress,
    duplicate_ids,
    idle_members,
    not_progressing,
    unequal_filters,
    unequal_strategies,
    unequal_subscriptions,
    unowned_queues,
)
from steelyard.model import Queue

_QUEUES = [Queue("orders", "broker-a", number) for number in range(8)]


def test_an_id_that_is_listed_twice_is_named() -> None:
    found = duplicate_ids("billing", ["c2", "c1", "c2", "c1", "c3"])
    assert [hazard.kind for hazard in found] == ["duplicate c1", "duplicate c2"]
    assert "lists c1 more than once" in found[0].sentence
    assert "reads the first of its shares and nobody the others, so queues stay unread" in found[0].sentence
    (ours,) = duplicate_ids("billing", ["c2@sy1", "c1@sy1", "c2@sy1"])
    assert "members count it once and no queue stays unread" in ours.sentence
    (beside,) = duplicate_ids("billing", ["c2@sy1", "java", "c2@sy1"])
    assert "queues stay unread" in beside.sentence
    assert not duplicate_ids("billing", ["c1", "c2"])


def test_members_that_want_other_topics_than_most_are_named_with_the_topics() -> None:
    topics = {"c1": ["orders"], "c2": ["orders"], "c3": ["orders", "refunds"]}
    (hazard,) = unequal_subscriptions("billing", topics)
    assert "(c3, in refunds): all topics are shared among all members" in hazard.sentence
    assert "stay unread" in hazard.sentence
    (mild,) = unequal_subscriptions("billing", topics, by_subscribers=True)
    assert mild.kind != hazard.kind
    assert "each topic is shared among its subscribers and all queues are read" in mild.sentence
    assert not unequal_subscriptions("billing", {"c1": ["b", "a"], "c2": ["a", "b"]})
    assert not unequal_subscriptions("billing", {})


def test_members_that_want_other_messages_than_most_are_named_with_the_filters() -> None:
    filters = {"c1": {"orders": "paid || sent"}, "c2": {"orders": "sent||paid"}, "c3": {"orders": "*", "refunds": "*"}}
    (hazard,) = unequal_filters("billing", filters)
    assert "filter orders differently (c3 by *, most by paid || sent)" in hazard.sentence
    assert not unequal_filters("billing", {"c1": filters["c1"], "c2": filters["c2"]})


def test_members_with_different_strategies_are_named() -> None:
    (hazard,) = unequal_strategies("billing", {"c1": "STICKY", "c2": "AVG", "c3": "STICKY"})
    assert "c2 by AVG, most by STICKY" in hazard.sentence
    assert not unequal_strategies("billing", {"c1": "AVG", "c2": "AVG"})


def test_more_members_than_queues_is_told() -> None:
    (hazard,) = idle_members("billing", {"c1": _QUEUES[:1], "c2": [], "c3": _QUEUES[1:2], "c4": []})
    assert hazard.sentence.startswith("group billing has 4 members and 2 queues, so c2, c4 have nothing to do")
    assert not idle_members("billing", {"c1": _QUEUES})


def test_queues_that_nobody_owns_are_named_a_few_at_a_time() -> None:
    (hazard,) = unowned_queues("billing", _QUEUES, _QUEUES[:1])
    assert "orders@broker-a:1, orders@broker-a:2" in hazard.sentence
    assert "orders@broker-a:5 and 2 more" in hazard.sentence
    assert not unowned_queues("billing", _QUEUES, _QUEUES)


def test_a_queue_that_is_owned_and_stands_still_is_told() -> None:
    stuck, moving, empty, young = _QUEUES[:4]
    samples = {
        stuck: [Progress(0, 4, 9), Progress(10_000, 7, 9), Progress(40_000, 7, 20), Progress(80_000, 7, 30)],
        moving: [Progress(0, 4, 9), Progress(80_000, 5, 9)],
        empty: [Progress(0, 9, 9), Progress(80_000, 9, 9)],
        young: [Progress(0, 9, 9), Progress(60_000, 9, 10), Progress(80_000, 9, 12)],
        _QUEUES[4]: [],
    }
    owners = dict.fromkeys(samples, "c1")
    (hazard,) = not_progressing("billing", samples, owners)
    assert "c1 owns orders@broker-a:0" in hazard.sentence
    assert "at offset 7 for 70 s, with 23 messages behind it" in hazard.sentence
    assert not not_progressing("billing", samples, {}), "without an owner it is another hazard"
    assert len(not_progressing("billing", samples, owners, after_ms=20_000)) == 2


@given(st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), st.lists(st.sampled_from(["a", "b"]), unique=True)))
def test_equal_subscriptions_are_no_hazard_whatever_their_order(topics: dict[str, list[str]]) -> None:
    is_equal = len({frozenset(wanted) for wanted in topics.values()}) <= 1
    assert bool(unequal_subscriptions("billing", topics)) is not is_equal
