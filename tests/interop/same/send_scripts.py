"""Scripts about sending: one message and many, refusals, retries and dead letters, delays, transactions, replies."""

from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.request_steps import group, heartbeat, named, pull, queue, send, topic
from tests.interop.same.steps import Script, Step

_T = "same-send"
_KEY = "7F00000100002A9F00000000000000%02d"
_TOO_LARGE = b"x" * (4 * 1024 * 1024 + 1)


def _key(number: int, **more: str) -> dict[str, str]:
    return {"UNIQ_KEY": _KEY % number, **more}


def _long_names(name: str, queue_id: int = 0, **more: object) -> dict[str, object]:
    return {
        "producerGroup": "same-producers",
        "topic": name,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue_id,
        "sysFlag": 0,
        "bornTimestamp": "$now",
        "flag": 3,
        "properties": named({"TAGS": "A", "UNIQ_KEY": _KEY % 90}),
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
        "maxReconsumeTimes": 16,
    } | more


def _batch(*items: BatchItem) -> bytes:
    return encode_batch(items)


_ITEMS = (
    BatchItem(0, b"one", b"TAGS\x01A\x02UNIQ_KEY\x01" + (_KEY % 31).encode() + b"\x02"),
    BatchItem(5, b"two", b"TAGS\x01B\x02UNIQ_KEY\x01" + (_KEY % 32).encode() + b"\x02"),
)

SEND = Script(
    "send",
    (
        topic(_T, 3),
        send("short names", _T, 1, b"one", _key(1, TAGS="A", KEYS="k1 k2", own="value", WAIT="true")),
        Step("long names", Code.SEND_MESSAGE, _long_names(_T, 1), b"two"),
        send("binary header", _T, 1, b"three", _key(2, TAGS="B"), header_type=HeaderType.BINARY),
        send("no properties", _T, 1, b"four", {}),
        send("without a last separator", _T, 1, b"five", letters={"i": "TAGS\x01A\x02own\x01value"}),
        send("broken properties", _T, 1, b"six", letters={"i": "a\x01b\x02c\x01\x02\x01x\x02nonsense\x02d\x01e"}),
        send("properties of the broker's", _T, 1, b"seven", _key(3, MSG_REGION="mine", TRACE_ON="no", CLUSTER="x")),
        send("a receipt of a pop", _T, 1, b"eight", _key(4, POP_CK="1 2 3")),
        topic("same-send-single", 1),
        send("any queue", "same-send-single", -1, b"any"),
        send("queue beyond", _T, 3),
        send("queue far beyond", _T, 1_000_000),
        send("an empty body", "same-send-single", 0, b""),
        send("compressed", _T, 2, b"not really", letters={"f": 1}),
        send("oneway", _T, 2, b"oneway", oneway=True),
        pull("what was stored", "TOOLS_CONSUMER", _T, 1, until={"ext.maxOffset": "8"}),
        pull("what was stored in another queue", "TOOLS_CONSUMER", _T, 2, until={"body[1].body": "oneway"}),
        send("unknown topic", "same-send-new", 0),
        Step("the topic made by a send", Code.GET_TOPIC_CONFIG, {"topic": "same-send-new"}, in_4=False),
        send("unknown topic, no default", "same-send-none", 0, letters={"c": "same-nothing"}),
        send("unknown topic, 1 queue", "same-send-one", 0, letters={"d": 1}),
        Step("the topic with 1 queue", Code.GET_TOPIC_CONFIG, {"topic": "same-send-one"}, in_4=False),
        send("unknown topic, many queues", "same-send-many", 0, letters={"d": 100}),
        Step("the topic with many queues", Code.GET_TOPIC_CONFIG, {"topic": "same-send-many"}, in_4=False),
        send("a name with a slash", "../same"),
        send("a name with a blank", "same send"),
        send("a long name", "x" * 128),
        send("no name", ""),
        send("a longer body", _T, 2, _TOO_LARGE),
        send("long properties", _T, 2, b"x", _key(5, own="v" * 33_000)),
        *(
            send(f"to {name}", name)
            for name in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT")
        ),
        *(send(f"to {name}", name) for name in ("TBW102", "BenchmarkTest", "TRANS_CHECK_MAX_TIME_TOPIC")),
        Step("a header without fields", Code.SEND_MESSAGE_V2),
        send("a queue that is no number", _T, letters={"e": "first"}),
        topic("same-send-read", 2, perm=4),
        send("to a topic only for reading", "same-send-read"),
        topic("same-send-none", 2, perm=0),
        send("to a topic for nothing", "same-send-none"),
        topic("same-send-uneven", 4, writeQueueNums=1),
        send("to a queue only for reading", "same-send-uneven", 3),
    ),
)

BATCH = Script(
    "batch",
    (
        topic("same-batch", 2),
        send("two", "same-batch", 1, _batch(*_ITEMS), {"WAIT": "true"}, code=320, letters={"m": True}),
        send("with a key", "same-batch", 1, _batch(*_ITEMS), _key(33), code=320, letters={"m": True}),
        send("flagged 310", "same-batch", 1, _batch(_ITEMS[0]), {}, letters={"m": True}),
        send("320 without the flag", "same-batch", 1, _batch(_ITEMS[0]), {}, code=320),
        Step("long names", Code.SEND_MESSAGE, _long_names("same-batch", 1, batch=True), _batch(_ITEMS[0])),
        pull("what was stored", "TOOLS_CONSUMER", "same-batch", 1, until={"ext.maxOffset": "7"}),
        send("empty", "same-batch", 0, b"", {}, code=320, letters={"m": True}),
        send("cut off", "same-batch", 0, _batch(*_ITEMS)[:-3], {}, code=320, letters={"m": True}),
        send("nonsense", "same-batch", 0, b"\x00\x00\x00\x05abcd", {}, code=320, letters={"m": True}),
        send("bad queue", "same-batch", 9, _batch(*_ITEMS), {}, code=320, letters={"m": True}),
        send("too large", "same-batch", 0, _TOO_LARGE, {}, code=320, letters={"m": True}),
        send("oneway", "same-batch", 0, _batch(*_ITEMS), {}, code=320, letters={"m": True}, oneway=True),
        pull("what was stored oneway", "TOOLS_CONSUMER", "same-batch", 0, until={"ext.maxOffset": "2"}),
        send("unknown topic", "same-batch-new", 0, _batch(*_ITEMS), {}, code=320, letters={"m": True}),
    ),
)

_G = "same-retry"
_RETRY = {"RETRY_TOPIC": "same-retry-topic", "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000000100"}

RETRY = Script(
    "retry",
    (
        topic("same-retry-topic", 1),
        group(_G, retryMaxTimes=3),
        send("a message", "same-retry-topic", 0, b"m", _key(40, TAGS="A", KEYS="k", DELAY="0"), keep={"position": "m"}),
        send("to the retries of an unknown group", "%RETRY%same-nobody", 0, b"r"),
        Step("those retries", Code.GET_TOPIC_CONFIG, {"topic": "%RETRY%same-nobody"}, in_4=False),
        send("first retry", f"%RETRY%{_G}", 0, b"r1", _key(41, **_RETRY), letters={"j": 1, "l": 3}),
        send("last retry", f"%RETRY%{_G}", 0, b"r2", _key(42, **_RETRY), letters={"j": 3, "l": 3}),
        send("one too many", f"%RETRY%{_G}", 0, b"r3", _key(43, DELAY="2", **_RETRY), letters={"j": 4, "l": 3}),
        send("beyond, without a limit", f"%RETRY%{_G}", 0, b"r4", _key(44), letters={"j": 4, "l": None}),
        send("delayed retry", f"%RETRY%{_G}", 0, b"r5", _key(45, DELAY="1", **_RETRY), letters={"j": 1, "l": 3}),
        pull("the retries", _G, f"%RETRY%{_G}", 0, until={"ext.maxOffset": "3"}, in_4=False),
        pull("the dead letters", _G, f"%DLQ%{_G}", 0, until={"ext.maxOffset": "2"}, in_4=False),
        Step(
            "back",
            Code.CONSUMER_SEND_MSG_BACK,
            {"offset": "$m", "group": _G, "delayLevel": 1, "originTopic": "same-retry-topic"},
        ),
        Step("back, any level", Code.CONSUMER_SEND_MSG_BACK, {"offset": "$m", "group": _G, "delayLevel": 0}),
        Step(
            "back, to the dead",
            Code.CONSUMER_SEND_MSG_BACK,
            {"offset": "$m", "group": _G, "delayLevel": -1, "originTopic": "same-retry-topic"},
        ),
        Step(
            "back, none allowed",
            Code.CONSUMER_SEND_MSG_BACK,
            {"offset": "$m", "group": _G, "delayLevel": 1, "maxReconsumeTimes": 0, "originTopic": "same-retry-topic"},
        ),
        Step(
            "back, no such message", Code.CONSUMER_SEND_MSG_BACK, {"offset": 999_999_999, "group": _G, "delayLevel": 1}
        ),
        Step("back, half a message", Code.CONSUMER_SEND_MSG_BACK, {"offset": 3, "group": _G, "delayLevel": 1}),
        Step(
            "back, unknown group", Code.CONSUMER_SEND_MSG_BACK, {"offset": "$m", "group": "same-back", "delayLevel": 1}
        ),
        Step("back, bad group", Code.CONSUMER_SEND_MSG_BACK, {"offset": "$m", "group": "no/group", "delayLevel": 1}),
        Step(
            "back, oneway",
            Code.CONSUMER_SEND_MSG_BACK,
            {"offset": "$m", "group": _G, "delayLevel": -1, "originTopic": "same-retry-topic"},
            oneway=True,
        ),
        group("same-retry-none", retryQueueNums=0),
        Step(
            "back, no retry queues",
            Code.CONSUMER_SEND_MSG_BACK,
            {"offset": "$m", "group": "same-retry-none", "delayLevel": 1},
        ),
        pull("the message comes again", _G, f"%RETRY%{_G}", 0, 3, until={"code": "0"}, in_4=False),
        pull("the dead letters sent back", _G, f"%DLQ%{_G}", 0, 2, until={"ext.maxOffset": "5"}, in_4=False),
        Step("topic of the dead", Code.GET_TOPIC_CONFIG, {"topic": f"%DLQ%{_G}"}, in_4=False),
    ),
)

DELAY = Script(
    "delay",
    (
        topic("same-delay", 3),
        send("level 1", "same-delay", 1, b"d1", _key(50, DELAY="1", TAGS="A")),
        send("level 0", "same-delay", 0, b"d0", _key(51, DELAY="0")),
        send("level below", "same-delay", 0, b"d-", _key(52, DELAY="-1")),
        send("level beyond", "same-delay", 0, b"d99", _key(53, DELAY="99")),
        send("level of letters", "same-delay", 0, b"dx", _key(54, DELAY="soon")),
        send("timer past", "same-delay", 0, b"t1", _key(55, TIMER_DELIVER_MS="1000"), in_4=False),
        send("timer of letters", "same-delay", 0, b"t2", _key(56, TIMER_DELIVER_MS="soon"), in_4=False),
        send("timer too far", "same-delay", 0, b"t3", _key(57, TIMER_DELAY_SEC="999999"), in_4=False),
        send("timer soon", "same-delay", 0, b"t4", _key(58, TIMER_DELAY_SEC="1"), in_4=False),
        send("timer in ms", "same-delay", 2, b"t5", _key(59, TIMER_DELAY_MS="1500"), in_4=False),
        pull("delivered", "TOOLS_CONSUMER", "same-delay", 1, until={"code": "0"}),
        pull("at once, and by timers", "TOOLS_CONSUMER", "same-delay", 0, until={"ext.maxOffset": "4"}, in_4=False),
        pull("by a timer in ms", "TOOLS_CONSUMER", "same-delay", 2, until={"code": "0"}, in_4=False),
        Step("timer topic", Code.GET_MAX_OFFSET, {"topic": "rmq_sys_wheel_timer", "queueId": 0}, in_4=False),
        send("to the timer's topic", "rmq_sys_wheel_timer"),
        Step("delay offsets", Code.GET_ALL_DELAY_OFFSET, in_4=False),
    ),
)

_HALF = {"TRAN_MSG": "true", "PGROUP": "same-producers"}


def _end(step: str, half: str, how: int, **changed: object) -> Step:
    fields = {
        "topic": "same-half",
        "producerGroup": "same-producers",
        "tranStateTableOffset": f"${half}_offset",
        "commitLogOffset": f"${half}_position",
        "commitOrRollback": how,
        "fromTransactionCheck": False,
        "msgId": _KEY % 60,
        "transactionId": _KEY % 60,
    }
    return Step(step, Code.END_TRANSACTION, fields | changed, silent=how == 0)


def _half(step: str, half: str, number: int, **more: str) -> Step:
    keep = {"queueOffset": f"{half}_offset", "position": f"{half}_position"}
    return send(step, "same-half", 1, half.encode(), _key(number, **_HALF, **more), letters={"f": 4}, keep=keep)


TRANSACTIONS = Script(
    "transactions",
    (
        topic("same-half", 2),
        _half("half", "one", 60, TAGS="A", KEYS="k"),
        pull("before the end", "TOOLS_CONSUMER", "same-half", 1),
        _end("unknown end", "one", 0),
        _end("impossible end", "one", 5),
        _end("wrong group", "one", 8, producerGroup="others"),
        _end("wrong offset", "one", 8, tranStateTableOffset=12345),
        _end("wrong position", "one", 8, commitLogOffset=123_456_789),
        _end("commit", "one", 8),
        pull("after the commit", "TOOLS_CONSUMER", "same-half", 1, until={"code": "0"}),
        _half("another half", "two", 61),
        _end("roll back", "two", 12),
        _end("roll back again", "two", 12),
        _end("commit again", "one", 8),
        _end("roll back after the commit", "one", 12),
        send("prepared without the mark", "same-half", 0, b"odd", _key(63), letters={"f": 4}),
        send("rolled back without the mark", "same-half", 0, b"odd", _key(64), letters={"f": 12}),
        send("committed without the mark", "same-half", 0, b"odd", _key(65), letters={"f": 8}),
        send("half to an unknown topic", "same-half-new", 0, b"h", _key(66, **_HALF), letters={"f": 4}),
        Step("resume nothing", Code.RESUME_CHECK_HALF_MESSAGE, {"topic": "same-half", "msgId": "nonsense"}),
        Step(
            "resume what is no half",
            Code.RESUME_CHECK_HALF_MESSAGE,
            {"topic": "same-half", "msgId": "7F00000100002A9F0000000000FFFFFF"},
        ),
    ),
)

REPLIES = Script(
    "replies",
    (
        topic("same-reply", 1),
        heartbeat("the asker", "asker@1", producers=("same-askers",), connection="asker"),
        send(
            "a reply",
            "same-reply",
            0,
            b"answer",
            _key(70, REPLY_TO_CLIENT="asker@1", CORRELATION_ID="c1", MSG_TYPE="reply", TTL="3000"),
            code=325,
            expects=("asker", 326),
        ),
        Step(
            "a reply with long names",
            Code.SEND_REPLY_MESSAGE,
            _long_names("same-reply", properties=named({"REPLY_TO_CLIENT": "asker@1", "CORRELATION_ID": "c2"})),
            b"answer",
            expects=("asker", 326),
        ),
        send("to nobody", "same-reply", 0, b"answer", _key(71, CORRELATION_ID="c"), code=325),
        send("to somebody unknown", "same-reply", 0, b"answer", _key(72, REPLY_TO_CLIENT="x@1"), code=325),
        send("bad queue", "same-reply", 7, b"a", _key(74, REPLY_TO_CLIENT="asker@1"), code=325),
    ),
)

SIDE_EFFECTS = Script(
    "side effects of sends",
    (
        send("unknown topic, bad queue", "same-send-new-bad", 4),
        Step("a topic of a refused send", Code.GET_TOPIC_CONFIG, {"topic": "same-send-new-bad"}, in_4=False),
        send("a batch to retries", "%RETRY%same-batchers", 0, _batch(*_ITEMS), {}, code=320, letters={"m": True}),
        Step("those retries", Code.GET_TOPIC_CONFIG, {"topic": "%RETRY%same-batchers"}, in_4=False),
        send("a reply in a new topic", "same-reply-new", 0, b"a", _key(73, REPLY_TO_CLIENT="x@1"), code=325),
        Step("that topic", Code.GET_TOPIC_CONFIG, {"topic": "same-reply-new"}, in_4=False),
        topic("same-lock-side", 1),
        group("same-lock-sides"),
        Step(
            "a lock",
            Code.LOCK_BATCH_MQ,
            body={"clientId": "l@1", "consumerGroup": "same-lock-sides", "mqSet": [queue("same-lock-side")]},
        ),
        send("a retry while locked", "%RETRY%same-lock-sides", 0, b"r", letters={"j": 1, "l": 16}),
        Step("no dead letters", Code.GET_TOPIC_CONFIG, {"topic": "%DLQ%same-lock-sides"}, in_4=False),
        Step("but a retry", Code.GET_MAX_OFFSET, {"topic": "%RETRY%same-lock-sides", "queueId": 0}),
    ),
)

SCRIPTS = (SEND, BATCH, RETRY, DELAY, TRANSACTIONS, REPLIES)
