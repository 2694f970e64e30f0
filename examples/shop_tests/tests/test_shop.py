"""The shop against real brokers, in good times and in bad ones."""

import json
from collections.abc import Iterator

import pytest
from shop import Billing, Shop

from steelyard.testing import Mq


@pytest.fixture
def shop(mq: Mq) -> Iterator[Shop]:
    with Shop(mq.address) as shop:
        yield shop


def test_an_order_is_announced(mq: Mq, shop: Shop) -> None:
    shop.place_order(1, cents=995)
    mq.assert_sent("orders", json={"id": 1, "cents": 995}, tags="placed", keys="order-1", count=1)


def test_an_order_is_billed(mq: Mq) -> None:
    mq.send("orders", json.dumps({"id": 1, "cents": 995}), tags="placed")
    mq.send("orders", b"not for billing", tags="cancelled")
    with Billing(mq.address) as billing:
        mq.wait_until_handled("orders", group="billing")
    assert mq.handled("orders", group="billing") == 1
    assert billing.billed == {1: 995}


def test_a_reminder_comes_after_half_an_hour(mq: Mq, shop: Shop) -> None:
    shop.place_order(1, cents=995)
    mq.clock.advance(minutes=29)
    assert mq.sent("reminders") == []
    mq.clock.advance(minutes=1)
    mq.assert_sent("reminders", keys="order-1", count=1)


def test_an_order_that_comes_twice_is_billed_once(mq: Mq, shop: Shop) -> None:
    with mq.faults.duplicate(topic="orders"):
        shop.place_order(1, cents=995)
    with Billing(mq.address) as billing:
        mq.wait_until_handled("orders", group="billing", count=2)
    assert (billing.seen, billing.billed) == (2, {1: 995})


def test_an_order_that_cannot_be_billed_rests_in_the_dead_letters(mq: Mq, shop: Shop) -> None:
    mq.admin.groups.create("billing", retries=2)
    shop.place_order(1, cents=-1)
    with Billing(mq.address) as billing:
        while not mq.dead_letters("billing"):
            mq.clock.advance(minutes=10)  # the pauses between attempts
    assert billing.seen == 3
    assert mq.handled("orders", group="billing") == 0


@pytest.mark.mq(brokers=2)
def test_the_shop_sells_on_while_a_broker_is_down(mq: Mq, shop: Shop) -> None:
    mq.create_topic("orders", queues=2)
    with mq.faults.kill_broker("broker-0"):
        for number in range(10):
            shop.place_order(number, cents=100)
    with Billing(mq.address) as billing:
        mq.wait_until_handled("orders", group="billing", count=10)
    assert len(billing.billed) == 10


def test_nothing_is_lost_when_billing_is_cut_off_for_a_moment(mq: Mq, shop: Shop) -> None:
    with Billing(mq.address) as billing:
        shop.place_order(1, cents=100)
        mq.wait_until_handled("orders", group="billing")
        mq.faults.cut_connections(group="billing")
        shop.place_order(2, cents=200)
        mq.wait_until_handled("orders", group="billing", count=2)
    assert billing.billed == {1: 100, 2: 200}
