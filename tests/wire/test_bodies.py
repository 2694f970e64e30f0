import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.model import BrokerAddresses, ExpressionType, Permission, Queue, QueueCounts, Subscription, TopicRoute
from steelyard.wire import limits
from steelyard.wire.bodies import decode_body, decode_request_body, encode_body
from steelyard.wire.bodies.acl import AclUser
from steelyard.wire.bodies.common import KVTable, TopicNames
from steelyard.wire.bodies.heartbeat import (
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    HeldQueueEpoch,
    MessageModel,
    SubscriptionBody,
)
from steelyard.wire.bodies.members import ConsumerIdList, ConsumerRunningState, RunningStateExtension
from steelyard.wire.bodies.offsets import ResetOffsets, ResetOffsetsList
from steelyard.wire.bodies.queue_assignment import DeniedLock, LockResponse, LockResponseExtension
from steelyard.wire.bodies.topics import BrokerEntry, BrokerMemberGroup, ClusterBody, RouteBody
from steelyard.wire.java_json import to_standard_json
from steelyard.wire.json_body import ById, ByQueue, JsonBody
from tests.wire.body_values import body_types, values

_EVERY_BODY = pytest.mark.parametrize("kind", body_types(), ids=lambda kind: kind.__name__)
# Few examples of each, because there are many bodies and each has its neighbours' fields.
_FEW = settings(max_examples=15)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_QUEUE = Queue("orders", "broker-a", 3)


def in_strings(value: Any) -> Any:
    """Turn every number and boolean of plain JSON into the string a sloppy peer would write."""
    if isinstance(value, dict):
        return {key: in_strings(each) for key, each in value.items()}
    if isinstance(value, list):
        return [in_strings(each) for each in value]
    return json.dumps(value) if isinstance(value, bool | int | float) else value


@_EVERY_BODY
@_FEW
@given(data=st.data())
def test_a_body_is_read_back_as_it_was_written(kind: type[JsonBody], data: st.DataObject) -> None:
    body = data.draw(values(kind))
    for quoted_ids in (False, True):
        assert decode_body(kind, encode_body(body, quoted_ids=quoted_ids)) == body


@_EVERY_BODY
@_FEW
@given(data=st.data())
def test_a_body_is_written_compact_and_without_nulls(kind: type[JsonBody], data: st.DataObject) -> None:
    text = encode_body(data.draw(values(kind)))
    assert not re.search(rb"\s|null", _STRINGS.sub(b"", text))


@_EVERY_BODY
@_FEW
@given(data=st.data())
def test_numbers_and_booleans_are_read_from_strings(kind: type[JsonBody], data: st.DataObject) -> None:
    body = data.draw(values(kind))
    sloppy = in_strings(json.loads(to_standard_json(encode_body(body), "body")))
    assert decode_body(kind, json.dumps(sloppy).encode()) == body


@_EVERY_BODY
@_FEW
@given(data=st.data())
def test_what_is_unknown_is_ignored_and_null_means_absent(kind: type[JsonBody], data: st.DataObject) -> None:
    body = data.draw(values(kind))
    plain = json.loads(to_standard_json(encode_body(body), "body"))
    absent = {field.encode_name: None for field in msgspec.structs.fields(kind) if field.encode_name not in plain}
    plain = {"news": {"0": [{}]}, **plain, **absent, "more": [None]}
    assert decode_body(kind, json.dumps(plain).encode()) == body


@_EVERY_BODY
def test_properties_are_declared_in_the_order_java_writes_them(kind: type[JsonBody]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert names == sorted(names)


@_EVERY_BODY
@_FEW
@given(data=st.data())
def test_what_may_be_absent_is_left_out_and_the_rest_is_always_written(
    kind: type[JsonBody], data: st.DataObject
) -> None:
    needed = {field.name: data.draw(values(field.type)) for field in msgspec.structs.fields(kind) if field.required}
    written = json.loads(to_standard_json(encode_body(kind(**needed), quoted_ids=True), "body"))
    optional = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is None}
    assert written.keys() == {field.encode_name for field in msgspec.structs.fields(kind)} - optional


def test_ids_are_raw_for_old_clients_and_quoted_for_new_ones() -> None:
    body = ClusterBody(brokers={"a": BrokerEntry(broker_name="a", addresses=ById({0: "x:1", 7: "y:2"}))})
    raw = b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"x:1",7:"y:2"},"brokerName":"a"}},"clusterAddrTable":{}}'
    assert encode_body(body) == raw
    assert encode_body(body, quoted_ids=True) == raw.replace(b"{0:", b'{"0":').replace(b",7:", b',"7":')


@pytest.mark.parametrize(
    "table",
    [
        '{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:41}',
        '{ {"topic":"orders","queueId":"3","brokerName":"broker-a","new":{0:1}} : "41" }',
        '{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":3,\\"topic\\":\\"orders\\"}":41}',
        '[[{"brokerName":"broker-a","queueId":3,"topic":"orders"},41]]',
    ],
)
def test_every_way_to_write_a_map_by_queue_is_read_alike(table: str) -> None:
    body = ResetOffsets(offsets=ByQueue({_QUEUE: 41}))
    assert decode_body(ResetOffsets, f'{{"offsetTable":{table}}}'.encode()) == body
    assert encode_body(body, quoted_ids=True) == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":3,"topic":"orders"}:41}}'
    )


@pytest.mark.parametrize("table", ["{}", "[]", "null", "{ }"])
def test_an_empty_map_by_queue_is_empty_in_every_form(table: str) -> None:
    assert decode_body(ResetOffsets, f'{{"offsetTable":{table}}}'.encode()) == ResetOffsets()


def test_a_reset_for_a_cpp_client_is_a_list() -> None:
    text = b'{"offsetTable":[{"brokerName":"broker-a","offset":41,"queueId":3,"topic":"orders"}]}'
    reset = decode_body(ResetOffsetsList, text)
    assert reset.to_table() == ResetOffsets(offsets=ByQueue({_QUEUE: 41}))
    assert encode_body(ResetOffsetsList.of(reset.to_table())) == text


def test_numbers_are_read_where_text_is_due() -> None:
    assert decode_body(KVTable, b'{"table":{"a":1,"b":true,"c":0.5,"d":"x"}}').table == {
        "a": "1",
        "b": "true",
        "c": "0.5",
        "d": "x",
    }
    assert decode_body(TopicNames, b'{"topicList":[7,"orders"]}').topics == ("7", "orders")
    assert decode_body(BrokerMemberGroup, b'{"brokerName":5,"brokerAddrs":{0:10911}}').addresses == {0: "10911"}
    assert decode_body(ResetOffsets, b'{"offsetTable":{{"brokerName":1,"queueId":3,"topic":2}:4}}').offsets == {
        Queue("2", "1", 3): 4
    }


def test_an_unknown_word_of_an_enum_counts_as_absent_and_case_does_not_matter() -> None:
    text = b'{"groupName":"g","consumeType":"consume_passively","messageModel":"SHOUTING"}'
    beat = decode_body(ConsumerHeartbeat, text)
    assert (beat.kind, beat.model) == (ConsumeType.PUSH, None)
    assert (
        decode_body(ConsumerHeartbeat, b'{"groupName":"g","messageModel":"BROADCASTING"}').model
        is MessageModel.BROADCASTING
    )


def test_the_old_name_of_the_system_flag_is_read() -> None:
    text = b'{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSynFlag":2,"writeQueueNums":4}]}'
    (entry,) = decode_body(RouteBody, text).queues
    assert entry.sys_flag == 2
    assert b'"topicSysFlag":2' in encode_body(entry)


def test_our_own_words_stand_beside_javas() -> None:
    word = HeartbeatExtension(
        instance="0" * 32,
        heartbeat_ms=3000,
        leaving=False,
        groups={"cg": HeartbeatGroupExtension(strategy="sticky", held={"t": (HeldQueueEpoch(0, 17),)})},
    )
    assert encode_body(HeartbeatBody(client_id="c", steelyard=word)) == (
        b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[],"steelyard":{"groups":{"cg":{"held":{"t":[[0,17]]},'
        b'"strategy":"sticky"}},"heartbeatMs":3000,"instance":"00000000000000000000000000000000","leaving":false,"v":1}}'
    )
    denied = LockResponse(steelyard=LockResponseExtension(epochs=(17,), denied=(DeniedLock("t", 3, "other"),)))
    assert encode_body(denied) == (b'{"lockOKMQSet":[],"steelyard":{"denied":[["t",3,"other"]],"epochs":[17],"v":1}}')
    held = encode_body(ConsumerRunningState(steelyard=RunningStateExtension(held=(_QUEUE,), departed={"other": 400})))
    assert b'"steelyard":{"departed":{"other":400},"held":[["orders","broker-a",3]],"v":1}' in held
    ids = decode_body(ConsumerIdList, b'{"consumerIdList":["c"],"steelyard":{"v":1,"epoch":12,"owners":{"t":[0,-1]}}}')
    assert ids.steelyard is not None
    assert ids.steelyard.owners == {"t": (0, -1)}


def test_a_route_goes_there_and_back() -> None:
    route = TopicRoute(
        "orders",
        (BrokerAddresses("broker-a", "DefaultCluster", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}),),
        (QueueCounts("broker-a", read=8, write=3, permission=Permission.READ),),
        order="broker-a:3",
    )
    assert decode_body(RouteBody, encode_body(RouteBody.of(route))).route("orders") == route


@given(st.sampled_from(["*", "a", "a || b || c", "é || 你"]), st.integers(0, 2**62))
def test_a_subscription_goes_there_and_back(expression: str, version: int) -> None:
    wanted = Subscription("orders", expression, version=version)
    body = decode_body(SubscriptionBody, encode_body(SubscriptionBody.of(wanted)))
    assert body.subscription() == wanted
    assert (body.tags, body.hashes) == (wanted.tags, wanted.tag_hashes)
    sql = Subscription("orders", "amount > 10", ExpressionType.SQL92, version)
    assert decode_body(SubscriptionBody, encode_body(SubscriptionBody.of(sql))).subscription() == sql


@pytest.mark.parametrize(
    "text", ['{"topic":""}', '{"topic":"t","expressionType":"XPATH"}', '{"topic":"t","subString":"||"}']
)
def test_a_subscription_that_means_nothing_is_malformed(text: str) -> None:
    with pytest.raises(MalformedBody, match="body of SubscriptionBody"):
        decode_body(SubscriptionBody, text.encode()).subscription()


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(AclUser(name="shop", password="".join(["sec", "ret"])))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "truncated"),
        (b"\xff", "byte 0"),
        (b'{"clientID":"a"', "truncated"),
        (b'{"clientID":"\xff"}', "can't decode"),
        (b'{"clientID":"\\ud800"}', "body of HeartbeatBody"),
        (b'{"clientID":NaN}', "byte 12"),
        (b'{"clientID":"a"} {', "trailing"),
        (b"{}", "clientID"),
        (b'{"clientID":null}', "clientID"),
        (b'{"clientID":{}}', "clientID"),
        (b'{"clientID":"a","heartbeatFingerprint":2147483648}', "2147483647"),
        (b'{"clientID":"a","heartbeatFingerprint":' + b"9" * 5000 + b"}", "range"),
        (b'{"clientID":"a","withoutSub":"perhaps"}', "withoutSub"),
        (b'{"clientID":"a","consumerDataSet":{}}', "consumerDataSet"),
        (b'{"clientID":"a","steelyard":{"groups":{"g":{"held":{"t":[[1]]}}}}}', "held"),
        (b'{0:"a"}', "clientID"),
        (b'{{}:"a"}', "body of HeartbeatBody"),
    ],
)
def test_what_cannot_be_read_is_malformed_and_gives_the_reason(text: bytes, complaint: str) -> None:
    with pytest.raises(MalformedBody, match="body of HeartbeatBody") as caught:
        decode_body(HeartbeatBody, text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        "5",
        '"x"',
        "[5]",
        "[[1,2,3]]",
        '{"orders":1}',
        '{"{":1}',
        '{"' + "[" * 20 + '":1}',
        '[[{"topic":"t"},1]]',
        "{{}:1}",
        '{{"brokerName":"b","queueId":0,"topic":"t"}:"x"}',
        '{{"brokerName":"b","queueId":9999999999,"topic":"t"}:1}',
        '{{"brokerName":"b","queueId":0,"topic":"t"}:1,"x":2}',
    ],
)
def test_a_map_by_queue_that_is_none_is_malformed(table: str) -> None:
    with pytest.raises(MalformedBody, match="body of ResetOffsets"):
        decode_body(ResetOffsets, f'{{"offsetTable":{table}}}'.encode())


@pytest.mark.parametrize("ids", ['{"x":"a"}', '{99999999999999999999:"a"}', "[]", '{"":"a"}', "{{}:1}"])
def test_a_map_by_id_that_is_none_is_malformed(ids: str) -> None:
    with pytest.raises(MalformedBody, match="body of BrokerMemberGroup"):
        decode_body(BrokerMemberGroup, f'{{"brokerName":"a","brokerAddrs":{ids}}}'.encode())


def test_the_last_of_several_properties_with_one_name_counts() -> None:
    assert decode_body(
        BrokerMemberGroup, b'{"brokerName":"a","brokerName":"b","brokerAddrs":{0:"x",0:"y"}}'
    ) == BrokerMemberGroup(broker_name="b", addresses=ById({0: "y"}))


@pytest.mark.parametrize("property_name", ["steelyard", "nobody knows"])
def test_the_limit_of_nesting_holds_wherever_it_is_broken(property_name: str) -> None:
    for levels in (limits.JSON_DEPTH, 100_000):
        text = json.dumps({"clientID": "a", property_name: 0}).encode()
        with pytest.raises(LimitExceeded, match="nesting"):
            decode_body(HeartbeatBody, text.replace(b"0", b"[" * levels + b"]" * levels))


def test_a_large_body_is_read_but_not_mended() -> None:
    many = [{"clientID": "a", "consumerDataSet": [], "x": "y" * 100}] * 12_000
    text = json.dumps(many).encode()
    assert len(decode_body(tuple[HeartbeatBody, ...], text)) == len(many)
    with pytest.raises(MalformedBody, match="Expected `str`"):
        decode_body(tuple[HeartbeatBody, ...], text[:-1] + b',{"clientID":1}]')


def test_a_value_that_no_body_has_cannot_be_written() -> None:
    with pytest.raises(ConfigurationError, match="object cannot be written"):
        encode_body({"a": object()})
    with pytest.raises(ConfigurationError, match="cannot be written"):
        encode_body(HeartbeatBody(client_id="\ud800"))


def test_the_maps_are_mappings_that_cannot_be_changed() -> None:
    offsets = ByQueue({_QUEUE: 41})
    assert (len(offsets), list(offsets), offsets.get(Queue("t", "b", 0))) == (1, [_QUEUE], None)
    assert not hasattr(offsets, "__setitem__")
    source = {0: "a"}
    ids = ById(source)
    source[1] = "b"
    assert repr(ids) == "ById({0: 'a'})"


def test_a_request_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(LimitExceeded, match="body of BrokerMemberGroup: size in bytes is 65537, the limit is 65536"):
        decode_request_body(BrokerMemberGroup, b" " * 65_537)
