"""An embedded cluster whose brokers can be slowed down; a broker that stops or is killed loses nothing else by it."""

import pytest

from steelyard.errors import ConfigurationError
from steelyard.testing.fault_host import FaultyCluster
from steelyard.wire.headers.send import SendMessageResponse
from tests.serve.raw_connection import RawConnection, pull_all, send, send_command


def test_a_slow_broker_answers_late_and_in_order_and_the_other_one_at_once() -> None:
    with (
        FaultyCluster(brokers=2) as cluster,
        RawConnection(cluster.brokers["broker-0"]) as slow,
        RawConnection(cluster.brokers["broker-1"]) as quick,
    ):
        for connection in (slow, quick):
            send(connection, "orders", b"0")
        cluster.slow_broker("broker-0", 3_600_000)
        waiting = [send_command("orders", b"%d" % number) for number in range(1, 4)]
        slow.send(*waiting)
        assert send(quick, "orders", b"1").queue_offset == 1
        cluster.slow_broker("broker-0", 0)
        assert [slow.response_to(command).header(SendMessageResponse).queue_offset for command in waiting] == [1, 2, 3]
        cluster.slow_broker("broker-0", 5)
        assert send(slow, "orders", b"4").queue_offset == 4
        assert [record.body for record in pull_all(slow, "orders")] == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_slow_broker_is_fast_after_a_restart(is_killed: bool) -> None:
    with FaultyCluster() as cluster:
        with RawConnection(cluster.brokers["broker-0"]) as connection:
            send(connection, "orders", b"0")
            cluster.slow_broker("broker-0", 3_600_000)
            connection.send(send_command("orders", b"1"))
            (cluster.kill_broker if is_killed else cluster.stop_broker)("broker-0")
        with pytest.raises(ConfigurationError, match="the broker broker-0 does not run"):
            cluster.slow_broker("broker-0", 0)
        cluster.start_broker("broker-0")
        with RawConnection(cluster.brokers["broker-0"]) as connection:
            send(connection, "orders", b"2")
