"""A machine whose day is set forward while a broker runs: what waits for a time of day comes, and no lease is over."""

from tests.serve.line import Line, pull_all

from steelyard.net.clock import steady_ms
from steelyard.serve.embedded import Cluster
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendShort
from steelyard.wire.maps import QueueRef
from steelyard.wire.properties import encode_properties
from steelyard.wire.property_names import TIMER_DELIVER_MS

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


def locked(line: Line, client: str) -> bool:
    """Ask for the lock of a queue, and say whether it was granted."""
    queue = QueueRef(topic="orders", broker_name="broker-0", queue_id=0)
    body = encode_body(LockRequest(client_id=client, group="billing", queues=(queue,)))
    answer = line.ask(RequestCode.LOCK_BATCH_MQ, {}, body)
    return bool(decode_body(LockAnswer, answer.body).granted)


def test_a_lock_outlives_a_clock_that_was_set_forward() -> None:
    day = Day()
    with Cluster(clock=day) as cluster, Line(cluster.brokers["broker-0"]) as line:
        assert locked(line, "one")
        for _ in range(5):
            day.set_forward(_HOUR_MS)
            assert not locked(line, "other"), "whoever has it has not been silent for a moment"
            assert locked(line, "one")


def test_a_message_for_a_time_of_day_comes_when_the_clock_says_so() -> None:
    day = Day()
    with Cluster(clock=day) as cluster, Line(cluster.brokers["broker-0"]) as line:
        properties = encode_properties({TIMER_DELIVER_MS: str(day() + _HOUR_MS)}).decode()
        header = SendShort("senders", "orders", "TBW102", 4, 0, 0, _START_MS, 0, properties, 0, False, 16, False)
        assert line.ask(RequestCode.SEND_MESSAGE_V2, header, b"at one").code == 0
        assert not list(pull_all(line, "orders"))
        day.set_forward(_HOUR_MS)
        while not (found := list(pull_all(line, "orders"))):
            pass
        assert [record.body for record in found] == [b"at one"]
