"""From what is known of a group to the queues of one member: plans that fit together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.assignors import (
    Average,
    AverageByCircle,
    ByConfig,
    ConsistentHash,
    CustomStrategy,
    MachineRoomNearby,
    Sticky,
    Strategy,
)
from steelyard.balance.group.assignment import AssignmentInput, choose_strategy, plan_member_queues, queues_by_owner
from steelyard.balance.group.options import MemberOptions
from steelyard.model import Queue, Subscription, sort_names

_RETRY = "%RETRY%billing"


def _options(name: str, *topics: str, strategy: Strategy | None = None) -> MemberOptions:
    wanted = {topic: Subscription(topic) for topic in topics or ("t",)}
    return MemberOptions("billing", name, wanted, strategy=strategy or Sticky(), mixed_group_strategy=Average())


def _queues(**sizes: int) -> dict[str, Sequence[Queue]]:
    return {topic: [Queue(topic, "a", number) for number in range(size)] for topic, size in sizes.items()}


def test_owners_that_cannot_be_known_leave_the_java_strategy() -> None:
    options = _options("c1@sy1")
    assert choose_strategy(options, AssignmentInput(["c1@sy1"], {}, owners={})).name == "STICKY"
    assert choose_strategy(options, AssignmentInput(["c1@sy1"], {}, owners=None)).name == "AVG"
    assert choose_strategy(options, AssignmentInput(["c1@sy1", "java"], {}, owners={}, has_foreign=True)).name == "AVG"
    circle = _options("c1@sy1", strategy=AverageByCircle())
    assert choose_strategy(circle, AssignmentInput(["c1@sy1"], {}, owners=None)).name == "AVG_BY_CIRCLE"
    assert choose_strategy(circle, AssignmentInput(["c1@sy1"], {}, owners=None, has_foreign=True)).name == "AVG"


def test_machine_rooms_that_are_shared_without_remembering_are_shared_topic_by_topic_as_java_does() -> None:
    """All topics at once would give the retries to one member of a room and the topic to the other."""
    names = ["c1@sy1", "c2@sy1"]
    nearby = MachineRoomNearby(lambda _member: "east", lambda _broker: "east")
    queues = {_RETRY: [Queue(_RETRY, "a", 0)], "t": [Queue("t", "a", 0)]}
    for owners in (None, {"c2@sy1": queues["t"]}):
        first, second = (
            plan_member_queues(_options(name, strategy=nearby), AssignmentInput(names, queues, owners), ())
            for name in names
        )
        assert (first.strategy_name, len(first.queues), second.queues) == (nearby.name, 2, ())
    sticky = replace(nearby, inner=Sticky())
    group = AssignmentInput(names, queues, {"c2@sy1": queues["t"]})
    assert [plan_member_queues(_options(name, strategy=sticky), group, ()).queues for name in names] == [
        tuple(queues[_RETRY]),
        tuple(queues["t"]),
    ]


def test_what_is_held_stays_where_it_is_while_a_member_does_not_answer() -> None:
    names = ["c1@sy1", "c2@sy1", "c3@sy1"]
    queues = _queues(t=6)
    held = {"c1@sy1": queues["t"][:1], "c2@sy1": queues["t"][1:4], "c3@sy1": []}
    group = AssignmentInput(names, queues, held, unresponsive=frozenset({"c3@sy1"}))
    first, second = (plan_member_queues(_options(name), group, ()).queues for name in names[:2])
    assert first == (queues["t"][0], *queues["t"][4:]), "unowned queues go to members that answer and have least"
    assert second == tuple(queues["t"][1:4])
    assert plan_member_queues(_options("c1@sy1", strategy=Average()), group, ()).queues == tuple(queues["t"][:2])


def test_a_strategy_that_raises_skips_its_topic_and_drops_nothing() -> None:
    def moody(_group: str, _member: str, queues: Sequence[Queue], _members: Sequence[str]) -> list[Queue]:
        if queues[0].topic == "bad":
            raise ValueError("not today")
        return list(queues[:1])

    queues = _queues(bad=4, good=4)
    before = [Queue("bad", "a", 2), Queue("good", "a", 3), Queue("bad", "a", 9)]
    outcome = plan_member_queues(
        _options("c1@sy1", strategy=CustomStrategy("MOODY", moody)), AssignmentInput(["c1@sy1"], queues), before
    )
    assert outcome.queues == (Queue("bad", "a", 2), Queue("good", "a", 0)), "what is not readable any more is dropped"
    assert outcome.skipped.keys() == {"bad"}
    assert "not today" in outcome.skipped["bad"]


def test_a_fixed_list_gives_each_queue_once_however_many_topics_there_are() -> None:
    mine = (Queue("t", "a", 1), Queue("u", "a", 0))
    strategy = ByConfig(queues=[*mine, Queue("gone", "a", 0)])
    outcome = plan_member_queues(
        _options("c1@sy1", strategy=strategy), AssignmentInput(["c1@sy1"], _queues(t=2, u=2)), ()
    )
    assert outcome.queues == mine


def test_no_topics_no_queues() -> None:
    assert plan_member_queues(_options("c1@sy1"), AssignmentInput(["c1@sy1"], {}, owners={}), ()).queues == ()
    assert plan_member_queues(_options("c1@sy1"), AssignmentInput(["c2@sy1"], _queues(t=2), owners={}), ()).queues == ()


_NAMES = [f"c{n}@sy1" for n in range(6)]


@st.composite
def unequal(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], dict[str, Sequence[Queue]], dict[Queue, str]]:
    """Draw members with topics of their own, sizes of topics, and owners."""
    topics = draw(st.lists(st.sampled_from("tuvw"), min_size=1, unique=True))
    some = st.frozensets(st.sampled_from(topics), min_size=1)
    wants = draw(st.dictionaries(st.sampled_from(_NAMES), some, min_size=1))
    queues = _queues(**{topic: draw(st.integers(1, 8)) for topic in topics}) | _queues(**{_RETRY: 1})
    owners = {}
    for each in queues.values():
        for queue in each:
            owner = draw(st.sampled_from([None, "gone@sy1", *wants]))
            if owner is not None:
                owners[queue] = owner
    return wants, queues, owners


@pytest.mark.parametrize(
    "strategy", [Sticky(), Average(), AverageByCircle(), ConsistentHash()], ids=lambda each: each.name
)
@given(group=unequal())
def test_unequal_subscriptions_leave_no_queue_unread(
    strategy: Strategy, group: tuple[dict[str, frozenset[str]], dict[str, Sequence[Queue]], dict[Queue, str]]
) -> None:
    wants, queues, owners = group
    members = sort_names(wants)
    owned, planned = queues_by_owner(owners), Counter[Queue]()
    for name, topics in wants.items():
        # A member knows the routes of what it subscribes to, and of nothing else.
        known = {topic: listed for topic, listed in queues.items() if topic in topics or topic == _RETRY}
        seen = AssignmentInput(members, known, owned, wants)
        planned.update(plan_member_queues(_options(name, *topics, strategy=strategy), seen, ()).queues)
    wanted = {_RETRY}.union(*wants.values())
    assert planned == Counter(queue for topic in wanted for queue in queues[topic])


@given(group=unequal())
def test_topics_with_the_same_subscribers_are_shared_evenly_together(
    group: tuple[dict[str, frozenset[str]], dict[str, Sequence[Queue]], dict[Queue, str]],
) -> None:
    wants, queues, owners = group
    everybody = frozenset().union(*wants.values())
    members = sort_names(wants)
    known = {topic: listed for topic, listed in queues.items() if topic in everybody or topic == _RETRY}
    seen = AssignmentInput(members, known, queues_by_owner(owners), dict.fromkeys(members, everybody))
    loads = [len(plan_member_queues(_options(name, *everybody), seen, ()).queues) for name in members]
    assert max(loads) - min(loads) <= 1
    assert sum(loads) == sum(map(len, known.values()))
