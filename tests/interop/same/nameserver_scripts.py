"""Scripts for the name server: where topics live, brokers that come and go, settings."""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.request_steps import topic
from tests.interop.same.steps import NAMES, Script, Step


def _ask(step: str, code: int, fields: Mapping[str, object] | None = None, body: Any = b"", **more: Any) -> Step:
    return Step(step, code, fields or {}, body, NAMES, **more)


def _route(step: str, name: str, **more: Any) -> Step:
    fields = {"topic": name, **more.pop("fields", {})}
    return _ask(step, Code.GET_ROUTEINFO_BY_TOPIC, fields, **more)


ROUTES = Script(
    "routes",
    (
        topic("same-route", 3),
        _route("a route", "same-route", until={"code": "0"}),
        _route("for 4.9.3", "same-route", version=399),
        _route("for 4.9.4", "same-route", version=401),
        _route("for 4.9.3, standard", "same-route", version=399, fields={"acceptStandardJsonOnly": True}),
        _route("in a binary header", "same-route", header_type=HeaderType.BINARY),
        _route("the default's", "TBW102"),
        _route("unknown", "same-route-none"),
        _route("no name", ""),
        _ask("without fields", Code.GET_ROUTEINFO_BY_TOPIC),
        _ask("clusters", Code.GET_BROKER_CLUSTER_INFO),
        _ask(
            "members", Code.GET_BROKER_MEMBER_GROUP, {"clusterName": "steelyard", "brokerName": "broker-a"}, in_4=False
        ),
        _ask("members of nobody", Code.GET_BROKER_MEMBER_GROUP, {"clusterName": "x", "brokerName": "y"}, in_4=False),
        _ask("topics", Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
        _ask("topics of a cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "steelyard"}),
        _ask("topics of no cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "none"}),
        _ask("system topics", Code.GET_SYSTEM_TOPIC_LIST_FROM_NS),
        _ask("unit topics", Code.GET_UNIT_TOPIC_LIST),
        _ask("topics with unit readers", Code.GET_HAS_UNIT_SUB_TOPIC_LIST),
        _ask("other topics with unit readers", Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
        topic("same-unit", 1, topicSysFlag=1),
        _route("a unit's", "same-unit", until={"code": "0"}),
        _ask("a unit topic", Code.GET_UNIT_TOPIC_LIST),
    ),
)


def _topic(name: str, queues: int = 2) -> dict[str, object]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


def _version(counter: int) -> dict[str, object]:
    return {"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000}


def _table(*topics: dict[str, object], counter: int = 1) -> bytes:
    return msgspec.json.encode(
        {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": _version(counter),
                "topicConfigTable": {str(each["topicName"]): each for each in topics},
            },
        }
    )


def _who(**changed: object) -> dict[str, object]:
    return {
        "brokerName": "broker-z",
        "brokerAddr": "127.0.0.1:19911",
        "clusterName": "others",
        "haServerAddr": "127.0.0.1:19912",
        "brokerId": 0,
    } | changed


def _register(step: str, body: bytes, *, checked: bool = False, **changed: object) -> Step:
    crc = zlib.crc32(body) & 0x7FFF_FFFF if checked else 0
    return _ask(step, Code.REGISTER_BROKER, _who(compressed=False, bodyCrc32=crc) | changed, body)


_TWO = _table(_topic("same-z"), _topic("same-y"))

REGISTRATION = Script(
    "registration",
    (
        _ask("not there yet", Code.QUERY_DATA_VERSION, _who(), _version(1)),
        _ask("leave before coming", Code.UNREGISTER_BROKER, _who()),
        _register("come", _TWO, checked=True),
        _route("its topic", "same-z", until={"code": "0"}),
        _ask("its version", Code.QUERY_DATA_VERSION, _who(), _version(1)),
        _ask("another version", Code.QUERY_DATA_VERSION, _who(), _version(2)),
        _ask("a beat", Code.BROKER_HEARTBEAT, _who(), in_4=False),
        _ask("a stranger's beat", Code.BROKER_HEARTBEAT, _who(brokerAddr="127.0.0.1:1"), in_4=False),
        _register("damaged", _TWO, bodyCrc32=5),
        _register("one topic more", _table(_topic("same-x", 5), counter=2)),
        _route("the topic more", "same-x", until={"code": "0"}),
        _register("a replica", _TWO, brokerId=1, brokerAddr="127.0.0.1:19921", haServerAddr="127.0.0.1:19922"),
        _route("with a replica", "same-z"),
        _ask("clusters", Code.GET_BROKER_CLUSTER_INFO),
        _ask("members", Code.GET_BROKER_MEMBER_GROUP, {"clusterName": "others", "brokerName": "broker-z"}, in_4=False),
        _ask("topics of the cluster", Code.GET_TOPICS_BY_CLUSTER, {"cluster": "others"}),
        _ask("stop writing", Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-z"}),
        _route("not for writing", "same-z"),
        _ask("allow writing", Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-z"}),
        _route("for writing", "same-z"),
        _ask("stop writing to nobody", Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "nobody"}),
        _ask("allow writing to nobody", Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "nobody"}),
        _ask("delete a topic", Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "same-x"}),
        _route("a deleted topic", "same-x"),
        _ask("delete it in a cluster", Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "same-y", "clusterName": "others"}),
        _route("deleted in a cluster", "same-y"),
        _ask("delete nothing", Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "same-nothing"}),
        _ask(
            "add a topic",
            Code.REGISTER_TOPIC_IN_NAMESRV,
            {"topic": "same-added"},
            {
                "brokerDatas": [],
                "filterServerTable": {},
                "queueDatas": [
                    {"brokerName": "broker-z", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
                ],
            },
            in_4=False,
        ),
        _route("the added", "same-added", in_4=False),
        _ask(
            "add a topic of nobody",
            Code.REGISTER_TOPIC_IN_NAMESRV,
            {"topic": "same-added-2"},
            {
                "queueDatas": [
                    {"brokerName": "no", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
                ]
            },
            in_4=False,
        ),
        _route("the added of nobody", "same-added-2"),
        _register("come with one topic", _table(_topic("same-w")), brokerName="broker-w", brokerAddr="127.0.0.1:19931"),
        _register("come with none", _table(), brokerName="broker-v", brokerAddr="127.0.0.1:19941"),
        _register("without a body", b"", brokerName="broker-u", brokerAddr="127.0.0.1:19951"),
        _register("nonsense", b"{nonsense", brokerName="broker-t", brokerAddr="127.0.0.1:19961"),
        _ask("leave", Code.UNREGISTER_BROKER, _who()),
        _route("only the replica", "same-z", until={"body.brokerDatas[0].brokerAddrs.0": "None"}),
        _ask("the replica leaves", Code.UNREGISTER_BROKER, _who(brokerId=1, brokerAddr="127.0.0.1:19921")),
        _route("nobody", "same-z", until={"code": "17"}),
    ),
)

_N = "SAME_NAMESPACE"

VALUES = Script(
    "values",
    (
        _ask("nothing there", Code.GET_KV_CONFIG, {"namespace": _N, "key": "k"}),
        _ask("no namespace", Code.GET_KVLIST_BY_NAMESPACE, {"namespace": _N}),
        _ask("put", Code.PUT_KV_CONFIG, {"namespace": _N, "key": "k", "value": "v"}),
        _ask("put another", Code.PUT_KV_CONFIG, {"namespace": _N, "key": "k2", "value": "v2"}),
        _ask("get", Code.GET_KV_CONFIG, {"namespace": _N, "key": "k"}),
        _ask("list", Code.GET_KVLIST_BY_NAMESPACE, {"namespace": _N}),
        _ask("put nothing", Code.PUT_KV_CONFIG, {"namespace": _N, "key": "k3"}),
        _ask("put nowhere", Code.PUT_KV_CONFIG, {"key": "k3", "value": "v"}),
        _ask("delete", Code.DELETE_KV_CONFIG, {"namespace": _N, "key": "k"}),
        _ask("deleted", Code.GET_KV_CONFIG, {"namespace": _N, "key": "k"}),
        _ask("delete again", Code.DELETE_KV_CONFIG, {"namespace": _N, "key": "k"}),
        _ask("delete the last", Code.DELETE_KV_CONFIG, {"namespace": _N, "key": "k2"}),
        _ask("list of none", Code.GET_KVLIST_BY_NAMESPACE, {"namespace": _N}),
        _ask("delete nowhere", Code.DELETE_KV_CONFIG, {"namespace": "SAME_NOWHERE", "key": "k"}),
        _ask(
            "order of a topic",
            Code.PUT_KV_CONFIG,
            {"namespace": "ORDER_TOPIC_CONFIG", "key": "TBW102", "value": "broker-a:4"},
        ),
        _route("an ordered route", "TBW102"),
        _register("a broker is told the order", _TWO),
        _ask("settings", Code.GET_NAMESRV_CONFIG),
        _ask("change a setting", Code.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=true\n"),
        _ask("change a path", Code.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/tmp/x\n"),
        _ask("change an unknown one", Code.UPDATE_NAMESRV_CONFIG, body=b"noSuchSetting=1\n"),
        _ask("change a port", Code.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1\n"),
        _ask("change nothing", Code.UPDATE_NAMESRV_CONFIG),
        _ask("unknown code", 12_345, silent=True),
        _ask("a broker's code", Code.SEND_MESSAGE_V2, silent=True),
        _ask("a heartbeat", Code.HEART_BEAT, silent=True),
    ),
)

SCRIPTS = (ROUTES, REGISTRATION, VALUES)
