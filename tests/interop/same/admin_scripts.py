"""Scripts about what administrators do: topics, groups, settings, statistics, and what nobody serves."""

from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.request_steps import commit, consumer, group, heartbeat, pull, query_offset, send, topic, wanted
from tests.interop.same.steps import Script, Step

_NEW = {
    "attributes": {},
    "order": False,
    "perm": 6,
    "readQueueNums": 3,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "writeQueueNums": 3,
}


def _config(step: str, name: str) -> Step:
    return Step(step, Code.GET_TOPIC_CONFIG, {"topic": name}, in_4=False)


def _delete(step: str, name: str) -> Step:
    return Step(step, Code.DELETE_TOPIC_IN_BROKER, {"topic": name})


TOPICS = Script(
    "topics",
    (
        topic("same-topic", 3, "make"),
        _config("made", "same-topic"),
        topic("same-topic", 5, "change", perm=4, order=True, topicSysFlag=1, topicFilterType="MULTI_TAG"),
        _config("changed", "same-topic"),
        topic("same-topic-attr", 1, "with attributes", attributes="+message.type=NORMAL", in_4=False),
        _config("attributes", "same-topic-attr"),
        topic("same-topic-bad", 1, "with a bad attribute", attributes="+no.such=thing"),
        topic("same-topic-less", 0, "without queues"),
        topic("same-topic-filter", 1, "with an odd filter", topicFilterType="NONE"),
        topic("same/topic", 1, "a bad name"),
        topic("x" * 128, 1, "a long name"),
        topic("TBW102", 1, "a name of the broker's"),
        topic("rmq_sys_mine", 1, "a name like the broker's"),
        topic("broker-a", 1, "the broker's name"),
        topic("steelyard", 1, "the cluster's name"),
        topic("%RETRY%same-mine", 1, "retries"),
        Step(
            "many",
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            body={"topicConfigList": [{"topicName": f"same-topic-{each}", **_NEW} for each in "ab"]},
            in_4=False,
        ),
        _config("one of many", "same-topic-b"),
        Step(
            "many, one bad",
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            body={"topicConfigList": [{"topicName": each, **_NEW} for each in ("same-topic-c", "no/name")]},
            in_4=False,
        ),
        _config("one of many with a bad one", "same-topic-c"),
        _config("unknown", "same-topic-none"),
        _config("of the broker's", "TBW102"),
        send("a message", "same-topic-a", 0, b"m"),
        pull("settle", "TOOLS_CONSUMER", "same-topic-a", until={"code": "0"}),
        group("same-topic-readers"),
        commit("a commit", "same-topic-readers", "same-topic-a", 0, 1),
        _delete("delete", "same-topic-a"),
        _config("deleted", "same-topic-a"),
        _delete("delete again", "same-topic-a"),
        _delete("delete a bad name", "no/name"),
        _delete("delete nothing", ""),
        _delete("delete the broker's", "TBW102"),
        query_offset("offset in what was deleted", "same-topic-readers", "same-topic-a", setZeroIfNotFound=False),
        topic("same-topic-a", 1, "make again"),
        Step("end of what was made again", Code.GET_MAX_OFFSET, {"topic": "same-topic-a", "queueId": 0}),
        Step("start of what was made again", Code.GET_MIN_OFFSET, {"topic": "same-topic-a", "queueId": 0}),
        Step("all", Code.GET_ALL_TOPIC_CONFIG),
        Step("a page", Code.GET_ALL_TOPIC_CONFIG, {"topicSeq": 0, "maxTopicNum": 2}),
        Step("of the system", Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
        Step("who reads nothing", Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "same-topic-none"}),
        Step("clean indexes", Code.CLEAN_EXPIRED_CONSUMEQUEUE),
        Step("clean topics", Code.CLEAN_UNUSED_TOPIC),
        Step("clean the log", Code.DELETE_EXPIRED_COMMITLOG, in_4=False),
    ),
)


def _settings(step: str, name: str) -> Step:
    return Step(step, Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": name}, in_4=False)


GROUPS = Script(
    "groups",
    (
        group("same-one", "make"),
        _settings("made", "same-one"),
        group("same-one", "change", retryMaxTimes=5, consumeEnable=False, retryQueueNums=2, consumeMessageOrderly=True),
        _settings("changed", "same-one"),
        Step(
            "as 4.9 says it",
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body={"groupName": "same-old", "retryMaxTimes": 7},
        ),
        _settings("as 4.9 said it", "same-old"),
        group("no/group", "a bad name"),
        group("x" * 121, "a long name"),
        group("", "no name"),
        Step("no body", Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
        group("same-attr", "with a bad attribute", attributes={"+no.such": "thing"}),
        Step(
            "many",
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            body={"groupConfigList": [{"groupName": "same-many-a"}, {"groupName": "same-many-b"}]},
            in_4=False,
        ),
        _settings("one of many", "same-many-b"),
        _settings("made by asking", "same-asked"),
        _settings("a bad one", "no/group"),
        Step("all", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        Step("a page", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": 0, "maxGroupNum": 2}),
        topic("same-group-topic", 1),
        commit("a commit", "same-many-a", "same-group-topic", 0, 0),
        commit("another commit", "same-many-b", "same-group-topic", 0, 0),
        Step("delete", Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "same-many-a", "cleanOffset": False}),
        query_offset("kept offset", "same-many-a", "same-group-topic"),
        Step("delete with offsets", Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "same-many-b", "cleanOffset": True}),
        query_offset("lost offset", "same-many-b", "same-group-topic"),
        Step("delete nobody", Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "same-nobody", "cleanOffset": False}),
        Step("all after deleting", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        Step("offsets of all", Code.GET_ALL_CONSUMER_OFFSET),
    ),
)

_S, _SG = "same-stats", "same-statisticians"


def _stats(step: str, code: int, **fields: object) -> Step:
    return Step(step, code, fields)


STATISTICS = Script(
    "statistics",
    (
        topic(_S, 2, writeQueueNums=3),
        group(_SG),
        _stats("empty topic", Code.GET_TOPIC_STATS_INFO, topic=_S),
        _stats("empty spans", Code.QUERY_CONSUME_TIME_SPAN, topic=_S, group=_SG),
        *(send(f"message {each}", _S, 0, b"m") for each in range(3)),
        pull("read", _SG, _S, until={"ext.maxOffset": "3"}),
        _stats("topic", Code.GET_TOPIC_STATS_INFO, topic=_S),
        _stats("unknown topic", Code.GET_TOPIC_STATS_INFO, topic="same-none"),
        _stats("nothing committed", Code.GET_CONSUME_STATS, consumerGroup=_SG),
        _stats("nothing committed, a topic", Code.GET_CONSUME_STATS, consumerGroup=_SG, topic=_S),
        commit("commit", _SG, _S, 0, 2),
        _stats("committed", Code.GET_CONSUME_STATS, consumerGroup=_SG),
        _stats("committed, a topic", Code.GET_CONSUME_STATS, consumerGroup=_SG, topic=_S),
        _stats("committed, another topic", Code.GET_CONSUME_STATS, consumerGroup=_SG, topic="same-none"),
        _stats("committed, topics", Code.GET_CONSUME_STATS, consumerGroup=_SG, topicList=f"{_S};same-none"),
        _stats("nobody", Code.GET_CONSUME_STATS, consumerGroup="same-nobody"),
        heartbeat("a member of something else", "s@1", [consumer(_SG, wanted("same-other"))]),
        _stats("not subscribed", Code.GET_CONSUME_STATS, consumerGroup=_SG),
        _stats("spans", Code.QUERY_CONSUME_TIME_SPAN, topic=_S, group=_SG),
        _stats("spans of nobody", Code.QUERY_CONSUME_TIME_SPAN, topic=_S, group="same-nobody"),
        _stats("spans of an unknown topic", Code.QUERY_CONSUME_TIME_SPAN, topic="same-none", group=_SG),
        _stats("counted", Code.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey=_S),
        _stats("counted reads", Code.VIEW_BROKER_STATS_DATA, statsName="GROUP_GET_NUMS", statsKey=f"{_S}@{_SG}"),
        _stats("counted of the broker", Code.VIEW_BROKER_STATS_DATA, statsName="BROKER_PUT_NUMS", statsKey="steelyard"),
        _stats("not counted", Code.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey="same-none"),
        _stats("no such counter", Code.VIEW_BROKER_STATS_DATA, statsName="NONSENSE", statsKey=_S),
        _stats("all groups", Code.GET_BROKER_CONSUME_STATS, isOrder=False),
        _stats("all groups in order", Code.GET_BROKER_CONSUME_STATS, isOrder=True),
        Step("now", Code.GET_BROKER_RUNTIME_INFO),
        Step("replicas", Code.GET_BROKER_HA_STATUS, in_4=False),
    ),
)

SETTINGS = Script(
    "settings",
    (
        Step("all", Code.GET_BROKER_CONFIG),
        Step("change", Code.UPDATE_BROKER_CONFIG, body=b"transactionCheckMax=14\n"),
        Step("changed", Code.GET_BROKER_CONFIG),
        Step("change back", Code.UPDATE_BROKER_CONFIG, body=b"transactionCheckMax=15\n"),
        Step("an unknown name", Code.UPDATE_BROKER_CONFIG, body=b"noSuchSetting=1\n"),
        Step("a path", Code.UPDATE_BROKER_CONFIG, body=b"brokerConfigPath=/tmp/x\n"),
        Step("nothing", Code.UPDATE_BROKER_CONFIG),
        Step("no setting", Code.UPDATE_BROKER_CONFIG, body=b"nonsense\n"),
    ),
)

UNKNOWN = Script(
    "unknown",
    (
        *(Step(f"code {code}", code) for code in (1, 99, 12_345, 30_000, -1)),
        Step("a name server's code", Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}),
        Step("oneway", 12_345, oneway=True),
        Step(
            "pop",
            Code.POP_MESSAGE,
            {
                "consumerGroup": "same-poppers",
                "topic": "same-pop-none",
                "queueId": -1,
                "maxMsgNums": 1,
                "invisibleTime": 10_000,
                "pollTime": 0,
                "bornTime": "$now",
                "initMode": 0,
            },
            in_4=False,
        ),
    ),
)

ODD_TOPICS = Script(
    "odd topics",
    (
        topic("same-topic-below", -1, "with fewer queues than none"),
        topic("same-topic-perm", 1, "with an odd permission", perm=99),
    ),
)

SCRIPTS = (TOPICS, GROUPS, STATISTICS, SETTINGS, UNKNOWN)
