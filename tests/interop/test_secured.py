"""Clusters with access control: keys, rights and certificates, with Apache's servers of both kinds.

What is refused is refused in a sentence that says that it is about access, or about trust.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, PullConsumer
from steelyard.errors import CannotConnect, NoNameServer, NoPermission, SendFailed, SteelyardError
from steelyard.net.tls import Tls
from tests.interop.jars import SERVER_RELEASES, NotReady
from tests.interop.secured import SecuredBroker, with_accounts, with_certificate
from tests.live.clusters import until
from tests.live.handled import Handled, owned, poll_all, send_all, stored

pytestmark = pytest.mark.timeout(300)

CERTIFICATES = Path(__file__).parents[1] / "net" / "certificates"
NUMBERS = [str(number) for number in range(40)]


@pytest.fixture(scope="module", params=SERVER_RELEASES)
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Run a broker with accounts."""
    try:
        with with_accounts(request.param, tmp_path_factory.mktemp("closed") / "store") as broker:
            yield broker
    except NotReady as problem:
        pytest.skip(str(problem))


def test_who_has_the_right_key_sends_and_reads(closed: SecuredBroker, caplog: pytest.LogCaptureFixture) -> None:
    shop = closed.as_account("the-shop")
    handled = Handled()
    consumer = Consumer(shop, group="billing", start_from="first")
    consumer.handles("orders")(handled)
    with caplog.at_level(logging.WARNING, "steelyard"), Producer(shop, group="shops") as producer, consumer:
        send_all(producer, "orders", NUMBERS[:10])
        producer.send_many([Message("orders", number.encode()) for number in NUMBERS[10:30]])
        for future in [producer.submit(Message("orders", number.encode())) for number in NUMBERS[30:]]:
            future.result(30)
        handled.wait(40)
        assert len(owned(consumer, "orders")) == 4
    assert sorted(handled.bodies, key=int) == NUMBERS
    reported = [record.getMessage() for record in caplog.records]
    if closed.release.startswith("4"):
        assert not reported, "it does not look at the name of a lock"
    else:
        assert len(reported) == 1
        assert "without locks, which the broker forbids" in reported[0]


def test_two_members_share_though_locks_are_refused(closed: SecuredBroker) -> None:
    shop = closed.as_account("the-shop")
    members = [Consumer(shop, group="billing", start_from="first") for _ in range(2)]
    handled = Handled()
    for member in members:
        member.handles("orders")(handled)
    with members[0], members[1], Producer(shop, group="shops") as producer:
        until(lambda: [len(owned(member, "orders")) for member in members] == [2, 2], "each has its half")
        send_all(producer, "orders", [f"shared {number}" for number in NUMBERS])
        handled.wait(lambda so_far: len([body for body in so_far.bodies if body.startswith("shared")]) >= 40)
    shared = [body for body in handled.bodies if body.startswith("shared")]
    assert len(shared) == len(set(shared)) == 40


def test_order_is_kept_with_keys_too(closed: SecuredBroker) -> None:
    shop = closed.as_account("the-shop")
    handled = Handled()
    consumer = Consumer(shop, group="billing", start_from="first")
    consumer.handles("orders", orderly=True)(handled)
    with Producer(shop, group="shops") as producer, consumer:
        for number in range(10):
            producer.send(Message("orders", f"in order {number}".encode()), key="one")
        handled.wait(lambda so_far: "in order 9" in so_far.bodies)
    assert [body for body in handled.bodies if body.startswith("in order")] == [f"in order {n}" for n in range(10)]


def test_a_pull_consumer_reads_with_its_key(closed: SecuredBroker) -> None:
    shop = closed.as_account("the-shop")
    with (
        Producer(shop, group="shops") as producer,
        PullConsumer(shop, group="billing", start_from="first") as pull_consumer,
    ):
        queue = pull_consumer.queues("orders")[0]
        sent = producer.send(Message("orders", b"pulled"), queue=queue)
        pull_consumer.assign([queue])
        pull_consumer.seek(queue, sent.offset)
        assert poll_all(pull_consumer, 1)[0].body == b"pulled"
        pull_consumer.commit()


def test_an_administrator_sees_everything(closed: SecuredBroker) -> None:
    with Admin(closed.connect) as admin, Producer(closed.connect, group="shops") as producer:
        sent = producer.send(Message("secrets", b"psst"))
        assert stored(admin, sent).body == b"psst"
        assert {"orders", "secrets"} <= {topic.name for topic in admin.topics.list()}
        assert {"billing", "spies"} <= {group.name for group in admin.groups.list()}
        assert admin.brokers.config("broker-a")["brokerName"] == "broker-a"


Wanted = Callable[[SecuredBroker], ClientConfig]
STRANGERS: dict[str, Wanted] = {
    "no keys": lambda closed: ClientConfig(closed.namesrv),
    "a wrong secret": lambda closed: closed.as_account("the-shop", "not-the-secret"),
    "an unknown key": lambda closed: closed.as_account("the-nobody", "nobodys-secret"),
    "no rights": lambda closed: closed.as_account("the-guest"),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_an_outsider_gets_an_error_about_access(closed: SecuredBroker, who: str) -> None:
    outsider = STRANGERS[who](closed)
    with Producer(outsider, group="shops") as producer:
        for send in (producer.send, lambda message: producer.submit(message).result(30)):
            with pytest.raises(SendFailed, match=r"permission denied|access_key") as refused:
                send(Message("orders", b"x"))
            assert "broker-a" in str(refused.value)
    with Admin(outsider) as admin, pytest.raises(NoPermission, match="permission denied"):
        admin.topics.create("orders-2", 1)
    with PullConsumer(outsider, group="billing", start_from="first") as pull_consumer:
        pull_consumer.assign(pull_consumer.queues("orders"))
        with pytest.raises(NoPermission, match="permission denied"):
            poll_all(pull_consumer, 1)


def test_a_consumer_without_rights_reports_it_and_goes_on_trying(
    closed: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    warnings: list[str] = []
    consumer = Consumer(closed.as_account("the-guest"), group="billing")
    consumer.handles("orders")(Handled())
    consumer.on_warning(lambda warning: warnings.append(warning.message))
    with caplog.at_level(logging.WARNING, "steelyard"), consumer:
        until(lambda: any("permission" in each or "access" in each for each in warnings), f"it is told: {warnings}")


def test_one_account_may_not_do_what_another_may(closed: SecuredBroker) -> None:
    with Producer(closed.as_account("the-shop"), group="shops") as producer, pytest.raises(SendFailed, match="secrets"):
        producer.send(Message("secrets", b"x"))
    with Admin(closed.as_account("the-shop")) as admin, pytest.raises(SteelyardError, match="permission denied"):
        admin.topics.delete("orders")


@pytest.fixture(scope="module", params=["permissive", "enforcing"])
def encrypted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Run servers with a certificate."""
    root = tmp_path_factory.mktemp("encrypted") / request.param
    release = SERVER_RELEASES[1] if request.param == "enforcing" else SERVER_RELEASES[0]
    try:
        with with_certificate(release, root, CERTIFICATES / "server.pem", request.param) as broker:
            yield broker
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("tls", [CERTIFICATES / "authority.pem", Tls(verify=False)], ids=["trusted", "unverified"])
def test_everything_works_on_encrypted_connections(encrypted: SecuredBroker, tls: Path | Tls) -> None:
    where = ClientConfig(encrypted.namesrv, tls=tls)
    group = f"billing-{'trusted' if isinstance(tls, Path) else 'unverified'}"
    handled = Handled()
    consumer = Consumer(where, group=group, start_from="last")
    consumer.handles("orders")(handled)
    with Producer(where, group="shops") as producer, consumer, Admin(where) as admin:
        until(lambda: len(owned(consumer, "orders")) == 4, "it has all queues")
        bodies = [f"{group} {number}" for number in range(20)]
        sent = producer.send(Message("orders", bodies[0].encode()))
        large = producer.send(Message("orders", bytes(range(256)) * 4096), timeout_s=20)
        for future in [producer.submit(Message("orders", body.encode())) for body in bodies[1:]]:
            future.result(30)
        assert stored(admin, sent).body == bodies[0].encode()
        assert len(stored(admin, large).body) == 1 << 20
        handled.wait(lambda so_far: len(so_far.messages) >= 21)


def test_a_certificate_of_nobody_known_is_refused(encrypted: SecuredBroker) -> None:
    where = ClientConfig(encrypted.namesrv, tls=True, timeout_s=1)
    with pytest.raises(NoNameServer, match="certificate that cannot be trusted") as refused:
        Producer(where).open()
    assert str(refused.value).endswith("give the CA file: tls='/path/to/ca.pem'")
    with pytest.raises(NoNameServer, match="certificate that cannot be trusted"):
        Admin(ClientConfig(encrypted.namesrv, tls=CERTIFICATES / "untrusted.pem", timeout_s=1)).open()


def test_a_plain_connection_is_let_in_or_told_to_encrypt(encrypted: SecuredBroker) -> None:
    where = ClientConfig(encrypted.namesrv, timeout_s=1)
    if encrypted.release.startswith("4"):
        with Producer(where, group="shops") as producer:
            assert producer.send(Message("orders", b"plain")).queue.topic == "orders"
        return
    with pytest.raises((NoNameServer, CannotConnect)), Producer(where, group="shops") as producer:
        producer.send(Message("orders", b"plain"))
