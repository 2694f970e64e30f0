"""Of questions to many, the answers that come are good enough; an error is one only if nobody answers."""

import asyncio

import pytest
from tests.client.admin_scene import with_admin

from steelyard.client.admin import Admin
from steelyard.client.admin.asking import together
from steelyard.errors import CannotConnect, SteelyardError
from steelyard.serve.embedded import Cluster


def test_an_error_that_is_returned_is_a_result_and_one_that_is_raised_is_raised() -> None:
    problem = CannotConnect("nobody is there")

    async def returned(number: int) -> int | SteelyardError:
        return number or problem

    async def raised(number: int) -> int:
        if not number:
            raise problem
        return number

    assert asyncio.run(together(returned, range(3))) == [problem, 1, 2]
    with pytest.raises(CannotConnect, match="nobody is there"):
        asyncio.run(together(raised, range(3)))


def test_a_broker_that_is_gone_and_still_told_of_is_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(brokers=2) as cluster:

        async def work(admin: Admin) -> None:
            await admin.create_topic("orders", 1)
            places = await admin._places()  # what a name server tells that has not noticed yet
            await asyncio.to_thread(cluster.kill_broker, "broker-1")

            async def stale() -> object:
                return places

            monkeypatch.setattr(admin, "_places", stale)
            assert [topic.brokers for topic in await admin.topics()] == [("broker-0",)]
            assert [(each.broker, each.problem is None) for each in await admin.broker_flows()] == [
                ("broker-0", True),
                ("broker-1", False),
            ]
            with pytest.raises(CannotConnect):
                await admin.export()

        with_admin(cluster.namesrv, work)
    assert [record.message for record in caplog.records if "broker broker-1 is left out: " in record.message]
