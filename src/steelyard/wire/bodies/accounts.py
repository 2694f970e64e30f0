"""Accounts as 4.9 brokers keep them in a file."""

from msgspec import field

from steelyard.wire.body import Body, always

__all__ = ["Account", "Accounts"]


class Account(Body, frozen=True, kw_only=True):
    """An account (Java: PlainAccessConfig). A broker tells the secret in clear, so it is kept out of ``repr``."""

    access_key: str | None = None
    admin: bool = always(False)
    default_group: str | None = field(default=None, name="defaultGroupPerm")
    default_topic: str | None = field(default=None, name="defaultTopicPerm")
    groups: tuple[str, ...] | None = field(default=None, name="groupPerms")
    secret_key: str | None = None
    topics: tuple[str, ...] | None = field(default=None, name="topicPerms")
    addresses: str | None = field(default=None, name="whiteRemoteAddress")

    def __repr__(self) -> str:
        return f"Account(access_key={self.access_key!r}, admin={self.admin})"


class Accounts(Body, frozen=True, kw_only=True):
    """All accounts of a broker, and who needs none (Java: GetBrokerClusterAclConfigResponseBody)."""

    addresses: tuple[str, ...] | None = field(default=None, name="globalWhiteAddrs")
    accounts: tuple[Account, ...] | None = field(default=None, name="plainAccessConfigs")
