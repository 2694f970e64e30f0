"""Lists of topics: 206, 224, 304, 311 to 313."""

import pytest

from steelyard.nameserver import NameServerOptions
from steelyard.wire.bodies.common import TopicNames
from tests.nameserver.nameserver_harness import NameServerHarness, registration, topic


def harness_with_topics() -> NameServerHarness:
    harness = NameServerHarness()
    harness.register("a", registration("orders", topic("unit", sys_flag=1), topic("sub", sys_flag=2)))
    harness.register("b", registration("orders", topic("both", sys_flag=3)))
    harness.register("c", registration("bills"), cluster="other")
    return harness


def test_all_topics_are_listed_once() -> None:
    answer = harness_with_topics().read(TopicNames, 206)
    assert sorted(answer.topics) == ["bills", "both", "orders", "sub", "unit"]
    assert answer.broker_address is None


def test_topics_are_listed_by_cluster() -> None:
    harness = harness_with_topics()
    assert harness.topics(224, cluster="DefaultCluster") == {"orders", "unit", "sub", "both"}
    assert len(harness.read(TopicNames, 224, {"cluster": "DefaultCluster"}).topics) == 4
    assert harness.topics(224, cluster="other") == {"bills"}
    assert harness.topics(224, cluster="nobody") == set()


def test_clusters_and_brokers_are_topics_of_their_own() -> None:
    harness = harness_with_topics()
    answer = harness.read(TopicNames, 304)
    assert answer.topics == ("DefaultCluster", "a", "b", "other", "c")
    assert answer.broker_address == "a:0"
    assert NameServerHarness().request(304).body == b'{"topicList":[]}'


def test_topics_are_listed_by_their_flags() -> None:
    harness = harness_with_topics()
    assert harness.topics(311) == {"unit", "both"}
    assert harness.topics(312) == {"sub", "both"}
    assert harness.topics(313) == {"sub"}


@pytest.mark.parametrize("code", [206, 224, 311, 312, 313])
def test_a_list_that_is_switched_off_is_a_1(code: int) -> None:
    harness = NameServerHarness(NameServerOptions(lists_all_topics=False, lists_topics=False))
    answer = harness.request(code, {"cluster": "DefaultCluster"})
    assert (answer.code, answer.remark) == (1, "disable")
