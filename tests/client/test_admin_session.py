"""Of requests to many servers the responses that come are enough; it is an error only if none answers."""

import asyncio

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.errors import CannotConnect, SteelyardError
from steelyard.serve.embedded import Cluster
from tests.client.admin_scene import with_admin


def test_an_error_that_is_returned_is_a_result_and_one_that_is_raised_is_raised() -> None:
    problem = CannotConnect("nobody is there")

    async def returned(number: int) -> int | SteelyardError:
        return number or problem

    async def raised(number: int) -> int:
        if not number:
            raise problem
        return number

    assert asyncio.run(gather_limited(returned, range(3))) == [problem, 1, 2]
    with pytest.raises(CannotConnect, match="nobody is there"):
        asyncio.run(gather_limited(raised, range(3)))


def test_a_broker_that_is_gone_and_still_listed_is_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(brokers=2) as cluster:

        async def work(admin: Admin) -> None:
            await admin.topics.create("orders", 1)
            places = await admin._session.broker_places()  # as a name server has them that has not noticed yet
            await asyncio.to_thread(cluster.kill_broker, "broker-1")

            async def stale() -> object:
                return places

            monkeypatch.setattr(admin._session, "broker_places", stale)
            assert [topic.brokers for topic in await admin.topics.list()] == [("broker-0",)]
            assert [(each.broker, each.problem is None) for each in await admin.brokers.throughput()] == [
                ("broker-0", True),
                ("broker-1", False),
            ]
            with pytest.raises(CannotConnect):
                await admin.export()

        with_admin(cluster.namesrv, work)
    assert [record.message for record in caplog.records if "broker broker-1 is left out: " in record.message]
