"""Brokers and name servers are listed with their state, those that do not answer too; and every client closes."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Iterator

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.admin_session import AdminPart, AdminServer, AdminSession
from steelyard.client.admin.brokers import BrokerAdmin
from steelyard.client.config import ClientConfig
from steelyard.client.sync.admin import Admin as BlockingAdmin
from steelyard.errors import BrokerNotFound, ConfigurationError, NoNameServer, error_for
from steelyard.model import BrokerAddresses
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, CommandFields
from tests.client.admin_scene import with_admin

_NONE: CommandFields = {}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def test_brokers_are_listed_with_their_state(cluster: Cluster) -> None:
    found = with_admin(cluster.namesrv, lambda admin: admin.brokers.list())
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
            await admin.topics.create("orders", 1)
            await asyncio.to_thread(cluster.kill_broker, "broker-1")
            names = {broker.name: broker.problem for broker in await admin.brokers.list()}
            assert names["broker-0"] is None
            assert names.get("broker-1", "is gone from the name server too")
            assert [topic.name for topic in await admin.topics.list()] == ["orders"]
            assert await admin.groups.list() == []

        with_admin(cluster.namesrv, work)


class _FirstRequestFails(AdminSession):
    """A session whose brokers fail the first request, as Apache's do right after their start."""

    def __init__(self, admin: Admin) -> None:
        super().__init__(admin._session.config, admin)
        self.asked = Counter[str]()

    async def request_ok(
        self, server: AdminServer, code: int, fields: CommandFields = _NONE, body: bytes = b""
    ) -> Command:
        assert isinstance(server, BrokerAddresses)
        self.asked[server.name] += 1
        if self.asked[server.name] == 1:
            raise error_for(ResponseCode.SYSTEM_ERROR, "NoSuchElementException", server=server.name)
        return await super().request_ok(server, code, fields, body)


def test_a_broker_that_fails_right_after_its_start_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.client.admin.brokers._FIRST_RATES_S", 0.0)

    async def work() -> None:
        session = _FirstRequestFails(Admin(cluster.namesrv))
        assert [each.problem for each in await BrokerAdmin(session).list()] == [None, None]
        assert set(session.asked.values()) == {2}
        await session.close()

    asyncio.run(work())


def test_name_servers_are_listed_whether_they_answer_or_not(cluster: Cluster) -> None:
    found = with_admin(f"{cluster.namesrv};127.0.0.1:1", lambda admin: admin.name_servers.list())
    assert [(each.address, each.brokers) for each in found] == [(cluster.namesrv, 2), ("127.0.0.1:1", None)]
    assert found[0].problem is None
    assert "127.0.0.1:1" in (found[1].problem or "")


def test_a_topic_is_created_although_one_name_server_is_down(cluster: Cluster) -> None:
    made = with_admin(f"127.0.0.1:1;{cluster.namesrv}", lambda admin: admin.topics.create("alone", 1))
    assert made.brokers == ("broker-0", "broker-1")


def test_settings_of_a_broker_are_read_and_changed(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        before = await admin.brokers.config("broker-0")
        assert before["brokerName"] == "broker-0"
        other = "false" if before["autoCreateTopicEnable"] == "true" else "true"
        await admin.brokers.set_config("broker-0", {"autoCreateTopicEnable": other})
        assert (await admin.brokers.config("broker-0"))["autoCreateTopicEnable"] == other
        assert (await admin.brokers.config("broker-1"))["autoCreateTopicEnable"] != other
        with pytest.raises(BrokerNotFound):
            await admin.brokers.config("broker-9")

    with_admin(cluster.namesrv, work)


def test_the_blocking_client_does_the_same(cluster: Cluster) -> None:
    with BlockingAdmin(cluster.namesrv) as admin:
        assert admin.topics.create("blocking", 2).brokers == ("broker-0", "broker-1")
        admin.groups.create("waiters")
        plan = admin.offsets.plan_reset("waiters", "blocking", "first")
        assert admin.offsets.apply(plan) == plan
        assert str(admin.groups.describe("waiters")).startswith("group waiters has 0 members and 4 queues of blocking")
    with pytest.raises(ConfigurationError, match="is closed"):
        admin.topics.list()


def test_every_method_of_the_client_has_a_blocking_one() -> None:
    def public(part: object) -> set[str]:
        return {name for name in dir(part) if not name.startswith("_")}

    admin, waiting = Admin("localhost:1"), BlockingAdmin("localhost:1")
    assert public(admin) <= public(waiting)
    parts = [name for name, part in vars(admin).items() if isinstance(part, AdminPart)]
    assert len(parts) == 9
    for name in parts:
        assert public(getattr(admin, name)) == public(getattr(waiting, name))


def test_a_closed_client_refuses_and_closes_again(cluster: Cluster) -> None:
    async def run() -> None:
        admin = Admin(cluster.namesrv)
        assert await admin.topics.list() is not None
        await admin.close()
        await admin.close()
        with pytest.raises(ConfigurationError, match="the Admin is closed; make another one"):
            await admin.topics.list()

    asyncio.run(run())


def test_a_client_without_a_name_server_reports_it() -> None:
    async def run() -> None:
        admin = Admin(ClientConfig("127.0.0.1:1", timeout_s=0.2))
        with pytest.raises(NoNameServer, match=r"127\.0\.0\.1:1 was reached in 0\.2 s"):
            await admin.topics.list()
        await admin.close()

    asyncio.run(run())


def test_a_client_belongs_to_its_process(cluster: Cluster) -> None:
    with BlockingAdmin(cluster.namesrv) as admin, pytest.raises(ConfigurationError, match="make one in each process"):
        pickle.dumps(admin)
