"""The most expensive requests of each kind that a broker or a name server takes, and those that it refuses.

None may have more than a tenth of a second of the loop that all clients share. Its time on the processor, the least of
a few runs, is held against that of a plain loop of Python's in the same moment: on a slow or busy machine both take
longer. A million turns take 26 ms where a tenth of a second was measured, so the limit is four times that loop.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from time import thread_time
from typing import TypeAlias

from steelyard.broker.nameserver_registration import RegistrationIdentity, registration_command
from steelyard.nameserver import NameServerCore, NameServerOptions
from steelyard.wire import limits
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, CommandFields, Peer, Reply
from tests.broker.broker_harness import BrokerHarness, message

MOST_LOOPS = 4.0
"""What a request may cost: so many times a plain loop of a million turns."""

_RUNS = 5
_TURNS = 1_000_000

_MIB = 1 << 20
_NOTHING: CommandFields = {}

Asked: TypeAlias = tuple[int, CommandFields, bytes]
"""A request: code, fields, body."""


def listed(opening: bytes, item: Callable[[int], bytes], closing: bytes, most_bytes: int) -> bytes:
    """Return a list of as many items as there is room for."""
    parts, size, number = [], len(opening) + len(closing), 0
    while size + len(part := item(number)) + 1 <= most_bytes:
        parts.append(part)
        size, number = size + len(part) + 1, number + 1
    return opening + b",".join(parts) + closing


def batch(count: int, body: bytes = b"") -> bytes:
    whole = encode_batch([BatchItem(0, body, b"")])
    return whole * count


def beat(number: int) -> bytes:
    return b'{"groupName":"g%d","subscriptionDataSet":[{"topic":"t"}]}' % number


def heartbeat(groups: int, topics: int) -> bytes:
    wanted = b",".join(b'{"subString":"*","topic":"t%d"}' % number for number in range(topics))
    each = (b'{"groupName":"g%d","subscriptionDataSet":[%b]}' % (number, wanted) for number in range(groups))
    return b'{"clientID":"a","consumerDataSet":[%b]}' % b",".join(each)


def locks(count: int) -> bytes:
    queues = b",".join(b'{"brokerName":"broker-0","queueId":%d,"topic":"orders"}' % each for each in range(count))
    return b'{"clientId":"a","consumerGroup":"g","mqSet":[%b]}' % queues


def taken() -> Mapping[str, Callable[[], Asked]]:
    """Make the worst requests that are taken."""
    topic = b'{"topicName":"t%d","perm":6,"readQueueNums":4,"writeQueueNums":4}'
    return {
        "a batch of empty messages": lambda: (
            Code.SEND_BATCH_MESSAGE,
            message(batch=True),
            batch(limits.BROKER_BATCH_ITEMS),
        ),
        "a full batch": lambda: (
            Code.SEND_BATCH_MESSAGE,
            message(batch=True),
            batch(4 * _MIB // 256, b"x" * (256 - len(batch(1)))),
        ),
        "a batch for a new topic": lambda: (
            Code.SEND_BATCH_MESSAGE,
            message("new", batch=True),
            batch(limits.BROKER_BATCH_ITEMS),
        ),
        "a large message": lambda: (Code.SEND_MESSAGE_V2, message(), b"x" * (4 * _MIB)),
        "a heartbeat of many groups": lambda: (Code.HEART_BEAT, _NOTHING, heartbeat(1_024, 1)),
        "a heartbeat of many topics": lambda: (Code.HEART_BEAT, _NOTHING, heartbeat(3, 4_096)),
        "a heartbeat of many tags": lambda: (
            Code.HEART_BEAT,
            _NOTHING,
            b'{"clientID":"a","consumerDataSet":[{"groupName":"g","subscriptionDataSet":'
            b'[{"topic":"t","subString":"x","tagsSet":[%b]}]}]}'
            % b",".join(b'"t%d"' % number for number in range(58_000)),
        ),
        "locks": lambda: (Code.LOCK_BATCH_MQ, _NOTHING, locks(limits.LOCKED_QUEUES)),
        "unlocks": lambda: (Code.UNLOCK_BATCH_MQ, _NOTHING, locks(limits.LOCKED_QUEUES)),
        "a list of topics": lambda: (
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            _NOTHING,
            listed(b'{"topicConfigList":[', lambda number: topic % number, b"]}", 3_500 * 70),
        ),
        "a list of groups": lambda: (
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            _NOTHING,
            listed(b'{"groupConfigList":[', lambda number: b'{"groupName":"g%d"}' % number, b"]}", 70_000),
        ),
    }


def numbers(size: int) -> bytes:
    return b"{" + b"1:1," * (size // 4 - 1) + b"1:1}"


def refused() -> Mapping[str, Callable[[], Asked]]:
    """Make requests that are refused, the most expensive of their kind."""
    return {
        "a batch of too many": lambda: (Code.SEND_BATCH_MESSAGE, message(batch=True), batch(190_000)),
        "a batch of too many for a new topic": lambda: (
            Code.SEND_BATCH_MESSAGE,
            message("new", batch=True),
            batch(190_000),
        ),
        "numbers as keys": lambda: (Code.HEART_BEAT, _NOTHING, numbers(7 * _MIB)),
        "some numbers as keys": lambda: (Code.HEART_BEAT, _NOTHING, numbers(limits.HEARTBEAT_BYTES)),
        "quotes": lambda: (Code.HEART_BEAT, _NOTHING, b'"' * (15 * _MIB)),
        "some quotes": lambda: (Code.HEART_BEAT, _NOTHING, b'"' * limits.HEARTBEAT_BYTES),
        "quotes in a question of locks": lambda: (Code.LOCK_BATCH_MQ, _NOTHING, b'"' * limits.LOCK_BYTES),
        "brackets": lambda: (Code.LOCK_BATCH_MQ, _NOTHING, b"[{" * (limits.LOCK_BYTES // 2)),
        "values of other types": lambda: (
            Code.HEART_BEAT,
            _NOTHING,
            b'{"clientID":1,"consumerDataSet":[%b]}' % b",".join([b"1"] * (limits.REQUEST_REPAIRED_BYTES // 2 - 100)),
        ),
        "a heartbeat of too many groups": lambda: (
            Code.HEART_BEAT,
            _NOTHING,
            listed(b'{"clientID":"a","consumerDataSet":[', beat, b"]}", limits.HEARTBEAT_BYTES),
        ),
        "a heartbeat of 60,000 groups": lambda: (
            Code.HEART_BEAT,
            _NOTHING,
            listed(b'{"clientID":"a","consumerDataSet":[', beat, b"]}", 15 * _MIB),
        ),
        "too many locks": lambda: (Code.LOCK_BATCH_MQ, _NOTHING, locks(60_000)),
        "settings": lambda: (Code.UPDATE_BROKER_CONFIG, _NOTHING, b"k=\n" * (limits.SETTINGS_BYTES // 3)),
        "a text of settings": lambda: (Code.UPDATE_BROKER_CONFIG, _NOTHING, b"k=\n" * (5 * _MIB)),
        "a group's settings": lambda: (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, _NOTHING, b"[" * (15 * _MIB)),
        "an assignment": lambda: (Code.QUERY_ASSIGNMENT, _NOTHING, b"[" * (15 * _MIB)),
        "a condition": lambda: (
            Code.CHECK_CLIENT_CONFIG,
            _NOTHING,
            b'{"subscriptionData":{"topic":"t","expressionType":"SQL92","subString":"%b"}}' % (b"(" * 60_000),
        ),
    }


def registration(topics: int, broker: str = "broker-a", number: int = 0) -> Command:
    host = f"10.0.{number // 256}.{number % 256}"
    who = RegistrationIdentity("DefaultCluster", broker, 0, f"{host}:10911", f"{host}:10912")
    names = [f"topic-{number}" for number in range(topics)]
    table = TopicConfigTable(
        version=TableVersion(counter=1, state_version=0, timestamp=1),
        topics={name: TopicConfig(name=name, read_queues=4, write_queues=4) for name in names},
    )
    return registration_command(who, table)


def broker_work(make: Callable[[], Asked]) -> Callable[[], Command]:
    """Prepare a broker that has a message already; return what lets it handle a request to its end, for the answer."""
    code, fields, body = make()
    harness, request = BrokerHarness(segment_bytes=1 << 25), Command(code, fields, body, opaque=9)
    harness.request(Code.SEND_MESSAGE_V2, message(), b"the first of its file")
    harness.send(Code.HEART_BEAT, _NOTHING, b"{}")  # readers are made when they are first needed

    def work() -> Command:
        replies = [*harness.broker.handle(request, harness.peer, harness.now_ms), *harness.broker.flush(harness.now_ms)]
        return [each.command for each in replies if isinstance(each, Reply) and each.command.is_response][-1]

    return work


def name_server_work(topics: int) -> Callable[[], Command]:
    """Prepare a name server; return what lets it register a broker with so many topics, for the answer."""
    server, request = NameServerCore(NameServerOptions()), registration(topics)
    peer = Peer.at("127.0.0.1", 50_000, connection_id=1)

    def work() -> Command:
        (reply,) = server.handle(request, peer, 0)
        assert isinstance(reply, Reply)
        return reply.command

    return work


def measured(make: Callable[[], Callable[[], object]]) -> Iterator[tuple[float, float]]:
    """Tell of a few runs how long something and a plain loop had the processor, in milliseconds; each is prepared."""
    for _ in range(_RUNS):
        yield _ms(make()), _ms(_loop)


def _loop() -> None:
    total = 0
    for number in range(_TURNS):
        total += number


def _ms(work: Callable[[], object]) -> float:
    gc.disable()  # what else is in this process must not be paid for by a request
    try:
        began = thread_time()
        work()
        return (thread_time() - began) * 1_000
    finally:
        gc.enable()
