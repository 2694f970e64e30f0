"""Scripts about reading: pulls with every result, filters, waiting, offsets of groups and queues, questions by key."""

from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.request_steps import commit, consumer, group, heartbeat, pull, query_offset, send, topic, wanted
from tests.interop.same.steps import Script, Step

_T, _G = "same-pull", "same-pullers"


def _key(number: int, **more: str) -> dict[str, str]:
    return {"UNIQ_KEY": f"7F00000100002A9F0000000000001{number:03d}", **more}


_FULL = {"ext.maxOffset": "4"}

PULL = Script(
    "pull",
    (
        topic(_T, 3),
        group(_G),
        send("A", _T, 0, b"a", _key(1, TAGS="A", age="10", name="x")),
        send("B", _T, 0, b"b", _key(2, TAGS="B", age="20")),
        send("none", _T, 0, b"c", _key(3)),
        send("A again", _T, 0, b"d", _key(4, TAGS="A", age="30", name="it's")),
        pull("all", _G, _T, until=_FULL),
        pull("all, lite", _G, _T, code=361, flags=4 + 16, in_4=False),
        pull("all, binary header", _G, _T, header_type=HeaderType.BINARY),
        pull("one", _G, _T, most=1),
        pull("none asked for", _G, _T, most=0),
        pull("fewer than none", _G, _T, most=-5),
        pull("many", _G, _T, most=5000),
        pull("from the middle", _G, _T, offset=2),
        pull("at the end", _G, _T, offset=4),
        pull("beyond the end", _G, _T, offset=5),
        pull("far beyond the end", _G, _T, offset=1_000_000_000_000),
        pull("below", _G, _T, offset=-1),
        pull("an empty queue", _G, _T, 1),
        pull("an empty queue beyond", _G, _T, 1, 7),
        pull("an empty queue below", _G, _T, 1, -1),
        pull("queue beyond", _G, _T, 3),
        pull("queue below", _G, _T, -1),
        pull("unknown topic", _G, "same-pull-nothing"),
        pull("unknown group", "same-pull-nobody", _T),
        pull("bad group", "no/group", _T),
        pull("no group", "", _T),
        pull("bad topic", _G, "no/topic"),
        pull("tag A", _G, _T, wants="A"),
        pull("tags A or B", _G, _T, wants="A || B"),
        pull("tag nobody has", _G, _T, wants="C"),
        pull("nothing wanted", _G, _T, wants=""),
        pull("only bars", _G, _T, wants="||"),
        pull("a kind in small letters", _G, _T, wants="A", kind="tag"),
        pull("no kind", _G, _T, wants="A", kind=""),
        pull("condition", _G, _T, wants="age > 15", kind="SQL92"),
        pull("condition on text", _G, _T, wants="name = 'it''s' OR TAGS = 'B'", kind="SQL92"),
        pull("condition that nothing meets", _G, _T, wants="age > 99", kind="SQL92"),
        pull("condition on what is missing", _G, _T, wants="name IS NULL", kind="SQL92"),
        pull("bad condition", _G, _T, wants="age >", kind="SQL92"),
        pull("empty condition", _G, _T, wants="", kind="SQL92"),
        pull("a kind nobody knows", _G, _T, wants="A", kind="REGEX"),
        pull("without a filter, nobody there", _G, _T, flags=0),
        pull("commits", _G, _T, flags=5, commits=3),
        query_offset("what was committed", _G, _T),
        pull("commits below", _G, _T, flags=5, commits=-1),
        query_offset("what was committed below", _G, _T),
        Step("without fields", Code.PULL_MESSAGE),
        group("same-pull-off", consumeEnable=False),
        pull("a group that may not", "same-pull-off", _T),
        topic("same-pull-write", 1, perm=2),
        pull("a topic that may not", _G, "same-pull-write"),
        topic("same-pull-wide", 1, writeQueueNums=4),
        pull("a queue only for writing", _G, "same-pull-wide", 2),
        pull("a topic of the broker's", "TOOLS_CONSUMER", "SCHEDULE_TOPIC_XXXX", 17),
    ),
)

SUBSCRIBED = Script(
    "subscribed",
    (
        topic("same-sub", 1),
        group("same-subs"),
        send("A", "same-sub", 0, b"a", _key(11, TAGS="A", age="10")),
        send("B", "same-sub", 0, b"b", _key(12, TAGS="B", age="20")),
        pull("settle", "TOOLS_CONSUMER", "same-sub", until={"ext.maxOffset": "2"}),
        pull("nobody there", "same-subs", "same-sub", flags=0),
        heartbeat("a member", "m@1", [consumer("same-subs", wanted("same-sub", "A", version=100))]),
        pull("by its tags", "same-subs", "same-sub", flags=0, wants_version=100),
        pull("older", "same-subs", "same-sub", flags=0, wants_version=99),
        pull("newer", "same-subs", "same-sub", flags=0, wants_version=101),
        pull("another topic", "same-subs", _T, flags=0),
        heartbeat("a condition", "m@1", [consumer("same-subs", wanted("same-sub", "age > 15", "SQL92", 200))]),
        pull("by its condition", "same-subs", "same-sub", flags=0, wants_version=200),
        heartbeat("a bad condition", "m@1", [consumer("same-subs", wanted("same-sub", "age >", "SQL92", 300))]),
        pull("by its bad condition", "same-subs", "same-sub", flags=0, wants_version=300),
        group("same-loud", consumeBroadcastEnable=False),
        heartbeat("a loud member", "m@1", [consumer("same-loud", wanted("same-sub"), model="BROADCASTING")]),
        pull("no broadcasting", "same-loud", "same-sub", flags=0, wants_version=1),
        Step(
            "check a condition",
            Code.CHECK_CLIENT_CONFIG,
            body={"clientId": "m@1", "group": "same-subs", "subscriptionData": wanted("same-sub", "a = 1", "SQL92")},
        ),
        Step(
            "check a bad condition",
            Code.CHECK_CLIENT_CONFIG,
            body={"clientId": "m@1", "group": "same-subs", "subscriptionData": wanted("same-sub", "a =", "SQL92")},
        ),
        Step(
            "check tags",
            Code.CHECK_CLIENT_CONFIG,
            body={"clientId": "m@1", "group": "same-subs", "subscriptionData": wanted("same-sub", "A")},
        ),
        Step("check nothing", Code.CHECK_CLIENT_CONFIG, body={"clientId": "m@1", "group": "same-subs"}),
        Step("check without a body", Code.CHECK_CLIENT_CONFIG),
    ),
)

WAIT = Script(
    "wait",
    (
        topic("same-wait", 2),
        group("same-waiters"),
        pull("an empty queue, a while", "same-waiters", "same-wait", 0, flags=6, wait_ms=1500),
        pull("an empty queue, elsewhere", "same-waiters", "same-wait", 0, 5, flags=6, wait_ms=1500),
        pull("wait without time", "same-waiters", "same-wait", 0, flags=6, wait_ms=0),
        send("A", "same-wait", 1, b"a", _key(21, TAGS="A")),
        pull("settle", "same-waiters", "same-wait", 1, until={"ext.maxOffset": "1"}),
        pull("at the end, a while", "same-waiters", "same-wait", 1, 1, flags=6, wait_ms=1500),
        pull("another tag, a while", "same-waiters", "same-wait", 1, 0, wants="B", flags=6, wait_ms=1500),
    ),
)

_O, _OG = "same-offsets", "same-committers"


def _about(step: str, code: int, name: str, queue_id: int, **fields: object) -> Step:
    until = fields.pop("until", {})
    assert isinstance(until, dict)
    return Step(step, code, {"topic": name, "queueId": queue_id, **fields}, until=until)


def _four(what: str, name: str, queue_id: int) -> tuple[Step, ...]:
    return (
        _about(f"max of {what}", Code.GET_MAX_OFFSET, name, queue_id),
        _about(f"min of {what}", Code.GET_MIN_OFFSET, name, queue_id),
        _about(f"earliest of {what}", Code.GET_EARLIEST_MSG_STORETIME, name, queue_id),
        _about(f"at a time in {what}", Code.SEARCH_OFFSET_BY_TIMESTAMP, name, queue_id, timestamp=1000),
    )


OFFSETS = Script(
    "offsets",
    (
        topic(_O, 2),
        group(_OG),
        *(send(f"message {number}", _O, 0, b"m", _key(30 + number)) for number in range(3)),
        _about("settle", Code.GET_MAX_OFFSET, _O, 0, until={"ext.offset": "3"}),
        *_four("a queue", _O, 0),
        *_four("an empty queue", _O, 1),
        *_four("a queue beyond", _O, 9),
        *_four("a queue below", _O, -1),
        *_four("an unknown topic", "same-offsets-none", 0),
        _about("max committed", Code.GET_MAX_OFFSET, _O, 0, committed=True),
        _about("in the future", Code.SEARCH_OFFSET_BY_TIMESTAMP, _O, 0, timestamp=99_999_999_999_999),
        _about(
            "upper in the future",
            Code.SEARCH_OFFSET_BY_TIMESTAMP,
            _O,
            0,
            timestamp=99_999_999_999_999,
            boundaryType="UPPER",
        ),
        _about("lower in the past", Code.SEARCH_OFFSET_BY_TIMESTAMP, _O, 0, timestamp=1000, boundaryType="LOWER"),
        _about("upper in the past", Code.SEARCH_OFFSET_BY_TIMESTAMP, _O, 0, timestamp=1000, boundaryType="UPPER"),
        _about("at no time", Code.SEARCH_OFFSET_BY_TIMESTAMP, _O, 0, timestamp=-1),
        query_offset("nothing stored", _OG, _O),
        query_offset("nothing stored, not zero", _OG, _O, setZeroIfNotFound=False),
        query_offset("nothing stored, zero", _OG, _O, setZeroIfNotFound=True),
        query_offset("nothing stored, empty queue", _OG, _O, 1),
        query_offset("nothing stored, queue beyond", _OG, _O, 9),
        query_offset("nothing stored, unknown topic", _OG, "same-offsets-none"),
        query_offset("nothing stored, unknown group", "same-nobody-here", _O),
        commit("commit", _OG, _O, 0, 2),
        query_offset("committed", _OG, _O),
        commit("commit backwards", _OG, _O, 0, 1),
        query_offset("committed backwards", _OG, _O),
        commit("commit beyond the end", _OG, _O, 0, 99),
        query_offset("committed beyond the end", _OG, _O),
        commit("commit below", _OG, _O, 0, -3),
        commit("commit to a queue beyond", _OG, _O, 9, 1),
        commit("commit to a queue below", _OG, _O, -1, 1),
        commit("commit of an unknown group", "same-nobody-here", _O, 0, 1),
        commit("commit to an unknown topic", _OG, "same-offsets-none", 0, 1),
        commit("commit oneway", _OG, _O, 1, 0, oneway=True),
        query_offset("committed oneway", _OG, _O, 1),
        Step("commit without fields", Code.UPDATE_CONSUMER_OFFSET),
        Step("query without fields", Code.QUERY_CONSUMER_OFFSET),
    ),
)

_R, _RG = "same-reset", "same-resetters"


def _reset(step: str, **changed: object) -> Step:
    fields = {"topic": _R, "group": _RG, "timestamp": 0, "isForce": True}
    return Step(step, Code.INVOKE_BROKER_TO_RESET_OFFSET, fields | changed, in_4=False)


RESET = Script(
    "reset",
    (
        topic(_R, 2),
        group(_RG),
        *(send(f"message {number}", _R, 0, b"m", _key(40 + number)) for number in range(3)),
        _about("settle", Code.GET_MAX_OFFSET, _R, 0, until={"ext.offset": "3"}),
        _reset("nothing stored, to the start"),
        query_offset("after the first", _RG, _R),
        pull("told the first", _RG, _R, 0, 3),
        pull("told the first of the empty queue", _RG, _R, 1, 0),
        commit("commit after the first", _RG, _R, 0, 0),
        pull("going on", _RG, _R, 0, 0),
        commit("commit at the end", _RG, _R, 0, 3),
        _reset("to the end", timestamp=-1),
        _reset("back to the start"),
        query_offset("after the reset", _RG, _R),
        commit("commit of who does not know", _RG, _R, 0, 3),
        query_offset("after a commit of who does not know", _RG, _R),
        pull("told", _RG, _R, 0, 3),
        _reset("one queue to an offset", queueId=0, offset=2),
        pull("told the offset", _RG, _R, 0, 0),
        _reset("one queue beyond", queueId=0, offset=99),
        _reset("one queue at the end", queueId=0, offset=3),
        _reset("one queue below", queueId=0, offset=-9),
        _reset("no such queue", queueId=9, offset=0),
        _reset("one queue by time", queueId=0, offset=-1, timestamp=1000),
        pull("told the time", _RG, _R, 0, 3),
        commit("commit after the time", _RG, _R, 0, 0),
        commit("commit in the middle", _RG, _R, 0, 1),
        _reset("back only, to the end", timestamp=-1, isForce=False),
        _reset("back only, to the start", isForce=False),
        _reset("unknown topic", topic="same-reset-none"),
        _reset("unknown group", group="same-reset-nobody"),
    ),
)

_Q = "same-query"


def _by_key(step: str, key: str, name: str = _Q, *, until: dict[str, str] | None = None, **more: object) -> Step:
    fields = {"topic": name, "key": key, "maxNum": 10, "beginTimestamp": 0, "endTimestamp": 99_999_999_999_999}
    return Step(step, Code.QUERY_MESSAGE, fields | more, until=until or {})


def _index(step: str, **changed: object) -> Step:
    fields = {"topic": _Q, "queueId": 0, "index": 0, "count": 10}
    return Step(step, Code.QUERY_CONSUME_QUEUE, fields | changed)


QUERY = Script(
    "query",
    (
        topic(_Q, 2),
        send("one", _Q, 0, b"one", _key(51, TAGS="A", KEYS="k1 k2"), keep={"position": "one"}),
        send("two", _Q, 0, b"two", _key(52, TAGS="B", KEYS="k2")),
        _by_key("by a key", "k1", until={"code": "0"}),
        _by_key("by a shared key", "k2", until={"body[1].body": "two"}),
        _by_key("by a shared key, one", "k2", maxNum=1),
        _by_key("by both keys", "k1 k2"),
        _by_key("by the unique key", "7F00000100002A9F0000000000001051", _UNIQUE_KEY_QUERY=True),
        _by_key("by nothing", "nothing"),
        _by_key("in another topic", "k1", "same-query-none"),
        _by_key("in another time", "k1", endTimestamp=1000),
        Step("by place", Code.VIEW_MESSAGE_BY_ID, {"offset": "$one", "topic": _Q}),
        Step("by place, wrong topic", Code.VIEW_MESSAGE_BY_ID, {"offset": "$one", "topic": "same-x"}),
        Step("by a place beyond", Code.VIEW_MESSAGE_BY_ID, {"offset": 999_999_999_999}),
        Step("by a place below", Code.VIEW_MESSAGE_BY_ID, {"offset": -5}),
        _index("index"),
        _index("index of a group", consumerGroup="same-query-nobody"),
        _index("index from the middle", index=1),
        _index("index beyond", index=99),
        _index("index below", index=-9),
        _index("index of an empty queue", queueId=1),
        _index("index of a queue beyond", queueId=9),
        _index("index of an unknown topic", topic="same-query-none"),
        heartbeat("a member", "q@1", [consumer("same-queriers", wanted(_Q, "A"))]),
        _index("index of a member's group", consumerGroup="same-queriers"),
    ),
)

CLONES = Script(
    "clones",
    (
        topic("same-clone", 1),
        group("same-originals"),
        commit("a commit", "same-originals", "same-clone", 0, 5),
        Step(
            "clone",
            Code.CLONE_GROUP_OFFSET,
            {"srcGroup": "same-originals", "destGroup": "same-clones", "topic": "same-clone", "offline": False},
        ),
        query_offset("cloned", "same-clones", "same-clone"),
        Step(
            "clone all",
            Code.CLONE_GROUP_OFFSET,
            {"srcGroup": "same-originals", "destGroup": "same-clones-2", "offline": True},
        ),
        query_offset("cloned all", "same-clones-2", "same-clone"),
        Step("clone nobody", Code.CLONE_GROUP_OFFSET, {"srcGroup": "same-x", "destGroup": "same-y", "offline": True}),
        Step(
            "clone an unknown topic",
            Code.CLONE_GROUP_OFFSET,
            {"srcGroup": "same-originals", "destGroup": "same-y", "topic": "same-x", "offline": True},
        ),
    ),
)

SCRIPTS = (PULL, SUBSCRIBED, WAIT, OFFSETS, RESET, QUERY)
