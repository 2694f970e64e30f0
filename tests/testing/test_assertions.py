"""What a test sees of a cluster is what became of each message, and a failed expectation says it."""

import pytest

from steelyard.errors import NotAsExpected, SteelyardError
from steelyard.testing import cluster
from tests.testing.billing import billing
from tests.testing.foreign_client import ForeignClient


def _fails(body: bytes) -> None:
    if body.startswith(b"bad"):
        raise ValueError(body)


def test_what_is_sent_is_seen_in_the_order_in_which_it_was_stored() -> None:
    with cluster() as mq:
        for number in range(9):
            mq.send("orders", f"{number}", tags="paid", keys=f"order-{number}", properties={"region": "eu"})
        assert [message.body for message in mq.sent("orders")] == [b"%d" % number for number in range(9)]
        (found,) = mq.assert_sent("orders", "3", tags="paid", keys="order-3", properties={"region": "eu"}, count=1)
        assert found.body == b"3"
        mq.assert_sent("orders", lambda body: body < b"4", count=4)
        assert mq.sent("nothing") == []


def test_json_is_compared_as_json() -> None:
    with cluster() as mq:
        mq.send("orders", b'{"id": 1,   "sum": 2}')
        mq.send("orders", b"not json")
        mq.assert_sent("orders", json={"sum": 2, "id": 1}, count=1)
        with pytest.raises(NotAsExpected, match="no message with the JSON"):
            mq.assert_sent("orders", json={"id": 2})


def test_a_message_that_was_expected_and_is_not_there_is_reported_with_those_that_are() -> None:
    with cluster() as mq:
        mq.send("orders", b'{"id": 1}', tags="paid", keys=("order-1", "customer-7"))
        mq.send("orders", b"later", delay_s=1800)
        with pytest.raises(AssertionError) as caught:
            mq.assert_sent("orders", b'{"id": 2}', tags="paid")
    output = str(caught.value).splitlines()
    assert (
        output[0]
        == "orders has no message with the body b'{\"id\": 2}' and the tag paid, and at least one was expected"
    )
    assert output[1] == "  orders has 1 message:"
    assert "offset 0  b'{\"id\": 1}' tags=paid keys=order-1,customer-7" in output[2]
    assert output[3] == "  delayed messages to orders: 1"
    assert output[4].startswith("    due in 1800 s  broker-0 queue ") or output[4].startswith("    due in 1799 s")
    assert isinstance(caught.value, SteelyardError)


def test_too_many_messages_are_as_wrong_as_too_few() -> None:
    with cluster() as mq:
        for _ in range(30):
            mq.send("orders", b"x" * 200)
        with pytest.raises(NotAsExpected, match="orders has 30 messages, and 1 was expected") as caught:
            mq.assert_sent("orders", count=1)
    assert "… (200 bytes)" in str(caught.value)
    assert str(caught.value).splitlines()[-1].strip() == "and 10 more"


def test_a_topic_that_is_not_there_is_reported_with_the_one_that_was_meant() -> None:
    with cluster() as mq:
        mq.send("orders", b"1")
        with pytest.raises(NotAsExpected, match=r"there is no topic ordres; there are: orders; did you mean orders\?"):
            mq.assert_sent("ordres")
        with pytest.raises(NotAsExpected, match="ever connected"):
            mq.assert_handled("orders", group="billing")


def test_that_nothing_was_sent_can_be_expected_of_a_topic_and_of_all() -> None:
    with cluster() as mq:
        mq.assert_nothing_sent()
        mq.create_topic("orders", 2)
        mq.assert_nothing_sent()
        mq.send("audit", b"1", delay_s=60)
        mq.assert_nothing_sent("orders")
        with pytest.raises(NotAsExpected, match="audit was expected to be empty"):
            mq.assert_nothing_sent()


def test_a_group_has_handled_what_it_is_through_with_and_nothing_else() -> None:
    with cluster(brokers=2) as mq:
        for body, tags in ((b"1", "paid"), (b"2", "new"), (b"bad 3", "paid"), (b"4", "paid")):
            mq.send("orders", body, tags=tags)
        assert mq.handled("orders", group="billing") == 0
        with billing(mq, tags="paid", bill=_fails):
            count = mq.wait_until_handled("orders", group="billing", count=2)
            assert count == 2
        reported = mq.explain("orders", group="billing")
        assert mq.handled("orders", group="billing") == 2, reported
        assert [
            reported.count(word)
            for word in ("  handled", "  skipped: the group subscribes to paid", "  failed once, due")
        ] == [
            2,
            1,
            1,
        ]
        with pytest.raises(NotAsExpected, match="has handled 2 and not 3 messages of orders"):
            mq.assert_handled("orders", group="billing")
        mq.assert_handled("orders", group="billing", count=2)


def test_a_message_that_failed_counts_once_it_succeeded() -> None:
    tries: list[bytes] = []

    def second_time(body: bytes) -> None:
        tries.append(body)
        if len(tries) == 1:
            raise ValueError(body)

    with cluster() as mq, billing(mq, bill=second_time):
        mq.send("orders", b"1")
        mq.wait_until_sent("orders")
        while "failed once" not in mq.explain("orders", group="billing"):
            pass
        assert mq.handled("orders", group="billing") == 0
        mq.clock.advance(seconds=10)
        assert mq.wait_until_handled("orders", group="billing") == 1
        assert tries == [b"1", b"1"]


def test_what_a_group_gave_up_is_not_handled() -> None:
    with cluster() as mq:
        mq.admin.groups.create("billing", retries=0)
        mq.send("orders", b"bad")
        with billing(mq, bill=_fails):
            while not mq.dead_letters("billing"):
                pass
        assert [message.body for message in mq.dead_letters("billing")] == [b"bad"]
        assert mq.handled("orders", group="billing") == 0
        assert "given up, failed once: ValueError: " in mq.explain("orders", group="billing")


def test_waiting_for_what_never_comes_ends_and_gives_the_reason() -> None:
    with cluster() as mq:
        mq.send("orders", b"1")
        with pytest.raises(NotAsExpected) as caught:
            mq.wait_until_handled("orders", group="biling", timeout_s=0.05)
        assert "group biling handled 0 and not 1 in 0.05 s" in str(caught.value)
        with pytest.raises(NotAsExpected, match=r"orders has 1 message and not 2 in 0\.05 s"):
            mq.wait_until_sent("orders", count=2, timeout_s=0.05)


def test_a_client_of_any_language_is_counted_alike() -> None:
    with cluster() as mq, ForeignClient(mq.address) as names, ForeignClient(mq.brokers["broker-0"]) as client:
        assert client.send("orders", b"1")["code"] == 0
        assert names.route("orders") == 0
        assert [message.body for message in mq.sent("orders")] == [b"1"]
        assert client.heartbeat("ruby-1", "billing", "orders") == 0
        assert client.pull("billing", "orders", 0)["code"] == 0
        assert mq.handled("orders", group="billing") == 0
        assert client.commit("billing", "orders", 1) == 0
        assert mq.handled("orders", group="billing") == 1
        assert "members of billing online: ruby-1" in mq.explain("orders", group="billing")


def test_what_was_refused_is_reported() -> None:
    with cluster() as mq, ForeignClient(mq.brokers["broker-0"]) as client:
        assert client.pull("billing", "orders", 0)["code"] == 17
        reported = mq.explain("orders", group="billing")
        assert "rejected last:" in reported
        assert "broker-0 refused PULL_MESSAGE of 127.0.0.1:" in reported


def test_a_broker_that_is_down_is_not_counted_and_that_is_reported() -> None:
    with cluster(brokers=2) as mq:
        mq.create_topic("orders", 1)
        for number in range(4):
            mq.send("orders", str(number))
        with mq.faults.kill_broker("broker-1"):
            assert len(mq.sent("orders")) == 2
            assert "not counted, since they are down: broker-1" in mq.explain("orders")
        assert len(mq.sent("orders")) == 4


def test_clusters_do_not_share_anything() -> None:
    with cluster() as one, cluster() as other:
        one.send("orders", b"1")
        assert one.address != other.address
        other.assert_nothing_sent()
