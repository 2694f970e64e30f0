"""Users and what they may do, as 5.x brokers keep them."""

from msgspec import field

from steelyard.wire.body import Body

__all__ = ["AccessRules", "Policy", "PolicyEntry", "User"]


class User(Body, frozen=True, kw_only=True):
    """An account (Java: UserInfo). A broker answers with the password in clear, so it is kept out of ``repr``."""

    password: str | None = None
    status: str | None = field(default=None, name="userStatus")
    kind: str | None = field(default=None, name="userType")
    name: str | None = field(default=None, name="username")

    def __repr__(self) -> str:
        return f"User(name={self.name!r}, kind={self.kind!r}, status={self.status!r})"


class PolicyEntry(Body, frozen=True, kw_only=True):
    """What is allowed or denied on one resource, such as ``Topic:orders`` (Java: PolicyEntryInfo)."""

    actions: tuple[str, ...] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: tuple[str, ...] | None = None


class Policy(Body, frozen=True, kw_only=True):
    """Entries of one kind (Java: PolicyInfo)."""

    entries: tuple[PolicyEntry, ...] | None = None
    kind: str | None = field(default=None, name="policyType")


class AccessRules(Body, frozen=True, kw_only=True):
    """Everything that one subject, such as ``User:shop``, may do (Java: AclInfo)."""

    policies: tuple[Policy, ...] | None = None
    subject: str | None = None
