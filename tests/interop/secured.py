"""Apache's servers that let only some in: with accounts of either kind, or with encrypted lines.

`the-boss` may do everything, `the-shop` sends to and reads `orders` as `billing`, `the-guest` may do nothing.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard import Admin, ClientConfig
from steelyard.client.session import Session
from steelyard.errors import SteelyardError
from steelyard.net.tls import Tls
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.acl import AclPolicy, AclPolicyEntry, AclRules, AclUser
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.interop.servers import ApacheBroker

ACCOUNTS = {"the-boss": "boss-secret-1", "the-shop": "shop-secret-1", "the-guest": "guest-secret-1"}

_START_SECONDS = 120
_SMALL = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")
_SETTINGS: dict[str, object] = {"mappedFileSizeCommitLog": 64 << 20}

_PLAIN_ACL = """
accounts:
- accessKey: the-boss
  secretKey: boss-secret-1
  admin: true
- accessKey: the-shop
  secretKey: shop-secret-1
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - orders=PUB|SUB
  groupPerms:
  - billing=SUB
- accessKey: the-guest
  secretKey: guest-secret-1
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""

_AUTH = "org.apache.rocketmq.auth"
_ACL_2: dict[str, object] = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"the-boss","password":"boss-secret-1"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"the-boss","secretKey":"boss-secret-1"}',
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}

_RULES = {
    "Topic:orders": ("Pub", "Sub", "Get"),
    "Group:billing": ("Sub", "Get"),
}


class SecuredBroker(ApacheBroker):
    """A broker that is asked whether it runs by a client that has what it takes."""

    connect: ClientConfig
    """How to get in."""

    count = 1
    """How many there are when it runs."""

    def wait_until_it_answers(self) -> None:
        """Ask until it is registered, and tells of itself."""
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                with Admin(self.connect) as admin:
                    if [broker.problem for broker in admin.brokers.list()] == [None] * self.count:
                        return
                why = "it is not registered"
            except SteelyardError as error:
                why = str(error)
            assert time.monotonic() < end, f"{why}: {self.output()}"
            time.sleep(0.2)

    @property
    def namesrv(self) -> str:
        """The address of the name server."""
        return f"127.0.0.1:{self.name_port}"

    def as_account(self, name: str, secret: str | None = None) -> ClientConfig:
        """Return how somebody gets in."""
        return ClientConfig(self.namesrv, access_key=name, secret_key=secret or ACCOUNTS[name])


@contextmanager
def with_accounts(release: str, root: Path) -> Iterator[SecuredBroker]:
    """Run a broker that wants keys: by a file before release 5, by requests from then on."""
    is_4 = release.startswith("4")
    settings = _SETTINGS | ({"aclEnable": "true"} if is_4 else _ACL_2)
    broker = SecuredBroker(release, root, settings, _SMALL)
    if is_4:
        (broker.home / "conf" / "plain_acl.yml").write_text(_PLAIN_ACL)
    broker.connect = broker.as_account("the-boss")
    try:
        broker.start()
        if not is_4:
            asyncio.run(_make_accounts(broker))
        with Admin(broker.connect) as admin:
            for topic in ("orders", "secrets"):
                admin.topics.create(topic, 4)
            for group in ("billing", "spies"):
                admin.groups.create(group)
        yield broker
    finally:
        broker.close()


@contextmanager
def beside(first: SecuredBroker, root: Path) -> Iterator[SecuredBroker]:
    """Run a second broker of 5.x with the first, which knows nobody but the boss."""
    broker = SecuredBroker(first.release, root, _SETTINGS | _ACL_2 | {"brokerName": "broker-b"}, _SMALL, first)
    broker.connect, broker.count = first.connect, 2
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


async def _make_accounts(broker: SecuredBroker) -> None:
    session = Session(broker.connect)
    await session.start()
    try:
        at = session.connection_at(f"127.0.0.1:{broker.port}")
        for name in ("the-shop", "the-guest"):
            user = encode_body(AclUser(name=name, password=ACCOUNTS[name], kind="Normal"))
            await session.request_ok(at, Command(RequestCode.AUTH_CREATE_USER, {"username": name}, user))
        entries = tuple(
            AclPolicyEntry(resource=resource, actions=actions, source_ips=(), decision="Allow")
            for resource, actions in _RULES.items()
        )
        rules = AclRules(subject="User:the-shop", policies=(AclPolicy(kind="Custom", entries=entries),))
        request = Command(RequestCode.AUTH_CREATE_ACL, {"subject": rules.subject or ""}, encode_body(rules))
        await session.request_ok(at, request)
    finally:
        await session.close()


@contextmanager
def with_certificate(release: str, root: Path, certificate: Path, mode: str) -> Iterator[SecuredBroker]:
    """Run a broker and a name server that show a certificate; the mode says whether plain connections are let in."""
    root.mkdir(parents=True, exist_ok=True)
    words = root.parent / f"{root.name}-tls.properties"
    words.write_text(
        f"tls.test.mode.enable=false\ntls.server.certPath={certificate}\ntls.server.keyPath={certificate}\n"
        "tls.server.need.client.auth=none\n"
    )
    flags: Sequence[str] = (f"-Dtls.config.file={words}", f"-Dtls.server.mode={mode}", "-Dtls.enable=true")
    broker = SecuredBroker(release, root, _SETTINGS, (*_SMALL, *flags))
    broker.connect = ClientConfig(broker.namesrv, tls=Tls(verify=False))
    try:
        broker.start()
        with Admin(broker.connect) as admin:
            admin.topics.create("orders", 4)
        yield broker
    finally:
        broker.close()
