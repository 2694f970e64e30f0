"""The options of a consumer are checked together, before anything is connected."""

from collections.abc import Sequence

import pytest

from steelyard.balance.group.options import ConsumeMode
from steelyard.client.consumer.handlers import Handler, Handlers
from steelyard.client.consumer.options import ConsumerOptions, ConsumerSettings
from steelyard.client.ids import client_id
from steelyard.client.namespace import ClientNamespace
from steelyard.errors import ConfigurationError, UnknownStrategy
from steelyard.model import ExpressionType, Queue


def _handlers(*handlers: Handler) -> Handlers:
    registry = Handlers()
    for handler in handlers:
        registry.add(handler)
    return registry


@pytest.mark.parametrize("name", ["average", "AVG", "circle", "AVG_BY_CIRCLE", "ring", "CONSISTENT_HASH"])
def test_a_java_strategy_is_that_of_mixed_groups_too(name: str) -> None:
    options = ConsumerOptions("billing", strategy=name)
    assert options.resolved_strategy.name == options.resolved_mixed_strategy.name


def test_a_strategy_that_remembers_has_another_for_mixed_groups() -> None:
    assert ConsumerOptions("billing").resolved_mixed_strategy.name == "AVG"
    assert ConsumerOptions("billing", mixed_group_strategy="circle").resolved_mixed_strategy.name == "AVG_BY_CIRCLE"
    with pytest.raises(ConfigurationError, match="cannot use the strategy STICKY"):
        ConsumerOptions("billing", strategy="average", mixed_group_strategy="sticky")


def test_a_callable_is_a_strategy() -> None:
    def mine(group: str, member: str, queues: Sequence[Queue], members: Sequence[str]) -> list[Queue]:
        return list(queues) if group and member in members else []

    options = ConsumerOptions("billing", strategy=mine)
    assert options.resolved_strategy.name == options.resolved_mixed_strategy.name == "mine"


_ROOMS: dict[str, object] = {"member_rooms": {"till-1": "east", "10.0.0.8@blue": "west"}}
_LISTS: dict[str, object] = {"queues": {"till-1": [["orders", "broker-0", 0]], "10.0.0.8@blue": []}}


@pytest.mark.parametrize(("allocate", "settings"), [("machine-room-nearby", _ROOMS), ("config", _LISTS)])
def test_a_member_that_is_not_in_a_table_of_all_members_does_not_start(
    allocate: str, settings: dict[str, object]
) -> None:
    options = ConsumerOptions("billing", strategy=allocate, strategy_options=settings)
    handlers = _handlers(Handler("orders", lambda _: None))
    options.member_options(handlers, ClientNamespace(), client_id("10.0.0.7", "till-1"), 1)
    options.member_options(handlers, ClientNamespace(), "10.0.0.8@blue", 1)
    with pytest.raises(ConfigurationError, match=r"no entry for this member, till-2; give name=, one of 10.*, till-1"):
        options.member_options(handlers, ClientNamespace(), client_id("10.0.0.7", "till-2"), 1)
    with pytest.raises(ConfigurationError, match="no entry for this member, which has no name"):
        options.member_options(handlers, ClientNamespace(), client_id("10.0.0.7"), 1)
    everybody = ConsumerOptions("billing", mode="broadcast", strategy=allocate, strategy_options=settings)
    everybody.member_options(handlers, ClientNamespace(), client_id("10.0.0.7"), 1)


def test_an_entry_that_can_be_about_nobody_is_refused_at_the_start() -> None:
    options = ConsumerOptions("billing", strategy_options={"weights": {"till 1": 2}})
    with pytest.raises(
        ConfigurationError, match="weights has an entry for 'till 1', which cannot be the name of a member"
    ):
        options.member_options(
            _handlers(Handler("orders", lambda _: None)), ClientNamespace(), client_id("10.0.0.7"), 1
        )


def test_a_name_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownStrategy, match="did you mean sticky"):
        ConsumerOptions("billing", strategy="stikcy")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ConsumerSettings(workers=0), "workers is 0"),
        (ConsumerSettings(pull_batch=0), "pull_batch is 0"),
        (ConsumerSettings(topic_messages=0), "topic_messages is 0; give 1 or more, or None for no limit"),
        (ConsumerSettings(topic_bytes=-1), "topic_bytes is -1"),
        (ConsumerSettings(drain_s=-1), "drain_s is -1"),
        (ConsumerSettings(start_from="yesterday"), "is no start position"),
        (ConsumerSettings(mode="both"), "the mode is 'both'"),
    ],
)
def test_a_bad_option_is_a_sentence(settings: ConsumerSettings, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ConsumerOptions("billing", **settings)


def test_names_are_full_on_the_wire_and_filters_are_kept() -> None:
    handlers = _handlers(Handler("orders", print, tags="a || b"), Handler("prices", print, sql="x > 1"))
    member = ConsumerOptions("billing", drain_s=None).member_options(handlers, ClientNamespace("eu"), "c1@sy1", 5)
    assert member.group == "eu%billing"
    assert member.mode is ConsumeMode.CONCURRENT
    assert member.times.drain_ms is None
    assert member.subscriptions["eu%orders"].tags == ("a", "b")
    assert member.subscriptions["eu%prices"].expression_type is ExpressionType.SQL92
    assert {each.version for each in member.subscriptions.values()} == {5}


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("config", {"queues": [["orders", "east@b", 0]]}),
        ("config", {"queues": {"till-1": [["orders", "east@b", 0]]}}),
        (
            "machine-room-nearby-config",
            {"queues": [["orders", "east@b", 0]], "member_rooms": {"till-1": "east"}},
        ),
    ],
)
def test_fixed_lists_name_topics_without_the_namespace(strategy: str, options: dict[str, object]) -> None:
    member_id, wanted = client_id("10.0.0.7", "till-1"), Queue("eu%orders", "east@b", 0)
    settings = ConsumerOptions("billing", strategy=strategy, strategy_options=options)
    handlers = _handlers(Handler("orders", lambda _: None))
    member = settings.member_options(handlers, ClientNamespace("eu"), member_id, 1)
    for each in (member.strategy, member.mixed_group_strategy):
        assert each(member.group, member_id, [wanted], [member_id]) == [wanted]


def test_an_async_handler_is_known_as_one() -> None:
    class Object:
        async def __call__(self, message: object) -> None:
            """Do nothing."""

    async def function(message: object) -> None:
        """Do nothing."""

    assert Handler("a", function).is_async
    assert Handler("a", Object()).is_async
    assert not Handler("a", print).is_async
