"""ACL 2.0: users and policies of 5.x brokers."""

from msgspec import field

from steelyard.wire.json_body import JsonBody


class AclUser(JsonBody, frozen=True, kw_only=True):
    """A user (Java: UserInfo). Brokers return the password in clear, so ``repr`` leaves it out."""

    password: str | None = None
    status: str | None = field(default=None, name="userStatus")
    kind: str | None = field(default=None, name="userType")
    name: str | None = field(default=None, name="username")

    def __repr__(self) -> str:
        return f"AclUser(name={self.name!r}, kind={self.kind!r}, status={self.status!r})"


class AclPolicyEntry(JsonBody, frozen=True, kw_only=True):
    """What is allowed or denied on one resource, such as ``Topic:orders`` (Java: PolicyEntryInfo)."""

    actions: tuple[str, ...] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: tuple[str, ...] | None = None


class AclPolicy(JsonBody, frozen=True, kw_only=True):
    """Entries of one kind (Java: PolicyInfo)."""

    entries: tuple[AclPolicyEntry, ...] | None = None
    kind: str | None = field(default=None, name="policyType")


class AclRules(JsonBody, frozen=True, kw_only=True):
    """Everything that one subject, such as ``User:shop``, may do (Java: AclInfo)."""

    policies: tuple[AclPolicy, ...] | None = None
    subject: str | None = None
