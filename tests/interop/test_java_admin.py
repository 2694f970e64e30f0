"""Apache's administrator's tool reads and changes topics, brokers and the name server of ours as it does Apache's.

The same facts hold on every backend: what a person reads in the tool's output, without times, rates and addresses.
"""

import json
from pathlib import Path

import pytest

from tests.interop.clients import until
from tests.interop.java_clients import JavaClients
from tests.interop.mqadmin import Mqadmin
from tests.interop.shop import Shop, open_shop

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shop(hands: JavaClients, topic: str, group: str) -> Shop:
    """Open a shop for this test."""
    return open_shop(hands, topic, group)


def test_topics_are_listed_and_described(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    cluster, broker = hands.cluster.cluster_name, hands.cluster.broker_name
    assert {shop.topic, f"%RETRY%{shop.buyers}", "TBW102", cluster, broker} <= set(mqadmin("topicList").lines)
    owners = {tuple(row) for row in mqadmin("topicList", "-c").rows()}
    assert {(cluster, shop.topic, shop.buyers), (cluster, shop.topic, shop.idlers)} <= owners
    assert mqadmin("topicClusterList", "-t", shop.topic).lines == [cluster]
    route = _route(mqadmin, shop.topic)
    assert f'"brokerAddrs":{{0:"{hands.cluster.broker}"' in route
    assert '"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4' in route
    status = [row for row in mqadmin("topicStatus", "-t", shop.topic).rows() if row[0] == broker]
    assert [row[:4] for row in status] == [[broker, str(n), "0", "3" if n == 3 else "2"] for n in range(4)]
    assert all(len(row) == 6 and row[4].startswith("20") for row in status)
    shares = json.loads(mqadmin("allocateMQ", "-t", shop.topic, "-i", "10.0.0.1,10.0.0.2,10.0.0.3").out)["result"]
    assert sorted(map(len, shares.values())) == [1, 1, 2]
    assert sorted(each["queueId"] for share in shares.values() for each in share) == [0, 1, 2, 3]


def test_topics_are_made_changed_and_removed(hands: JavaClients, mqadmin: Mqadmin, group: str) -> None:
    topic, cluster = f"made-for-{group}", hands.cluster.cluster_name
    made = mqadmin("updateTopic", "-c", cluster, "-t", topic, "-r", 3, "-w", 2)
    assert f"create topic to {hands.cluster.broker} success." in made.lines
    _until_route(mqadmin, topic, '"perm":6,"readQueueNums":3,"topicSysFlag":0,"writeQueueNums":2')
    changed = mqadmin("updateTopicPerm", "-b", hands.cluster.broker, "-t", topic, "-p", 4)
    assert f"update topic perm from 6 to 4 in {hands.cluster.broker} success." in changed.lines
    _until_route(mqadmin, topic, '"perm":4')

    order = f"{hands.cluster.broker_name}:2"
    assert "success" in mqadmin("updateOrderConf", "-t", topic, "-m", "put", "-v", order).out
    assert f"orderConf=[{order}]" in mqadmin("updateOrderConf", "-t", topic, "-m", "get").out
    if hands.cluster.is_ours:
        _until_route(mqadmin, topic, f'"orderTopicConf":"{order}"')  # Apache's name server keeps it to itself
    assert "success" in mqadmin("updateOrderConf", "-t", topic, "-m", "delete").out
    assert "CODE: 22" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "get").err

    removed = mqadmin("deleteTopic", "-c", cluster, "-t", topic).lines
    assert removed == [
        f"delete topic [{topic}] from cluster [{cluster}] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    assert "CODE: 17" in mqadmin.run("topicRoute", "-t", topic).err
    assert "CODE: 17" in mqadmin.run("topicStatus", "-t", topic).err
    assert topic not in mqadmin("topicList").lines


def test_the_broker_reports_itself(hands: JavaClients, mqadmin: Mqadmin, shop: Shop) -> None:
    cluster, broker, address = hands.cluster.cluster_name, hands.cluster.broker_name, hands.cluster.broker
    (row,) = mqadmin("clusterList").rows()
    assert row[:5] == [cluster, broker, "0", address, "V4_9_7" if hands.cluster.is_4 else "V5_5_0"]
    ((*names, in_before, out_before, in_today, out_today),) = mqadmin("clusterList", "-m").rows()
    assert (names, in_before, out_before) == ([cluster, broker], "0", "0")
    assert (int(in_today) >= 9, int(out_today) >= 17) == (True, True)

    state = mqadmin("brokerStatus", "-b", address).pairs()
    assert int(state["msgPutTotalTodayNow"]) >= 9
    assert int(state["msgGetTotalTodayNow"]) >= 17
    assert int(state["commitLogMaxOffset"]) > int(state["commitLogMinOffset"]) == 0
    assert state["dispatchBehindBytes"] == "0"
    assert (state["brokerVersionDesc"], state["runtime"][:8]) == (row[4], "[ 0 days")
    numbers = ("putTps", "getTotalTps", "pageCacheLockTimeMills", "sendThreadPoolQueueSize", "putMessageSizeTotal")
    assert set(numbers) <= state.keys()

    lag = mqadmin("brokerConsumeStats", "-b", address)
    mine = [each[1:7] for each in lag.rows() if each[0] == shop.topic]
    assert mine == [
        [group, broker, str(queue), end, offset, str(int(end) - int(offset))]
        for group, last in ((shop.buyers, "3"), (shop.idlers, "2"))
        for queue, end, offset in ((0, "2", "2"), (1, "2", "2"), (2, "2", "2"), (3, "3", last))
    ]


def test_the_broker_is_set_and_cleaned(hands: JavaClients, mqadmin: Mqadmin) -> None:
    address = hands.cluster.broker
    before = mqadmin("getBrokerConfig", "-b", address).pairs()
    assert before["brokerName"] == hands.cluster.broker_name
    assert (before["brokerClusterName"], before["brokerId"]) == (hands.cluster.cluster_name, "0")
    for value in ("700", before["flushIntervalCommitLog"]):
        reported = mqadmin("updateBrokerConfig", "-b", address, "-k", "flushIntervalCommitLog", "-v", value)
        assert reported.lines == [f"update broker config success, {address}"]
        assert mqadmin("getBrokerConfig", "-b", address).pairs()["flushIntervalCommitLog"] == value
    assert mqadmin("cleanExpiredCQ", "-b", address).lines == ["success"]
    assert mqadmin("cleanUnusedTopic", "-b", address).lines == ["success"]
    assert mqadmin("sendMsgStatus", "-b", hands.cluster.broker_name, "-s", 16, "-c", 2).out.count("SEND_OK") == 2


def test_the_name_server_keeps_values_and_permissions(hands: JavaClients, mqadmin: Mqadmin, topic: str) -> None:
    words = ("-s", "space", "-k", topic)
    assert mqadmin("updateKvConfig", *words, "-v", "value").lines == [
        "create or update kv config to namespace success."
    ]
    assert mqadmin("deleteKvConfig", *words).lines == ["delete kv config from namespace success."]
    broker = hands.cluster.broker_name
    assert f"wipe write perm of broker[{broker}]" in mqadmin("wipeWritePerm", "-b", broker).out
    try:
        assert '"perm":4' in _route(mqadmin, topic)
    finally:
        assert f"add write perm of broker[{broker}]" in mqadmin("addWritePerm", "-b", broker).out
    _until_route(mqadmin, topic, '"perm":6')


def test_the_name_server_is_set(hands: JavaClients, mqadmin: Mqadmin) -> None:
    name = "serverSocketBacklog" if hands.cluster.is_4 else "enableTopicList"
    settings = mqadmin("getNamesrvConfig").pairs()
    reported = mqadmin("updateNamesrvConfig", "-k", name, "-v", settings[name])
    assert f"update name server config success![{hands.cluster.name_server}]" in reported.out
    assert mqadmin("getNamesrvConfig").pairs()[name] == settings[name]


def test_what_is_kept_can_be_exported(hands: JavaClients, mqadmin: Mqadmin, shop: Shop, tmp_path: Path) -> None:
    for command in ("exportMetadata", "exportConfigs", "exportMetrics"):
        assert "success" in mqadmin(command, "-c", hands.cluster.cluster_name, "-f", tmp_path).out
    assert shop.topic


def _route(mqadmin: Mqadmin, topic: str) -> str:
    return "".join(mqadmin("topicRoute", "-t", topic).out.split())


def _until_route(mqadmin: Mqadmin, topic: str, facts: str) -> None:
    """Wait for facts of a route: Apache's brokers tell the name server in their own time."""
    until(lambda: "".join(mqadmin.run("topicRoute", "-t", topic).out.split()), lambda route: facts in route)
