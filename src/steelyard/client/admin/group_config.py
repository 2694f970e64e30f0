"""Group config: the settings of a consumer group at a broker, and planned changes of them.

The same value holds present and wanted settings: None stays as it is, or becomes a broker's default for a new group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from steelyard.client.suggestions import closest_match
from steelyard.errors import ConfigurationError, ProtocolError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig

_HOW = 'write a group as {"name": "billing", "retries": 3}'
_HOW_JAVA = "write it as mqadmin takes it"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of a group on a broker."""

    name: str
    retries: int | None = None
    """How often a message is redelivered before it becomes a dead letter."""
    consume: bool | None = None
    """Whether its members get messages at all."""
    broadcast: bool | None = None
    """Whether members may use broadcast, where each gets all messages."""
    from_first: bool | None = None
    """Whether a member may start at the first message of a queue."""
    orderly: bool | None = None
    """Whether POP messages are delivered in order (5.0 and later)."""
    retry_queues: int | None = None
    """How many queues its retry topic has on a broker."""
    notices: bool | None = None
    """Whether members are notified at once when another one joins or leaves."""
    timeout_minutes: int | None = None
    """How long a POP member may handle a message (5.0 and later)."""
    read_from: int | None = None
    """The id of the replica that members read from; 0 is the master."""
    slow_read_from: int | None = None
    """The id of the replica for members that read old messages, which are no longer in memory."""
    retry_policy: GroupRetryPolicy | None = None
    """How long POP messages wait before they are redelivered (5.0 and later)."""
    attributes: Mapping[str, str] | None = None
    """Named values (5.0 and later). In wanted settings an empty value removes one, and others stay."""

    @classmethod
    def of(cls, settings: SubscriptionGroupConfig, name: str) -> "GroupConfig":
        """Make it from the settings of a broker."""
        settings_by_name = {mine: getattr(settings, theirs) for mine, theirs in _WIRE_NAMES.items()}
        if settings.retry_policy == GroupRetryPolicy():
            settings_by_name["retry_policy"] = None  # an empty policy is none
        return cls(name=name, attributes=dict(settings.attributes) if settings.attributes else None, **settings_by_name)

    def specified(self) -> dict[str, object]:
        """Return the settings that are not None, by name."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "name")
        return {name: value for name, value in every if value is not None}

    def needs_release_5(self) -> list[str]:
        """Return the settings that a broker of release 4 does not have."""
        return [name for name in self.specified() if name in _FROM_5_ON]

    def applied_to(self, before: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return a broker's settings in the form of the request, where attributes are changes."""
        changes = {_WIRE_NAMES[name]: value for name, value in self.specified().items() if name in _WIRE_NAMES}
        attributes = {f"+{name}" if value else f"-{name}": value for name, value in (self.attributes or {}).items()}
        return replace(before, attributes=attributes or None, **changes)

    def differs_from(self, before: "GroupConfig") -> dict[str, tuple[object, object]]:
        """Return what these settings would change: by name, before and after."""
        changes: dict[str, tuple[object, object]] = {}
        for name, value in self.specified().items():
            was = getattr(before, name)
            if name == "attributes" and self.attributes is not None:
                changes |= _attribute_changes(before.attributes or {}, self.attributes)
            elif value != was:
                changes[name] = (was, value)
        return changes


_WIRE_NAMES = {
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
    """The change of a group at one broker."""

    wanted: GroupConfig
    broker: str
    before: GroupConfig | None

    @property
    def what(self) -> Literal["create", "change", "keep"]:
        """Whether the group is created, changed, or already as wanted."""
        if self.before is None:
            return "create"
        return "change" if self.differences else "keep"

    @property
    def differences(self) -> dict[str, tuple[object, object]]:
        """Return what changes: by name, before and after."""
        return self.wanted.differs_from(
            self.before or GroupConfig.of(SubscriptionGroupConfig(name=self.wanted.name), self.wanted.name)
        )

    @property
    def details(self) -> str:
        """What changes, as text.

        >>> before = GroupConfig(name="billing", retries=16)
        >>> GroupChange(GroupConfig(name="billing", retries=3), "broker-a", before).details
        'retries 16 -> 3'
        """
        return "; ".join(
            f"{name} {_value_text(was)} -> {_value_text(now)}" for name, (was, now) in self.differences.items()
        )


def _value_text(value: object) -> str:
    if value is None:
        return "none"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class GroupChangePlan:
    """Changes that are planned and not applied: show them, then pass the plan to ``admin.groups.apply``."""

    changes: tuple[GroupChange, ...]

    @property
    def todo(self) -> tuple[GroupChange, ...]:
        """The changes that do something."""
        return tuple(each for each in self.changes if each.what != "keep")


def parse_group_config(entry: object) -> GroupConfig:
    """Parse a group's settings from decoded JSON: with our names, or with Java's, as mqadmin has them.

    >>> parse_group_config({"name": "billing", "retries": 3}).retries
    3
    >>> parse_group_config({"groupName": "billing", "retryMaxTimes": 5}).retries
    5
    """
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{str(entry)[:60]!r} is no group", next_step=_HOW)
    if "groupName" in entry:
        settings = _decode_java(SubscriptionGroupConfig, msgspec.json.encode(entry))
        return GroupConfig.of(settings, settings.name)
    known = [field.name for field in fields(GroupConfig)]
    for key in entry:
        if key not in known:
            meant = closest_match(key, known)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(known)}"
            raise ConfigurationError(f"a group has no setting {key!r}", next_step=hint)
    try:
        return msgspec.convert(entry, GroupConfig)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"a group cannot be read ({error})", next_step=_HOW) from None


def parse_retry_policy(text: str) -> GroupRetryPolicy:
    """Parse a retry policy from JSON as Java has it.

    >>> parse_retry_policy('{"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}').custom.delays_ms
    (1000, 5000)
    """
    return _decode_java(GroupRetryPolicy, text.encode(errors="surrogateescape"))


def _decode_java(kind: type[T], data: bytes) -> T:
    try:
        return decode_body(kind, data)
    except ProtocolError as error:
        raise ConfigurationError(f"{str(data)[1:60]} cannot be read ({error.what})", next_step=_HOW_JAVA) from None
