"""Topic plan: how topics should be, and what would have to change: values that are shown before they are applied.

A spec has only the settings that matter: the rest stays as it is, and a new topic gets defaults. A plan has one change
for each broker, also where nothing changes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from steelyard.errors import ConfigurationError
from steelyard.model import Permission
from steelyard.model.formatting import pluralize
from steelyard.wire.bodies.topics import TopicConfig

MAX_QUEUES = 65_536
_DEFAULT_QUEUES = 8
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}|%(?:RETRY|DLQ)%[%|a-zA-Z0-9_-]{1,248}")
_RIGHTS = {"read": Permission.READ, "write": Permission.WRITE}


def check_topic_name(name: str) -> None:
    """Refuse a name that every broker refuses, before other topics are created; existing topics have passed.

    >>> check_topic_name("my orders")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: no topic can be called 'my orders'; \
give up to 127 letters, digits, and the signs % | _ -
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"no topic can be called {name[:80]!r}", next_step="give up to 127 letters, digits, and the signs % | _ -"
        )


def describe_permission(permission: Permission) -> str:
    """Return the permissions of clients as text.

    >>> [describe_permission(each) for each in (Permission(6), Permission.READ, Permission.INHERIT)]
    ['read and write', 'read', 'nothing']
    """
    return " and ".join(word for word, right in _RIGHTS.items() if right in permission) or "nothing"


@dataclass(frozen=True, slots=True)
class BrokerTopicConfig:
    """The settings of a topic at one broker."""

    read_queues: int = _DEFAULT_QUEUES
    write_queues: int = _DEFAULT_QUEUES
    permission: Permission = Permission.READ | Permission.WRITE
    order: bool = False
    """Whether its list of queues stays the same when brokers come and go."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes of 5.x, such as ``message.type``."""
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0

    @classmethod
    def of(cls, settings: TopicConfig) -> "BrokerTopicConfig":
        """Return a broker's settings; unknown bits of the permission are left out."""
        return cls(
            settings.read_queues,
            settings.write_queues,
            Permission(settings.permission & sum(Permission)),
            settings.order,
            dict(sorted((settings.attributes or {}).items())),
            settings.filter_type,
            settings.sys_flag,
        )

    def differences(self, after: "BrokerTopicConfig") -> list[str]:
        """Return what changes, as texts.

        >>> BrokerTopicConfig(8, 8).differences(BrokerTopicConfig(16, 16, Permission.READ))
        ['8 queues become 16', 'clients may read']
        """
        changes = []
        if (self.read_queues, self.write_queues) != (after.read_queues, after.write_queues):
            changes.append(f"{self.queues_text} become {after.queues_text.removesuffix('s').removesuffix(' queue')}")
        if self.permission != after.permission:
            changes.append(f"clients may {describe_permission(after.permission)}")
        if self.order != after.order:
            changes.append("its list of queues is fixed" if after.order else "its list of queues is free")
        for name in sorted(self.attributes.keys() | after.attributes.keys()):
            before, now = self.attributes.get(name), after.attributes.get(name)
            if before != now:
                changes.append(f"{name} is taken away" if now is None else f"{name} is {now}")
        if self.filter_type != after.filter_type:
            changes.append(f"its filter type is {after.filter_type}")
        if self.sys_flag != after.sys_flag:
            changes.append(f"its system flag is {after.sys_flag}")
        return changes

    @property
    def queues_text(self) -> str:
        """How many queues it has, as text."""
        if self.read_queues == self.write_queues:
            return pluralize(self.read_queues, "queue")
        return f"{pluralize(self.read_queues, 'queue')} to read and {self.write_queues} to write"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """How a topic should be. What is None stays as it is.

    >>> TopicSpec(name="orders", queues=0)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: topic 'orders' cannot have 0 queues on a broker; give 1 to 65536
    """

    name: str
    queues: int | None = None
    """For reading and writing; ``read_queues`` and ``write_queues`` set one of them."""
    read_queues: int | None = None
    write_queues: int | None = None
    permission: Permission | None = None
    order: bool | None = None
    attributes: Mapping[str, str | None] = field(default_factory=dict)
    """Attributes to set; None removes one."""
    filter_type: str | None = None
    sys_flag: int | None = None
    brokers: tuple[str, ...] | None = None
    """The brokers that should have it; without it those of the plan."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("a topic needs a name", next_step="give one that is not empty")
        for count in (self.queues, self.read_queues, self.write_queues):
            if count is not None and not 0 < count <= MAX_QUEUES:
                raise ConfigurationError(
                    f"topic {self.name!r} cannot have {count} queues on a broker", next_step=f"give 1 to {MAX_QUEUES}"
                )
        for name, value in self.attributes.items():
            if not name or set(name + (value or "")) & set(",="):
                raise ConfigurationError(
                    f"topic {self.name!r} cannot have the attribute {name!r}",
                    next_step="give name=value, without a comma or another = in it",
                )

    def apply_to(self, before: BrokerTopicConfig | None) -> BrokerTopicConfig:
        """Return the settings that result from the present ones, or from none."""
        base = before or BrokerTopicConfig()
        attributes = {**base.attributes, **{name: value for name, value in self.attributes.items() if value != ""}}
        return BrokerTopicConfig(
            _first_given(self.read_queues, self.queues, base.read_queues),
            _first_given(self.write_queues, self.queues, base.write_queues),
            base.permission if self.permission is None else self.permission,
            base.order if self.order is None else self.order,
            {name: value for name, value in sorted(attributes.items()) if value is not None},
            self.filter_type or base.filter_type,
            _first_given(self.sys_flag, base.sys_flag),
        )


def _first_given(*counts: int | None) -> int:
    return next(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What changes of a topic at one broker."""

    topic: str
    broker: str
    before: BrokerTopicConfig | None
    after: BrokerTopicConfig

    @property
    def what(self) -> Literal["create", "change", "keep"]:
        """Whether the topic is created, changed, or already as specified."""
        if self.before is None:
            return "create"
        return "keep" if self.before == self.after else "change"

    @property
    def hidden(self) -> range:
        """The ids of queues that are readable now and would not be afterwards."""
        return range(self.after.read_queues, self.before.read_queues if self.before else 0)

    @property
    def details(self) -> str:
        """What changes, as text.

        >>> TopicChange("orders", "broker-a", BrokerTopicConfig(8, 8), BrokerTopicConfig(16, 16)).details
        '8 queues become 16'
        """
        if self.before is not None:
            return "; ".join(self.before.differences(self.after))
        plain = BrokerTopicConfig(self.after.read_queues, self.after.write_queues)
        return "; ".join([self.after.queues_text, *plain.differences(self.after)])

    def attribute_changes(self) -> str | None:
        """Return the attributes that change, in the form of the request; None if there are none."""
        before = {} if self.before is None else self.before.attributes
        added = [f"+{name}={value}" for name, value in self.after.attributes.items() if before.get(name) != value]
        removed = [f"-{name}" for name in before if name not in self.after.attributes]
        return ",".join(added + removed) or None


@dataclass(frozen=True, slots=True)
class TopicChangePlan:
    """Changes that are planned and not applied: show them, then pass the plan to ``admin.topics.apply``."""

    changes: tuple[TopicChange, ...]

    @property
    def todo(self) -> tuple[TopicChange, ...]:
        """The changes that do something."""
        return tuple(each for each in self.changes if each.what != "keep")

    def by_topic(self) -> dict[str, list[TopicChange]]:
        """Return all changes by topic."""
        found: dict[str, list[TopicChange]] = {}
        for change in self.changes:
            found.setdefault(change.topic, []).append(change)
        return found
