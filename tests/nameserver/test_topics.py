"""Lists of topics: 206, 224, 304, 311 to 313."""

import pytest
from tests.nameserver.desk import Desk, registration, topic

from steelyard.nameserver import NameServerOptions
from steelyard.wire.bodies.shared import TopicNames


def desk_with_topics() -> Desk:
    desk = Desk()
    desk.register("a", registration("orders", topic("unit", sys_flag=1), topic("sub", sys_flag=2)))
    desk.register("b", registration("orders", topic("both", sys_flag=3)))
    desk.register("c", registration("bills"), cluster="other")
    return desk


def test_all_topics_are_listed_once() -> None:
    answer = desk_with_topics().read(TopicNames, 206)
    assert sorted(answer.topics) == ["bills", "both", "orders", "sub", "unit"]
    assert answer.broker_address is None


def test_topics_are_listed_by_cluster() -> None:
    desk = desk_with_topics()
    assert desk.topics(224, cluster="DefaultCluster") == {"orders", "unit", "sub", "both"}
    assert len(desk.read(TopicNames, 224, {"cluster": "DefaultCluster"}).topics) == 4
    assert desk.topics(224, cluster="other") == {"bills"}
    assert desk.topics(224, cluster="nobody") == set()


def test_clusters_and_brokers_are_topics_of_their_own() -> None:
    desk = desk_with_topics()
    answer = desk.read(TopicNames, 304)
    assert answer.topics == ("DefaultCluster", "a", "b", "other", "c")
    assert answer.broker_address == "a:0"
    assert Desk().ask(304).body == b'{"topicList":[]}'


def test_topics_are_listed_by_their_flags() -> None:
    desk = desk_with_topics()
    assert desk.topics(311) == {"unit", "both"}
    assert desk.topics(312) == {"sub", "both"}
    assert desk.topics(313) == {"sub"}


@pytest.mark.parametrize("code", [206, 224, 311, 312, 313])
def test_a_list_that_is_switched_off_is_a_1(code: int) -> None:
    desk = Desk(NameServerOptions(lists_all_topics=False, lists_topics=False))
    answer = desk.ask(code, {"cluster": "DefaultCluster"})
    assert (answer.code, answer.remark) == (1, "disable")
