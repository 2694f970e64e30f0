"""Requests that nobody should send: every code the broker serves and some it does not, with fields and bodies gone bad.

A field has a value of its type, an extreme one, one of another type, or none; a body is one of the right kind with a
leaf replaced, a mutated copy, or noise. The dice decide, so the same seed makes the same storm.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from steelyard.broker.broker import HANDLERS
from steelyard.errors import SteelyardError
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.groups import (
    CustomRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    SubscriptionGroupConfigList,
)
from steelyard.wire.bodies.heartbeat import (
    CheckClientRequest,
    ConsumeFromWhere,
    ConsumerHeartbeat,
    ConsumeType,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    HeldQueueEpoch,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import (
    AssignmentRequest,
    LockExtension,
    LockRequest,
    MessageRequestMode,
    MessageRequestModeSetting,
)
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigList
from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import ONEWAY_FLAG, Command, CommandFields
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.header_codec import header_layout
from steelyard.wire.headers.table import HEADER_OF_REQUEST
from steelyard.wire.json_body import QueueRef
from tests.fuzzing import Dice, mutations

CODES = (*sorted(HANDLERS), 0, -1, 1, 99, 105, 370, 9999, 32767, 200050, 200151)
"""All that the broker knows, then some that it does not."""

_NUMBERS = (0, 1, -1, 2, 3, 4, 6, 7, 8, 12, 31, 100, 65_535, 65_537, 1_000_000, 1_700_000_000_000)
_EXTREMES = (2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30)
_INT_DIGITS = 9
"""What fits an int of Java's for sure; fields with more are longs."""
_NOT_NUMBERS = ("", " ", "1.5", "1e9", "0x10", "null", "true", "NaN", "½", "٣", "+7", "-0", "007", "9" * 5_000)
_TEXTS = (
    *(
        "",
        " ",
        "*",
        "TAG",
        "SQL92",
        "a || b",
        "A>0",
        "a = 'b' AND (",
        "(" * 300,
        "NOT " * 300,
        "true",
        "false",
        "UPPER",
    ),
    *(
        "x" * 300,
        "\x00",
        "\x01",
        "\x02",
        "a\x01b\x02",
        "😀" * 50,
        "\u202e",
        "%RETRY%",
        "%DLQ%",
        "../../x",
        "{}",
        "[]",
        "'",
    ),
    *("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer", "TRANS_CHECK_MAX_TIME_TOPIC"),
    *("TOPIC_PUT_NUMS", "GROUP_GET_SIZE", "BROKER_PUT_NUMS", "DefaultCluster", "broker-0", "CID_RMQ_SYS_TRANS"),
    *("7F00000100002A9F0000000000000000", "7F00000100002A9F7FFFFFFFFFFFFFFF", "+message.type=FIFO", "-reserve.time"),
    *("SINGLE_TAG", "a;b;a;a;", '{"counter":1,"timestamp":5}', "y" * 20_000),
)
_PROPERTIES = (
    *(
        "DELAY\x013",
        "DELAY\x01-1",
        "DELAY\x0199999999999",
        "DELAY\x01x",
        "TIMER_DELAY_SEC\x012",
        "TIMER_DELAY_MS\x01-5",
    ),
    *("TIMER_DELIVER_MS\x011700000001000", "TIMER_DELIVER_MS\x01" + "9" * 18, "TIMER_DELIVER_MS\x01nan"),
    *("TRAN_MSG\x01true", "PGROUP\x01hostile", "UNIQ_KEY\x01u", "UNIQ_KEY\x01", "UNIQ_KEY\x01" + "k" * 3_000),
    *("REAL_TOPIC\x01RMQ_SYS_TRANS_OP_HALF_TOPIC", "REAL_TOPIC\x01../x", "REAL_QID\x0199999999", "REAL_QID\x01-7"),
    *("TRANSACTION_CHECK_TIMES\x0199", "TRAN_PREPARED_QUEUE_OFFSET\x010", "CHECK_IMMUNITY_TIME_IN_SECONDS\x01-3"),
    *("CHECK_IMMUNITY_TIME_IN_SECONDS\x01" + "9" * 18, "WAIT\x01false", "KEYS\x01a a b  c", "TAGS\x01a", "POP_CK\x01x"),
    *(
        "TIMER_OUT_MS\x015",
        "TIMER_ROLL_TIMES\x01x",
        "TIMER_DEL_UNIQKEY\x01x",
        "REPLY_TO_CLIENT\x01hostile-1",
        "\x01\x02",
    ),
    *("RETRY_TOPIC\x01x", "MSG_REGION\x01mars", "__CRC32#\x01zz", "a\x01" + "v" * 30_000, "\x02\x02", "no separators"),
)
_SETTINGS = (
    b"autoCreateTopicEnable=true\nmaxMessageSize=4194304\nflushIntervalCommitLog=500\n",
    b"flushDiskType=ASYNC_FLUSH\ntransactionTimeOut=6000\ntransactionCheckMax=15\nfileReservedTime=72\n",
    b"brokerName=evil\n",
)


class Names(NamedTuple):
    """What the storm may speak of by name; those that exist come first."""

    topics: Sequence[str]
    groups: Sequence[str]
    clients: Sequence[str]


_REAL = 3
"""So many of the names are those of real ones, and are said more often."""


class Request(NamedTuple):
    """One request of a storm."""

    code: int
    fields: CommandFields
    body: bytes
    oneway: bool
    header_type: HeaderType
    language: str


class Storm:
    """Hostile requests without end."""

    def __init__(self, seed: int, names: Names) -> None:
        self.random, self.names = Dice(seed), names
        self.positions = [0]
        """Where messages lie in the log: those who strike may know."""
        self._noise = mutations([b'{"clientId":"x","a":[1,{"b":2}]}', b"brokerName=a\n", bytes(64)], seed)
        self._mutated = {code: mutations([make(self)], seed + code) for code, make in _BODIES.items()}

    def request(self, code: int) -> Request:
        """Make a request of this code that can at least be read as a frame."""
        while True:
            made = self._request(code)
            command = Command(
                code, made.fields, made.body, 7, ONEWAY_FLAG, header_type=made.header_type, language=made.language
            )
            try:
                read = list(FrameDecoder().feed(encode_frame(command)))
            except SteelyardError:
                continue
            if read[0].code == code:
                return made

    def _request(self, code: int) -> Request:
        random = self.random
        is_binary = random.random() < 0.3 and -(2**15) <= code < 2**15
        kind = HeaderType.BINARY if is_binary else HeaderType.JSON
        values = self._values(code)
        fields: CommandFields
        if is_binary:
            fields = {name: str(value) for name, value in values.items() if value is not None}
            if random.random() < 0.05:
                fields = random.randbytes(random.randrange(40))
        elif random.random() < 0.5:
            fields = {name: _text(value) for name, value in values.items() if value is not None}
        else:
            fields = Raw(json.dumps(values, ensure_ascii=random.random() < 0.5).encode())
        language = random.choice(("JAVA", "PYTHON", "CPP", "", "x" * 2_000))
        return Request(code, fields, self._body(code), random.random() < 0.2, kind, language)

    # -- fields -------------------------------------------------------------------------------------------------------

    def _values(self, code: int) -> dict[str, Any]:
        """Return a value for most fields of the request's header, and sometimes for one that it has not."""
        random, values = self.random, dict[str, Any]()
        header = HEADER_OF_REQUEST.get(code)
        clean = random.random() < 0.8
        if header is not None:
            plan = header_layout(header)
            for attribute, name, kind, digits in zip(
                plan.attributes, plan.names, plan.types, plan.safe_digits, strict=True
            ):
                if clean or random.random() > 0.07:
                    values[name] = self._value(attribute, kind, digits, clean=clean)
        if random.random() < 0.1:
            values[random.choice(("topic", "n", "extra", "x" * 100))] = random.choice(("1", [1], {"a": {}}, 1.5, True))
        return values

    def _value(self, attribute: str, kind: type, digits: int, *, clean: bool) -> Any:
        random = self.random
        if not clean and random.random() < 0.15:
            return random.choice((None, [], {}, 1.5, True, -7, *_NOT_NUMBERS, *_TEXTS, *_EXTREMES))
        if kind is bool:
            return random.choice(("true", "false", True, False))
        if kind is int:
            return self._number(attribute, digits, clean=clean)
        if attribute == "default_topic" and clean:
            return "TBW102"
        if attribute == "topic_filter_type" and clean:
            return "SINGLE_TAG"
        if "topic" in attribute:
            return self.one_of(self.names.topics)
        if "group" in attribute:
            return self.one_of(self.names.groups)
        if attribute == "client_id":
            return self.one_of(self.names.clients)
        if attribute == "msg_id" and clean:
            return f"7F00000100002A9F{random.choice(self.positions):016X}"
        if attribute == "properties":
            count = random.randrange(5)
            return "\x02".join(random.choice(_PROPERTIES) for _ in range(count))
        return random.choice(_TEXTS)

    def _number(self, attribute: str, digits: int, *, clean: bool) -> int:
        random = self.random
        if clean and attribute in ("offset", "commit_log_offset"):
            return random.choice(self.positions)
        if clean:
            largest = 2**63 - 1 if digits > _INT_DIGITS else 2**31 - 1
            small = random.randrange(4 if attribute == "queue_id" else 8)
            return small if random.random() < 0.93 else random.choice((-1, largest, -largest - 1))
        return random.choice(_NUMBERS if random.random() < 0.6 else _EXTREMES)

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _body(self, code: int) -> bytes:
        random = self.random
        make = _BODIES.get(code)
        chance = random.random()
        if chance < 0.05:
            return b""
        if make is None or chance < 0.15:
            return next(self._noise) if chance < 0.7 else random.randbytes(random.randrange(300))
        if chance < 0.4:
            return make(self)
        if chance < 0.6:
            return next(self._mutated[code])
        try:
            plain = msgspec.json.decode(make(self))
        except msgspec.DecodeError:
            return next(self._mutated[code])
        return json.dumps(self._with_bad_leaf(plain)).encode()

    def _with_bad_leaf(self, plain: Any) -> Any:
        """Replace one leaf, or leave one out, or a whole branch."""
        random = self.random
        if isinstance(plain, dict) and plain and random.random() < 0.9:
            name = random.choice(list(plain))
            if random.random() < 0.1:
                return {other: value for other, value in plain.items() if other != name}
            return plain | {name: self._with_bad_leaf(plain[name])}
        if isinstance(plain, list) and plain and random.random() < 0.9:
            at = random.randrange(len(plain))
            return [*plain[:at], self._with_bad_leaf(plain[at]), *plain[at + 1 :] * random.choice((1, 1, 0, 3))]
        return random.choice((None, [], {}, 1.5, True, *_NUMBERS, *_EXTREMES, *_TEXTS, *self.names.groups))

    def one_of(self, names: Sequence[str]) -> str:
        """Choose a name, often that of a real one."""
        return self.random.choice(names[:_REAL] if self.random.random() < 0.6 else names)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _heartbeat(storm: Storm) -> bytes:
    random, names = storm.random, storm.names
    group, topic = storm.one_of(names.groups), storm.one_of(names.topics)
    wanted = SubscriptionBody(
        topic=topic,
        expression=random.choice(_TEXTS),
        version=random.choice(_NUMBERS),
        kind=random.choice(("TAG", "SQL92")),
    )
    word = HeartbeatExtension(
        groups={
            group: HeartbeatGroupExtension(
                strategy="sticky", held={topic: (HeldQueueEpoch(0, random.choice(_NUMBERS)), HeldQueueEpoch(-1, 5))}
            )
        },
        heartbeat_ms=random.choice((None, -1, 0, 1_000, 2**31 - 1)),
        instance=random.choice((None, "i", "j" * 200)),
        leaving=random.random() < 0.2,
    )
    reported = ConsumerHeartbeat(
        group=group,
        kind=random.choice(list(ConsumeType)),
        model=random.choice(list(MessageModel)),
        start_from=random.choice(list(ConsumeFromWhere)),
        subscriptions=(wanted,),
    )
    return encode_body(
        HeartbeatBody(
            client_id=storm.one_of(names.clients),
            consumers=(reported,),
            producers=(ProducerHeartbeat(group=group), ProducerHeartbeat(group="x" * random.choice((3, 255, 256)))),
            fingerprint=random.choice((None, 0, 5, -5)),
            without_subscriptions=random.random() < 0.3,
            steelyard=random.choice((None, word)),
        )
    )


def _locks(storm: Storm) -> bytes:
    random = storm.random
    queues = tuple(
        QueueRef(
            broker_name=random.choice(("broker-0", "broker-0", "other")),
            queue_id=random.choice((0, 1, -1, 2**31 - 1)),
            topic=storm.one_of(storm.names.topics),
        )
        for _ in range(random.randrange(4))
    )
    word = LockExtension(
        renew=random.random() < 0.3, epochs=random.choice((None, (), (1,), (2**63 - 1,) * len(queues)))
    )
    return encode_body(
        LockRequest(
            client_id=storm.one_of(storm.names.clients),
            group=storm.one_of(storm.names.groups) + random.choice(("", "%LEASE")),
            queues=queues,
            only_this_broker=False,
            steelyard=random.choice((None, word)),
        )
    )


def _topic(storm: Storm) -> TopicConfig:
    random = storm.random
    return TopicConfig(
        name=storm.one_of(storm.names.topics),
        read_queues=random.choice((4, 0, 1, -1, 65_536, 65_537)),
        write_queues=random.choice((4, 0, 1, 65_536)),
        permission=random.choice((6, 2, 4, 0, 7, 15, 16, -1)),
        filter_type=random.choice(("SINGLE_TAG", "MULTI_TAG", "x")),
        attributes=random.choice((None, {}, {"+message.type": "FIFO"}, {"x": "y"})),
    )


def _group(storm: Storm) -> SubscriptionGroupConfig:
    random = storm.random
    return SubscriptionGroupConfig(
        name=storm.one_of(storm.names.groups),
        consume_enabled=random.random() < 0.8,
        max_retries=random.choice(_NUMBERS[:12]),
        retry_queues=random.choice((1, 0, -1, 5, 2**31 - 1)),
        retry_policy=random.choice((None, GroupRetryPolicy(custom=CustomRetryPolicy(delays_ms=(1,) * 50)))),
        attributes=random.choice((None, {}, {"+a": "b"})),
    )


def _batch(storm: Storm) -> bytes:
    random = storm.random
    items = [
        BatchItem(random.choice((0, -1, 2**31 - 1)), random.randbytes(5), random.choice(_PROPERTIES).encode())
        for _ in range(random.randrange(1, 4))
    ]
    return encode_batch(items)


def _wish(storm: Storm) -> SubscriptionBody:
    return SubscriptionBody(topic=storm.one_of(storm.names.topics), expression=storm.one_of(_TEXTS), kind="SQL92")


_BODIES: dict[int, Callable[[Storm], bytes]] = {
    Code.HEART_BEAT: _heartbeat,
    Code.LOCK_BATCH_MQ: _locks,
    Code.UNLOCK_BATCH_MQ: _locks,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: lambda storm: encode_body(TopicConfigList(topics=(_topic(storm),) * 2)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda storm: encode_body(_group(storm)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda storm: encode_body(
        SubscriptionGroupConfigList(groups=(_group(storm),))
    ),
    Code.CHECK_CLIENT_CONFIG: lambda storm: encode_body(
        CheckClientRequest(client_id="c", group="g", subscription=_wish(storm))
    ),
    Code.QUERY_ASSIGNMENT: lambda storm: encode_body(
        AssignmentRequest(
            client_id=storm.one_of(storm.names.clients),
            group=storm.one_of(storm.names.groups),
            model=MessageModel.CLUSTERING,
            strategy=storm.one_of(("AVG", "AVG_BY_CIRCLE", "x")),
            topic=storm.one_of(storm.names.topics),
        )
    ),
    Code.SET_MESSAGE_REQUEST_MODE: lambda storm: encode_body(
        MessageRequestModeSetting(
            group=storm.one_of(storm.names.groups), mode=MessageRequestMode.PULL, topic="hostile-topic"
        )
    ),
    Code.UPDATE_BROKER_CONFIG: lambda storm: storm.random.choice(_SETTINGS),
    Code.SEND_BATCH_MESSAGE: _batch,
    Code.SEND_MESSAGE_V2: _batch,
}
"""What a right body of a request looks like; requests that are not here have none, or any."""
