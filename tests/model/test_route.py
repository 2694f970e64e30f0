"""From a route to the two lists that balancing starts from."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import BrokerAddresses, Permission, PublishList, Queue, QueueCounts, TopicRoute, sort_queues

_READ, _WRITE = Permission.READ, Permission.WRITE
_NAMES = st.sampled_from(["broker-a", "broker-b", "Broker-a", "room@c", "\ue000", "\U0001f600", ""])
_COUNTS = st.builds(QueueCounts, _NAMES, st.integers(-1, 9), st.integers(-1, 9), st.integers(0, 15).map(Permission))
_PLACES = st.builds(
    BrokerAddresses, _NAMES, st.just("DefaultCluster"), st.dictionaries(st.integers(0, 2), st.just("127.0.0.1:10911"))
)
_ROUTES = st.builds(
    TopicRoute,
    st.just("orders"),
    st.lists(_PLACES, max_size=6).map(tuple),
    st.lists(_COUNTS, max_size=6, unique_by=lambda counts: counts.broker).map(tuple),
)


def _place(name: str, *ids: int) -> BrokerAddresses:
    return BrokerAddresses(name, "DefaultCluster", {number: f"127.0.0.1:{10911 + number}" for number in ids or (0,)})


def _route(
    *counts: QueueCounts, brokers: tuple[BrokerAddresses, ...] | None = None, order: str | None = None
) -> TopicRoute:
    places = brokers if brokers is not None else tuple(_place(each.broker) for each in counts)
    return TopicRoute("orders", places, counts, order)


def _read(listed: PublishList | tuple[Queue, ...]) -> list[str]:
    return [str(queue) for queue in (listed.queues if isinstance(listed, PublishList) else listed)]


def test_the_list_has_the_write_count_of_each_broker_sorted_by_broker() -> None:
    route = _route(QueueCounts("broker-b", read=4, write=2), QueueCounts("broker-a", read=1, write=3))
    assert _read(route.publish_list()) == [
        *("orders@broker-a:0", "orders@broker-a:1", "orders@broker-a:2"),
        *("orders@broker-b:0", "orders@broker-b:1"),
    ]


def test_brokers_are_sorted_as_java_sorts_names() -> None:
    route = _route(QueueCounts("\ue000", 1, 1), QueueCounts("\U0001f600", 1, 1), QueueCounts("Z", 1, 1))
    assert [queue.broker for queue in route.publish_list().queues] == ["Z", "\U0001f600", "\ue000"]


def test_a_broker_that_may_not_be_written_is_left_out() -> None:
    route = _route(QueueCounts("broker-a", 2, 2, _READ), QueueCounts("broker-b", 1, 1, _WRITE))
    assert _read(route.publish_list()) == ["orders@broker-b:0"]


def test_a_broker_without_a_master_is_left_out() -> None:
    counts = QueueCounts("broker-a", 1, 1), QueueCounts("broker-b", 1, 1), QueueCounts("broker-c", 1, 1)
    route = _route(*counts, brokers=(_place("broker-a", 1), _place("broker-b", 0, 1)))
    assert _read(route.publish_list()) == ["orders@broker-b:0"]


def test_a_list_knows_what_it_was_made_from() -> None:
    route = _route(QueueCounts("broker-a", 1, 1))
    listed = route.publish_list()
    assert (listed.topic, listed.ordered, listed.topic_exists, listed.route) == ("orders", False, True, route)


def test_usable_means_not_empty() -> None:
    assert _route(QueueCounts("broker-a", 1, 1)).publish_list()
    assert not _route(QueueCounts("broker-a", 1, 0)).publish_list()
    assert not _route().publish_list()


def test_an_order_configuration_gives_exactly_its_queues_in_exactly_its_order() -> None:
    route = _route(QueueCounts("broker-a", 8, 8), order="broker-c:2;broker-a:1;broker-b:0;broker-c:1")
    listed = route.publish_list()
    assert _read(listed) == ["orders@broker-c:0", "orders@broker-c:1", "orders@broker-a:0", "orders@broker-c:0"]
    assert (listed.ordered, listed.topic_exists, listed.route) == (True, True, route)


@pytest.mark.parametrize("order", [None, ""])
def test_without_an_order_configuration_a_topic_is_not_ordered(order: str | None) -> None:
    listed = _route(QueueCounts("broker-a", 1, 1), order=order).publish_list()
    assert (len(listed.queues), listed.ordered) == (1, False)


def test_a_stray_separator_in_an_order_configuration_means_nothing() -> None:
    assert _read(_route(order=";broker-a:1;;").publish_list()) == ["orders@broker-a:0"]


@pytest.mark.parametrize(
    "order",
    ["broker-a", "broker-a:", "broker-a:x", "broker-a:-1", "broker-a:1:2", "broker-a:\u0663", "b:" + "9" * 5000],
)
def test_an_order_configuration_that_cannot_be_read_is_refused_with_a_next_step(order: str) -> None:
    with pytest.raises(ConfigurationError, match="order configuration") as caught:
        _route(order=order).publish_list()
    assert "broker-a:4" in caught.value.next_step


@pytest.mark.parametrize("order", ["broker-a:65537", "broker-a:999999999", ";".join(["broker-a:9999"] * 7)])
def test_a_route_that_would_fill_the_memory_is_refused(order: str) -> None:
    huge = 2**31 - 1
    with pytest.raises(ConfigurationError, match="queues"):
        _route(order=order).publish_list()
    with pytest.raises(ConfigurationError, match="queues"):
        _route(QueueCounts("broker-a", 1, huge)).publish_list()
    with pytest.raises(ConfigurationError, match="queues"):
        _route(QueueCounts("broker-a", huge, 1)).readable_queues()


def test_the_most_queues_a_topic_may_have_are_listed() -> None:
    assert len(_route(order="broker-a:65536").publish_list().queues) == 65_536


def test_a_borrowed_list_is_capped_by_the_read_count_and_by_four() -> None:
    default = TopicRoute(
        "TBW102",
        (_place("broker-a"), _place("broker-b"), _place("broker-c", 1)),
        (
            QueueCounts("broker-b", read=2, write=8, permission=Permission(7)),
            QueueCounts("broker-a", read=8, write=1, permission=Permission(7)),
            QueueCounts("broker-c", read=8, write=8, permission=Permission(7)),
        ),
    )
    listed = default.publish_list_for_new_topic("new")
    assert _read(listed) == [*(f"new@broker-a:{number}" for number in range(4)), "new@broker-b:0", "new@broker-b:1"]
    assert (listed.topic, listed.ordered, listed.topic_exists, listed.route) == ("new", False, False, default)
    assert len(default.publish_list_for_new_topic("new", max_queues=1).queues) == 2


def test_readable_queues_need_no_master_and_no_write_permission() -> None:
    counts = QueueCounts("broker-b", 2, 1, _READ), QueueCounts("broker-a", 1, 9), QueueCounts("broker-c", 3, 3, _WRITE)
    route = _route(*counts, brokers=(_place("broker-b", 1),))
    assert _read(route.readable_queues()) == ["orders@broker-a:0", "orders@broker-b:0", "orders@broker-b:1"]


def test_a_broker_listed_twice_has_its_queues_once() -> None:
    route = _route(QueueCounts("broker-a", 2, 2), QueueCounts("broker-a", 1, 1))
    assert _read(route.readable_queues()) == ["orders@broker-a:0", "orders@broker-a:1"]


@given(_ROUTES, st.randoms())
def test_every_client_makes_the_same_lists_in_whatever_order_the_route_came(route: TopicRoute, random: Random) -> None:
    brokers, counts = list(route.brokers), list(route.counts)
    random.shuffle(brokers)
    random.shuffle(counts)
    mixed = TopicRoute(route.topic, tuple(brokers), tuple(counts))
    assert mixed.readable_queues() == route.readable_queues()
    assert mixed.publish_list_for_new_topic("new").queues == route.publish_list_for_new_topic("new").queues
    assert mixed.publish_list().queues == route.publish_list().queues


@given(_ROUTES)
def test_lists_hold_what_the_rules_say_and_nothing_else(route: TopicRoute) -> None:
    masters = {place.name for place in route.brokers if 0 in place.addresses}
    writable = {counts.broker: counts.write for counts in route.counts if counts.permission & _WRITE}
    expected = {
        Queue("orders", broker, number)
        for broker, write in writable.items()
        if broker in masters
        for number in range(write)
    }
    listed = route.publish_list().queues
    assert list(listed) == sort_queues(expected)
    readable = {
        Queue("orders", counts.broker, number)
        for counts in route.counts
        if counts.permission & _READ
        for number in range(counts.read)
    }
    assert list(route.readable_queues()) == sort_queues(readable)


def test_a_place_without_a_master_says_none() -> None:
    assert _place("broker-a", 0, 1).master == "127.0.0.1:10911"
    assert _place("broker-a", 1).master is None


def test_permissions_are_the_protocols_bits() -> None:
    assert [int(bit) for bit in (Permission.INHERIT, _WRITE, _READ, Permission.PRIORITY)] == [1, 2, 4, 8]
    assert Permission(6) == _READ | _WRITE
    assert QueueCounts("broker-a", 1, 1).permission == Permission(6)
