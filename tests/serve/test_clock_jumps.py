"""The clock is set forward while a broker runs: scheduled messages are delivered, and no lease expires."""

from steelyard.net.clock import steady_ms
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


def test_a_message_for_a_time_of_day_comes_when_the_clock_says_so() -> None:
    day = Day()
    with Cluster(clock=day) as cluster, RawConnection(cluster.brokers["broker-0"]) as connection:
        properties = encode_properties({TIMER_DELIVER_MS: str(day() + _HOUR_MS)}).decode()
        header = SendMessageV2("senders", "orders", "TBW102", 4, 0, 0, _START_MS, 0, properties, 0, False, 16, False)
        assert connection.request(RequestCode.SEND_MESSAGE_V2, header, b"at one").code == 0
        assert not list(pull_all(connection, "orders"))
        day.set_forward(_HOUR_MS)
        while not (found := list(pull_all(connection, "orders"))):
            pass
        assert [record.body for record in found] == [b"at one"]
