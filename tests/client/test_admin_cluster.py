"""Brokers and name servers are shown as they are, those that do not answer too; and every client ends."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.client.admin_scene import with_admin

from steelyard.client.admin import Admin
from steelyard.client.blocking.admin import Admin as BlockingAdmin
from steelyard.client.connect import Connect
from steelyard.errors import BrokerNotFound, ConfigurationError, NoNameServer, error_for
from steelyard.model import BrokerPlace
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Fields

_NONE: Fields = {}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def test_brokers_are_listed_with_how_they_are(cluster: Cluster) -> None:
    found = with_admin(cluster.namesrv, lambda admin: admin.cluster())
    assert [broker.name for broker in found] == ["broker-0", "broker-1"]
    first = found[0]
    assert (first.cluster, dict(first.addresses)) == ("DefaultCluster", {0: cluster.brokers["broker-0"]})
    assert (first.version, first.put_tps, first.problem) == ("V5_5_0", 0.0, None)
    assert first.started_at is not None
    assert first.up is not None
    assert first.disk_used is not None


def test_a_broker_that_died_is_listed_with_its_problem_and_the_others_still_answer() -> None:
    with Cluster(brokers=2) as cluster:

        async def work(admin: Admin) -> None:
            await admin.create_topic("orders", 1)
            await asyncio.to_thread(cluster.kill_broker, "broker-1")
            names = {broker.name: broker.problem for broker in await admin.cluster()}
            assert names["broker-0"] is None
            assert names.get("broker-1", "is gone from the name server too")
            assert [topic.name for topic in await admin.topics()] == ["orders"]
            assert await admin.groups() == []

        with_admin(cluster.namesrv, work)


class _Stumbling(Admin):
    """A client whose brokers fail at the first question, as Apache's do that have just started."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(namesrv)
        self.asked = Counter[str]()

    async def _ask_well(self, place: BrokerPlace, code: int, fields: Fields = _NONE, body: bytes = b"") -> Command:
        self.asked[place.name] += 1
        if self.asked[place.name] == 1:
            raise error_for(ResponseCode.SYSTEM_ERROR, "NoSuchElementException", server=place.name)
        return await super()._ask_well(place, code, fields, body)


def test_a_broker_that_has_just_started_and_stumbles_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.client.admin.cluster._COUNTED_S", 0.0)

    async def work() -> None:
        async with _Stumbling(cluster.namesrv) as admin:
            assert [each.problem for each in await admin.cluster()] == [None, None]
            assert set(admin.asked.values()) == {2}

    asyncio.run(work())


def test_name_servers_are_listed_whether_they_answer_or_not(cluster: Cluster) -> None:
    found = with_admin(f"{cluster.namesrv};127.0.0.1:1", lambda admin: admin.name_servers())
    assert [(each.address, each.brokers) for each in found] == [(cluster.namesrv, 2), ("127.0.0.1:1", None)]
    assert found[0].problem is None
    assert "127.0.0.1:1" in (found[1].problem or "")


def test_a_topic_is_made_although_one_name_server_is_away(cluster: Cluster) -> None:
    made = with_admin(f"127.0.0.1:1;{cluster.namesrv}", lambda admin: admin.create_topic("alone", 1))
    assert made.brokers == ("broker-0", "broker-1")


def test_settings_of_a_broker_are_read_and_changed(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        before = await admin.broker_config("broker-0")
        assert before["brokerName"] == "broker-0"
        other = "false" if before["autoCreateTopicEnable"] == "true" else "true"
        await admin.set_broker_config("broker-0", {"autoCreateTopicEnable": other})
        assert (await admin.broker_config("broker-0"))["autoCreateTopicEnable"] == other
        assert (await admin.broker_config("broker-1"))["autoCreateTopicEnable"] != other
        with pytest.raises(BrokerNotFound):
            await admin.broker_config("broker-9")

    with_admin(cluster.namesrv, work)


def test_the_blocking_client_does_the_same(cluster: Cluster) -> None:
    with BlockingAdmin(cluster.namesrv) as admin:
        assert admin.create_topic("blocking", 2).brokers == ("broker-0", "broker-1")
        admin.create_group("waiters")
        plan = admin.plan_reset("waiters", "blocking", "first")
        assert admin.apply(plan) == plan
        assert str(admin.group("waiters")).startswith("group waiters has 0 members and 4 queues of blocking")
    with pytest.raises(ConfigurationError, match="is closed"):
        admin.topics()


def test_every_method_of_the_client_has_a_blocking_one() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Admin) <= public(BlockingAdmin)


def test_a_closed_client_refuses_and_closes_again(cluster: Cluster) -> None:
    async def run() -> None:
        admin = Admin(cluster.namesrv)
        assert await admin.topics() is not None
        await admin.close()
        await admin.close()
        with pytest.raises(ConfigurationError, match="the Admin is closed; make another one"):
            await admin.topics()

    asyncio.run(run())


def test_a_client_without_a_name_server_says_so() -> None:
    async def run() -> None:
        admin = Admin(Connect("127.0.0.1:1", timeout_s=0.2))
        with pytest.raises(NoNameServer, match=r"127\.0\.0\.1:1 was reached in 0\.2 s"):
            await admin.topics()
        await admin.close()

    asyncio.run(run())


def test_a_client_belongs_to_its_process(cluster: Cluster) -> None:
    with BlockingAdmin(cluster.namesrv) as admin, pytest.raises(ConfigurationError, match="make one in each process"):
        pickle.dumps(admin)
