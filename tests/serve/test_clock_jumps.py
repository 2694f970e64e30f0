"""The clock is set while a broker runs: scheduled messages are delivered, no lease expires, and no time goes back."""

from steelyard.net.clock import DayClock, steady_ms
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.queue_assignment import LockRequest, LockResponse
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.json_body import QueueRef
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import TIMER_DELIVER_MS
from tests.serve.raw_connection import RawConnection, pull_all

_HOUR_MS = 3_600_000
_START_MS = 1_700_000_000_000


class Day:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self._base_ms = _START_MS - steady_ms()

    def __call__(self) -> int:
        return self._base_ms + steady_ms()

    def day_ns(self) -> int:
        """Return the same in nanoseconds, as `DayClock` reads it."""
        return self() * 1_000_000

    def set_forward(self, by_ms: int) -> None:
        """Set it, as a person or NTP does: nobody is told."""
        self._base_ms += by_ms


def locked(connection: RawConnection, client: str) -> bool:
    """Ask for the lock of a queue, and say whether it was granted."""
    queue = QueueRef(topic="orders", broker_name="broker-0", queue_id=0)
    body = encode_body(LockRequest(client_id=client, group="billing", queues=(queue,)))
    answer = connection.request(RequestCode.LOCK_BATCH_MQ, {}, body)
    return bool(decode_body(LockResponse, answer.body).granted)


def test_a_lock_outlives_a_clock_that_was_set_forward() -> None:
    day = Day()
    with Cluster(clock=day) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        assert locked(connection, "one")
        for _ in range(5):
            day.set_forward(_HOUR_MS)
            assert not locked(connection, "other"), "its owner has not been silent for a moment"
            assert locked(connection, "one")


def send_for(connection: RawConnection, at_ms: int, body: bytes) -> None:
    """Send a message that is delivered at a time of day."""
    properties = encode_properties({TIMER_DELIVER_MS: str(at_ms)}).decode()
    header = SendMessageV2("senders", "orders", "TBW102", 4, 0, 0, _START_MS, 0, properties, 0, False, 16, False)
    assert connection.request(RequestCode.SEND_MESSAGE_V2, header, body).code == 0


def test_a_message_for_a_time_of_day_comes_when_the_clock_says_so() -> None:
    day = Day()
    with Cluster(clock=day) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        send_for(connection, day() + _HOUR_MS, b"at one")
        assert not list(pull_all(connection, "orders"))
        day.set_forward(_HOUR_MS)
        while not (found := list(pull_all(connection, "orders"))):
            pass
        assert [record.body for record in found] == [b"at one"]


def test_a_clock_that_was_set_back_makes_a_timer_early_by_what_is_left_of_the_difference() -> None:
    day, passed_ms = Day(), 0
    clock = DayClock(day.day_ns, lambda: (steady_ms() + passed_ms) * 1_000_000)
    with Cluster(clock=clock.now_ms) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        send_for(connection, _START_MS, b"before")
        day.set_forward(-_HOUR_MS)
        at_ms = day() + 3 * _HOUR_MS // 2
        send_for(connection, at_ms, b"timed")
        send_for(connection, _START_MS, b"after")
        while len(found := list(pull_all(connection, "orders"))) < 2:
            pass
        assert [record.body for record in found] == [b"before", b"after"]
        # An hour passes. The broker's clock goes half an hour, so half an hour of the difference is left.
        passed_ms = _HOUR_MS
        day.set_forward(_HOUR_MS)
        while len(found := list(pull_all(connection, "orders"))) < 3:
            pass
        assert found[-1].body == b"timed"
        assert 0 < at_ms - day() <= _HOUR_MS // 2
        assert [record.stored_ms for record in found] == sorted(record.stored_ms for record in found)
