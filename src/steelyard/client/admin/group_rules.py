"""A group's settings as people know them, and what a change of them would change.

The same value says what is and what is wanted: of a wish, whatever is None stays as it is, or becomes what brokers give
to a new group. So what one cluster tells can be given to another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError, ProtocolError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import GroupSettings, RetryPolicy

__all__ = ["GroupChange", "GroupPlan", "GroupRules", "policy_of", "rules_of"]

_HOW = 'write a group as {"name": "billing", "retries": 3}'
_HOW_JAVA = "write it as mqadmin takes it"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The settings of a group on a broker."""

    name: str
    retries: int | None = None
    """How often a message is tried again before it rests in the dead letters."""
    consume: bool | None = None
    """Whether its members get messages at all."""
    broadcast: bool | None = None
    """Whether members may ask to get all messages each."""
    from_first: bool | None = None
    """Whether a member may begin with the first message of a queue."""
    orderly: bool | None = None
    """Whether messages that are popped come in order (5.0 and later)."""
    retry_queues: int | None = None
    """How many queues its retries have on a broker."""
    notices: bool | None = None
    """Whether members are told at once when another one comes or goes."""
    timeout_minutes: int | None = None
    """How long a member that pops may handle a message (5.0 and later)."""
    read_from: int | None = None
    """The id of the replica that members are sent to; 0 is the master."""
    slow_read_from: int | None = None
    """The id of the replica for members that read what is no longer in memory."""
    retry_policy: RetryPolicy | None = None
    """How long messages that are popped wait before they come again (5.0 and later)."""
    attributes: Mapping[str, str] | None = None
    """Named values (5.0 and later). In a wish an empty value takes one away, and others stay."""

    @classmethod
    def of(cls, settings: GroupSettings, name: str) -> "GroupRules":
        """Read what a broker tells."""
        told = {mine: getattr(settings, theirs) for mine, theirs in _WIRE.items()}
        if settings.retry_policy == RetryPolicy():
            told["retry_policy"] = None  # it says nothing
        return cls(name=name, attributes=dict(settings.attributes) if settings.attributes else None, **told)

    def wanted(self) -> dict[str, object]:
        """Return what is said, by name."""
        said = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "name")
        return {name: value for name, value in said if value is not None}

    def needs_release_5(self) -> list[str]:
        """Return what is said and cannot be kept by a broker of release 4."""
        return [name for name in self.wanted() if name in _FROM_5_ON]

    def applied_to(self, before: GroupSettings) -> GroupSettings:
        """Return a broker's settings as they are to be sent: attributes are sent as changes."""
        changes = {_WIRE[name]: value for name, value in self.wanted().items() if name in _WIRE}
        attributes = {f"+{name}" if value else f"-{name}": value for name, value in (self.attributes or {}).items()}
        return replace(before, attributes=attributes or None, **changes)

    def differs_from(self, before: "GroupRules") -> dict[str, tuple[object, object]]:
        """Return what this wish would change: by name, before and after."""
        changes: dict[str, tuple[object, object]] = {}
        for name, value in self.wanted().items():
            was = getattr(before, name)
            if name == "attributes" and self.attributes is not None:
                changes |= _attribute_changes(before.attributes or {}, self.attributes)
            elif value != was:
                changes[name] = (was, value)
        return changes


_WIRE = {
    "retries": "max_retries",
    "consume": "consume_enabled",
    "broadcast": "broadcast_enabled",
    "from_first": "from_min_enabled",
    "orderly": "orderly",
    "retry_queues": "retry_queues",
    "notices": "notices_enabled",
    "timeout_minutes": "consume_timeout_minutes",
    "read_from": "broker_id",
    "slow_read_from": "slow_broker_id",
    "retry_policy": "retry_policy",
}
_FROM_5_ON = ("orderly", "timeout_minutes", "retry_policy", "attributes")


def _attribute_changes(before: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, tuple[object, object]]:
    return {
        f"attribute {name}": (before.get(name), value or None)
        for name, value in wanted.items()
        if (value or None) != before.get(name)
    }


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What becomes of a group at one broker."""

    wish: GroupRules
    broker: str
    before: GroupRules | None

    @property
    def what(self) -> Literal["create", "change", "keep"]:
        """Whether it is new, becomes another, or is as wished already."""
        if self.before is None:
            return "create"
        return "change" if self.differences else "keep"

    @property
    def differences(self) -> dict[str, tuple[object, object]]:
        """Return what changes: by name, before and after."""
        return self.wish.differs_from(self.before or GroupRules.of(GroupSettings(name=self.wish.name), self.wish.name))

    @property
    def details(self) -> str:
        """What changes, in words.

        >>> before = GroupRules(name="billing", retries=16)
        >>> GroupChange(GroupRules(name="billing", retries=3), "broker-a", before).details
        'retries 16 -> 3'
        """
        return "; ".join(f"{name} {_word(was)} -> {_word(now)}" for name, (was, now) in self.differences.items())


def _word(value: object) -> str:
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Changes that were planned and not yet done: show them, then give the plan to ``Admin.apply_groups``."""

    changes: tuple[GroupChange, ...]

    @property
    def todo(self) -> tuple[GroupChange, ...]:
        """Those where something is to be done."""
        return tuple(each for each in self.changes if each.what != "keep")


def rules_of(entry: object) -> GroupRules:
    """Read a group's settings from JSON that was decoded: with our names, or with Java's, as mqadmin has them.

    >>> rules_of({"name": "billing", "retries": 3}).retries, rules_of({"groupName": "x", "retryMaxTimes": 5}).retries
    (3, 5)
    """
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{str(entry)[:60]!r} is no group", next_step=_HOW)
    if "groupName" in entry:
        settings = _java(GroupSettings, msgspec.json.encode(entry))
        return GroupRules.of(settings, settings.name)
    known = [field.name for field in fields(GroupRules)]
    for key in entry:
        if key not in known:
            meant = nearest(key, known)
            raise ConfigurationError(
                f"a group has no setting {key!r}",
                next_step=f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}",
            )
    try:
        return msgspec.convert(entry, GroupRules)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"a group cannot be read ({error})", next_step=_HOW) from None


def policy_of(text: str) -> RetryPolicy:
    """Read how long messages wait before they come again, from JSON as Java has it.

    >>> policy_of('{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}').custom.delays_ms
    (1000, 5000)
    """
    return _java(RetryPolicy, text.encode(errors="surrogateescape"))


def _java(kind: type[T], data: bytes) -> T:
    try:
        return decode_body(kind, data)
    except ProtocolError as error:
        raise ConfigurationError(f"{str(data)[1:60]} cannot be read ({error.what})", next_step=_HOW_JAVA) from None
