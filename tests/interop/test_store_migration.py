"""A directory moves from our broker to Apache's, back, and over again, with all that waits in it.

Timers, delay levels and half messages wait while it moves, some come due on one side and some on the other; each
message arrives once. Messages are found by their keys on both sides, whoever stored them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard import Message, Producer
from steelyard.broker.options import BrokerOptions
from steelyard.model import StoredMessage
from steelyard.serve.embedded import Cluster
from steelyard.store.options import StoreOptions
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.record import decode_records
from tests.interop.backends import Cluster as ApacheCluster
from tests.interop.servers import WireConnection, apache
from tests.interop.wire_client import create_topic, pull_all, send

_SEGMENT = 1 << 20
_OFTEN = 1_000
_APACHE = {
    "mappedFileSizeCommitLog": _SEGMENT,
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 500,
    "transactionCheckMax": _OFTEN,
}
_OURS = BrokerOptions(transaction_check_ms=1000, transaction_timeout_ms=500, transaction_checks=_OFTEN)
_BROKER = "broker-a"
_TOPIC, _QUEUES = "orders", 4
_HELLO = "hello"
_SELLERS = "sellers"
_HALF = 4
_SECOND_TRIES = 300

pytestmark = pytest.mark.timeout(900)


class Shop:
    """What is sent and what has to arrive, whichever broker has the directory."""

    def __init__(self, *, has_timers: bool) -> None:
        self.has_timers = has_timers
        self.sent: set[str] = set()
        self.expected: set[str] = set()
        self.keys: list[str] = []
        self._sent = 0

    def send(
        self, connection: WireConnection, names: str, count: int, sys_flag: int = 0, **properties: str
    ) -> list[str]:
        """Send some messages, each with a key of its own, and return their bodies."""
        bodies = [f"{names}-{number}" for number in range(count)]
        for body in bodies:
            self._sent += 1
            words = {"KEYS": f"key-{body} all", "UNIQ_KEY": f"{self._sent:032X}", **properties}
            send(connection, _TOPIC, self._sent % _QUEUES, body.encode(), words, born_ms=_now_ms(), sys_flag=sys_flag)
        self.sent.update(bodies)
        return bodies

    def expect(self, bodies: list[str]) -> None:
        """Take note that messages have to be there by now."""
        self.expected.update(bodies)

    def check(self, found: Counter[str], *, is_all: bool = False) -> None:
        """See that all is there that has to be, once; what still waits may come meanwhile, a machine may be slow."""
        assert [body for body, times in found.items() if times != 1] == []
        assert self.expected - found.keys() == set()
        assert found.keys() - (self.expected if is_all else self.sent) == set()

    def sell(self, connection: WireConnection, names: str, count: int = 20) -> None:
        """Send plain messages."""
        bodies = self.send(connection, f"{names}-plain", count)
        self.keys += [f"key-{body}" for body in bodies]
        self.expect(bodies)

    def delay(self, connection: WireConnection, names: str, count: int, seconds: int) -> list[str]:
        """Send messages that wait so long."""
        if self.has_timers:
            return self.send(connection, f"{names}-timer", count, TIMER_DELAY_SEC=str(seconds))
        return []

    def halve(self, connection: WireConnection, names: str, count: int) -> list[str]:
        """Send half messages that nobody decides on."""
        return self.send(connection, f"{names}-half", count, _HALF, TRAN_MSG="true", PGROUP=_SELLERS)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _arrived(connection: WireConnection) -> Counter[str]:
    return Counter(record.body.decode() for queue in range(_QUEUES) for record in pull_all(connection, _TOPIC, queue))


def _wait(connection: WireConnection, is_there: Callable[[Counter[str]], bool]) -> Counter[str]:
    for _ in range(_SECOND_TRIES):
        found = _arrived(connection)
        if is_there(found):
            return found
        time.sleep(0.2)
    return _arrived(connection)


def _by_key(connection: WireConnection, key: str) -> list[str]:
    answer = connection.ask(RequestCode.QUERY_MESSAGE, QueryMessages(_TOPIC, key, 32, 0, _now_ms() + 60_000))
    return [record.body.decode() for record in decode_records(answer.body)] if answer.code == 0 else []


def _missing(connection: WireConnection, keys: list[str]) -> list[str]:
    return [key for key in keys if _by_key(connection, key) != [key.removeprefix("key-")]]


@contextmanager
def _ours(root: Path) -> Iterator[tuple[WireConnection, str]]:
    options = StoreOptions(segment_bytes=_SEGMENT, keeps_apache_keys=True)
    with Cluster(data=root.parent, broker_name=root.name, broker_options=_OURS, store_options=options) as cluster:
        connection = WireConnection(int(cluster.brokers[root.name].rpartition(":")[2]))
        try:
            yield connection, cluster.namesrv
        finally:
            connection.close()


@contextmanager
def _apaches(release: str, root: Path) -> Iterator[tuple[WireConnection, str]]:
    with apache(release, root, **_APACHE) as broker:
        cluster = ApacheCluster(release, f"127.0.0.1:{broker.name_port}", f"127.0.0.1:{broker.port}")
        cluster.wait_for_route(_TOPIC)
        with broker.connection() as connection:
            yield connection, cluster.name_server
        broker.stop()
    assert not (root / "abort").exists()


@contextmanager
def _deciding(namesrv: str, answers: dict[str, bool]) -> Iterator[None]:
    """Run a producer of the group that knows how some transactions ended.

    It says so once: a slow Apache broker that asks again before it has stored the answer would store a second copy.
    """

    def check(half: StoredMessage) -> bool | None:
        return answers.pop(half.body.decode(), None)

    with Producer(namesrv, _SELLERS, check=check) as producer:
        producer.send(Message(_HELLO, b"so that the broker knows me"))
        yield


def _decided(half_messages: list[str]) -> dict[str, bool]:
    return {body: number % 2 == 0 for number, body in enumerate(half_messages)}


def _committed(half_messages: list[str]) -> list[str]:
    return half_messages[::2]


def _has(bodies: list[str]) -> Callable[[Counter[str]], bool]:
    return lambda found: set(bodies) <= found.keys()


def test_all_that_waits_arrives_once_however_often_the_directory_moves(tmp_path: Path, release: str) -> None:
    root = tmp_path / _BROKER
    shop = Shop(has_timers=release != "4.9.7")
    with _ours(root) as (connection, _):
        for topic in (_TOPIC, _HELLO):
            create_topic(connection, topic, _QUEUES)
        long = shop.delay(connection, "long", 10, 50)
        shop.sell(connection, "first")
        past = shop.delay(connection, "past", 30, 2) + shop.send(connection, "past-level", 10, DELAY="1")
        half_messages = shop.halve(connection, "ours", 12)
        shop.expect(past)
        _wait(connection, _has(past))
        middle = shop.delay(connection, "middle", 20, 9) + shop.send(connection, "middle-level", 10, DELAY="3")
        shop.check(_arrived(connection))

    with _apaches(release, root) as (connection, namesrv):
        assert _missing(connection, shop.keys) == []
        shop.expect(middle)
        _wait(connection, _has(middle))
        decided = half_messages[:6]
        shop.expect(_committed(decided))
        with _deciding(namesrv, _decided(decided)):
            _wait(connection, _has(_committed(decided)))
        shop.sell(connection, "second")
        quick = shop.delay(connection, "quick", 30, 2) + shop.send(connection, "quick-level", 10, DELAY="1")
        half_messages = half_messages[6:] + shop.halve(connection, "theirs", 6)
        shop.expect(quick)
        _wait(connection, _has(quick))
        late = shop.delay(connection, "late", 20, 12) + shop.send(connection, "late-level", 10, DELAY="3")
        shop.check(_arrived(connection))

    with _ours(root) as (connection, namesrv):
        assert _missing(connection, shop.keys) == []
        shop.expect(late)
        _wait(connection, _has(late))
        decided, half_messages = half_messages[:6], half_messages[6:]
        shop.expect(_committed(decided))
        with _deciding(namesrv, _decided(decided)):
            _wait(connection, _has(_committed(decided)))
        shop.sell(connection, "third")
        last = shop.delay(connection, "last", 10, 8) + shop.send(connection, "last-level", 5, DELAY="3")
        shop.check(_arrived(connection))

    with _apaches(release, root) as (connection, namesrv):
        assert _missing(connection, shop.keys) == []
        shop.expect([*last, *long, *_committed(half_messages)])
        with _deciding(namesrv, _decided(half_messages)):
            shop.check(_wait(connection, _has([*shop.expected])), is_all=True)

    with _ours(root) as (connection, _):
        assert _missing(connection, shop.keys) == []
        # Whatever was due again would be there after the first tick; a timer sent now comes later than that.
        after = shop.delay(connection, "after", 1, 2) + shop.send(connection, "after-level", 1, DELAY="1")
        shop.expect(after)
        shop.check(_wait(connection, _has(after)), is_all=True)
