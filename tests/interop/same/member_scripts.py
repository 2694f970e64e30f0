"""Scripts about members: heartbeats and notices, lists of who is there, locks, plans, questions passed on."""

from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from tests.interop.same.request_steps import commit, consumer, group, heartbeat, pull, queue, send, topic, wanted
from tests.interop.same.steps import Script, Step

_T, _G = "same-members", "same-group"


def _leave(step: str, client_id: str, **more: object) -> Step:
    connection = str(more.pop("connection", "a"))
    return Step(step, Code.UNREGISTER_CLIENT, {"clientID": client_id, **more}, connection=connection)


def _lists(when: str, name: str) -> tuple[Step, ...]:
    return (
        Step(f"ids, {when}", Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": name}),
        Step(f"lines, {when}", Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": name}),
        Step(f"topics, {when}", Code.QUERY_TOPICS_BY_CONSUMER, {"group": name}),
        Step(f"subscription, {when}", Code.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": name, "topic": _T}),
        Step(f"who reads, {when}", Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": _T}),
    )


MEMBERS = Script(
    "members",
    (
        topic(_T, 2),
        group(_G),
        *_lists("nobody there", _G),
        *_lists("nobody ever", "same-never"),
        heartbeat("first", "m1@1", [consumer(_G, wanted(_T, "A || B", version=5))], ("same-pg",), connection="one"),
        *_lists("one there", _G),
        heartbeat(
            "second", "m2@2", [consumer(_G, wanted(_T, "A || B", version=5))], connection="two", expects=("one", 40)
        ),
        Step("ids of two", Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": _G}),
        Step("the retries", Code.GET_TOPIC_CONFIG, {"topic": f"%RETRY%{_G}"}, in_4=False),
        commit("a commit", _G, _T, 0, 0),
        *_lists("two there", _G),
        Step("producers", Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "same-pg"}),
        Step("no producers", Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "same-none"}),
        Step("all producers", Code.GET_ALL_PRODUCER_INFO),
        heartbeat(
            "by binary header", "m3@3", [consumer(_G, wanted(_T))], connection="three", header_type=HeaderType.BINARY
        ),
        _leave("second leaves", "m2@2", consumerGroup=_G, connection="two"),
        _leave("a stranger leaves", "m9@9", consumerGroup=_G, connection="nine"),
        _leave("leaves nothing", "m1@1", connection="one"),
        _leave("producer leaves", "m1@1", producerGroup="same-pg", connection="one"),
        Step("producers gone", Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "same-pg"}),
        Step(
            "ids after",
            Code.GET_CONSUMER_LIST_BY_GROUP,
            {"consumerGroup": _G},
            until={"body.consumerIdList[m2@2]": "None"},
        ),
        heartbeat("a bad group", "m4@4", [consumer("no/group", wanted(_T))], connection="four"),
        heartbeat("an unknown topic", "m5@5", [consumer("same-odd", wanted("same-members-none"))], connection="five"),
        heartbeat("nothing in it", "m6@6", connection="six"),
        heartbeat("no id", "", [consumer(_G, wanted(_T))], connection="seven"),
        Step("no body", Code.HEART_BEAT, connection="eight"),
        Step("nonsense", Code.HEART_BEAT, body=b"{nonsense", connection="eight"),
    ),
)

FINGERPRINTS = Script(
    "fingerprints",
    (
        topic("same-v2", 1),
        heartbeat("fresh", "v@1", [consumer("same-v2s", wanted("same-v2"))], fingerprint=5, in_4=False),
        heartbeat("the same", "v@1", [consumer("same-v2s", wanted("same-v2"))], fingerprint=5, in_4=False),
        heartbeat("without", "v@1", [consumer("same-v2s")], fingerprint=5, without_sub=True, in_4=False),
        heartbeat(
            "changed", "v@1", [consumer("same-v2s", wanted("same-v2", "A", version=2))], fingerprint=6, in_4=False
        ),
        heartbeat(
            "another", "w@2", [consumer("same-v2s", wanted("same-v2"))], fingerprint=7, connection="b", in_4=False
        ),
        Step("what is wanted", Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "same-v2s"}, in_4=False),
    ),
)


def _lock(step: str, client_id: str, *queues: object, code: int = Code.LOCK_BATCH_MQ, **more: object) -> Step:
    body = {"clientId": client_id, "consumerGroup": "same-lockers", "mqSet": list(queues), "onlyThisBroker": False}
    return Step(step, code, body=body | more)


LOCKS = Script(
    "locks",
    (
        topic("same-locks", 3),
        group("same-lockers"),
        _lock("two", "l@1", queue("same-locks", 0), queue("same-locks", 1)),
        _lock("again", "l@1", queue("same-locks", 0)),
        _lock("taken", "l@2", queue("same-locks", 0), queue("same-locks", 2)),
        _lock("unlock of another", "l@2", queue("same-locks", 0), code=Code.UNLOCK_BATCH_MQ),
        _lock("still taken", "l@2", queue("same-locks", 0)),
        _lock("unlock", "l@1", queue("same-locks", 0), code=Code.UNLOCK_BATCH_MQ),
        _lock("free", "l@2", queue("same-locks", 0)),
        _lock("another broker's", "l@1", queue("same-locks", 0, "broker-z")),
        _lock("queue beyond", "l@1", queue("same-locks", 9)),
        _lock("unknown topic", "l@1", queue("same-locks-none", 0)),
        _lock("none", "l@1"),
        Step("no body", Code.LOCK_BATCH_MQ),
        Step("unlock without a body", Code.UNLOCK_BATCH_MQ),
    ),
)


def _plan(step: str, **changed: object) -> Step:
    body = {
        "clientId": "p@1",
        "consumerGroup": "same-planners",
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": "same-plan",
    }
    return Step(step, Code.QUERY_ASSIGNMENT, body=body | changed, in_4=False)


PLANS = Script(
    "plans",
    (
        topic("same-plan", 4),
        _plan("nobody there"),
        heartbeat("a member", "p@1", [consumer("same-planners", wanted("same-plan"))]),
        heartbeat("another member", "p@2", [consumer("same-planners", wanted("same-plan"))], connection="b"),
        Step(
            "plan",
            Code.QUERY_ASSIGNMENT,
            body={
                "clientId": "p@1",
                "consumerGroup": "same-planners",
                "messageModel": "CLUSTERING",
                "strategyName": "AVG",
                "topic": "same-plan",
            },
            until={"body.messageQueueAssignments.#": "list"},
            in_4=False,
        ),
        _plan("circle", strategyName="AVG_BY_CIRCLE"),
        _plan("the other", clientId="p@2"),
        _plan("a stranger", clientId="p@9"),
        _plan("an unknown strategy", strategyName="MINE"),
        _plan("broadcasting", messageModel="BROADCASTING"),
        _plan("an unknown topic", topic="same-plan-none"),
        _plan("an unknown group", consumerGroup="same-nobody"),
        Step(
            "mode PULL",
            Code.SET_MESSAGE_REQUEST_MODE,
            body={"consumerGroup": "same-planners", "mode": "PULL", "popShareQueueNum": 0, "topic": "same-plan"},
            in_4=False,
        ),
        Step(
            "mode of retries",
            Code.SET_MESSAGE_REQUEST_MODE,
            body={"consumerGroup": "x", "mode": "PULL", "popShareQueueNum": 0, "topic": "%RETRY%x"},
            in_4=False,
        ),
        Step(
            "mode POP",
            Code.SET_MESSAGE_REQUEST_MODE,
            body={"consumerGroup": "same-planners", "mode": "POP", "popShareQueueNum": 0, "topic": "same-plan-pop"},
            in_4=False,
        ),
    ),
)

_RELAY = "same-relay"

RELAYS = Script(
    "relays",
    (
        topic(_RELAY, 1),
        group("same-relays"),
        send("a message", _RELAY, 0, b"m", keep={"msgId": "id"}),
        pull("settle", "TOOLS_CONSUMER", _RELAY, until={"code": "0"}),
        Step("running, nobody", Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "same-relays", "clientId": "r@1"}),
        Step(
            "directly, nobody",
            Code.CONSUME_MESSAGE_DIRECTLY,
            {"consumerGroup": "same-relays", "clientId": "r@1", "msgId": "$id", "topic": _RELAY},
        ),
        Step("status, nobody", Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": _RELAY, "group": "same-relays"}),
        heartbeat("a member", "r@1", [consumer("same-relays", wanted(_RELAY))], connection="r"),
        Step(
            "running",
            Code.GET_CONSUMER_RUNNING_INFO,
            {"consumerGroup": "same-relays", "clientId": "r@1", "jstackEnable": False},
            expects=("r", 307),
        ),
        Step(
            "directly",
            Code.CONSUME_MESSAGE_DIRECTLY,
            {"consumerGroup": "same-relays", "clientId": "r@1", "msgId": "$id", "topic": _RELAY},
            expects=("r", 309),
        ),
        Step(
            "status",
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": _RELAY, "group": "same-relays"},
            expects=("r", 221),
        ),
        Step(
            "status of one",
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": _RELAY, "group": "same-relays", "clientAddr": "r@1"},
        ),
        Step(
            "status of a stranger",
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": _RELAY, "group": "same-relays", "clientAddr": "r@9"},
        ),
        Step(
            "running, a stranger", Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "same-relays", "clientId": "r@9"}
        ),
        Step(
            "directly, no such message",
            Code.CONSUME_MESSAGE_DIRECTLY,
            {"consumerGroup": "same-relays", "clientId": "r@1", "msgId": "7F00000100002A9F0000000000FFFFFF"},
        ),
        Step(
            "directly, no message",
            Code.CONSUME_MESSAGE_DIRECTLY,
            {"consumerGroup": "same-relays", "clientId": "r@1", "msgId": "nonsense"},
        ),
        heartbeat("an old member", "r@2", [consumer("same-relays", wanted(_RELAY))], connection="old", version=50),
        Step("running, too old", Code.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "same-relays", "clientId": "r@2"}),
    ),
)

SCRIPTS = (MEMBERS, FINGERPRINTS, LOCKS, PLANS, RELAYS)
