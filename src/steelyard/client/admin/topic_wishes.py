"""What topics are to be, and what would have to change for it: values that are shown before anything is done.

A wish says only what matters to whoever wishes: the rest stays as it is, and a topic that is new gets the usual. A plan
has one change for each broker, also where nothing changes.

Left out: asking brokers what they have, and doing it (topic_changes.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from steelyard.errors import ConfigurationError
from steelyard.model import Permission
from steelyard.wire.bodies.topics import TopicSettings

__all__ = ["MOST_QUEUES", "TopicChange", "TopicPlan", "TopicSetup", "TopicWish", "check_new_name", "may_in_words"]

MOST_QUEUES = 65_536
_USUAL_QUEUES = 8
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}|%(?:RETRY|DLQ)%[%|a-zA-Z0-9_-]{1,248}")
_RIGHTS = {"read": Permission.READ, "write": Permission.WRITE}


def check_new_name(name: str) -> None:
    """Refuse a name that every broker refuses, before others are made: what is there already has passed.

    >>> check_new_name("my orders")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: no topic can be called 'my orders'; \
give up to 127 letters, digits, and the signs % | _ -
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"no topic can be called {name[:80]!r}", next_step="give up to 127 letters, digits, and the signs % | _ -"
        )


def may_in_words(permission: Permission) -> str:
    """Say what clients may do.

    >>> may_in_words(Permission(6)), may_in_words(Permission.READ), may_in_words(Permission.INHERIT)
    ('read and write', 'read', 'nothing')
    """
    return " and ".join(word for word, right in _RIGHTS.items() if right in permission) or "nothing"


@dataclass(frozen=True, slots=True)
class TopicSetup:
    """How one broker keeps a topic."""

    read_queues: int = _USUAL_QUEUES
    write_queues: int = _USUAL_QUEUES
    permission: Permission = Permission.READ | Permission.WRITE
    order: bool = False
    """Whether its list of queues is to stay as it is when brokers come and go."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What 5.x keeps of a topic besides, such as ``message.type``."""
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0

    @classmethod
    def of(cls, settings: TopicSettings) -> "TopicSetup":
        """Return a broker's settings; bits of the permission that nobody knows are left out."""
        return cls(
            settings.read_queues,
            settings.write_queues,
            Permission(settings.permission & sum(Permission)),
            settings.order,
            dict(sorted((settings.attributes or {}).items())),
            settings.filter_type,
            settings.sys_flag,
        )

    def differences(self, after: "TopicSetup") -> list[str]:
        """Say what changes.

        >>> TopicSetup(8, 8).differences(TopicSetup(16, 16, Permission.READ))
        ['8 queues become 16', 'clients may read']
        """
        said = []
        if (self.read_queues, self.write_queues) != (after.read_queues, after.write_queues):
            said.append(f"{self.in_queues} become {after.in_queues.removesuffix(' queues')}")
        if self.permission != after.permission:
            said.append(f"clients may {may_in_words(after.permission)}")
        if self.order != after.order:
            said.append("its list of queues is fixed" if after.order else "its list of queues is free")
        for name in sorted(self.attributes.keys() | after.attributes.keys()):
            before, now = self.attributes.get(name), after.attributes.get(name)
            if before != now:
                said.append(f"{name} is taken away" if now is None else f"{name} is {now}")
        if self.filter_type != after.filter_type:
            said.append(f"its filter type is {after.filter_type}")
        if self.sys_flag != after.sys_flag:
            said.append(f"its system flag is {after.sys_flag}")
        return said

    @property
    def in_queues(self) -> str:
        """How many queues it has, in words."""
        if self.read_queues == self.write_queues:
            return f"{self.read_queues} queues"
        return f"{self.read_queues} queues to read and {self.write_queues} to write"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWish:
    """What a topic is to be. What is None stays as it is.

    >>> TopicWish(name="orders", queues=0)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: topic 'orders' cannot have 0 queues on a broker; give 1 to 65536
    """

    name: str
    queues: int | None = None
    """For reading and for writing; ``read_queues`` and ``write_queues`` say it of one alone."""
    read_queues: int | None = None
    write_queues: int | None = None
    permission: Permission | None = None
    order: bool | None = None
    attributes: Mapping[str, str | None] = field(default_factory=dict)
    """Those to set; None takes one away."""
    filter_type: str | None = None
    sys_flag: int | None = None
    brokers: tuple[str, ...] | None = None
    """Who is to have it; without it those that the plan is for."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("a topic needs a name", next_step="give one that is not empty")
        for count in (self.queues, self.read_queues, self.write_queues):
            if count is not None and not 0 < count <= MOST_QUEUES:
                raise ConfigurationError(
                    f"topic {self.name!r} cannot have {count} queues on a broker", next_step=f"give 1 to {MOST_QUEUES}"
                )
        for name, value in self.attributes.items():
            if not name or set(name + (value or "")) & set(",="):
                raise ConfigurationError(
                    f"topic {self.name!r} cannot have the attribute {name!r}",
                    next_step="give name=value, without a comma or another = in it",
                )

    def upon(self, before: TopicSetup | None) -> TopicSetup:
        """Return the setup that is wished for where there is this one, or none."""
        usual = before or TopicSetup()
        attributes = dict(usual.attributes) | {name: value for name, value in self.attributes.items() if value}
        for name in [name for name, value in self.attributes.items() if value is None]:
            attributes.pop(name, None)
        return TopicSetup(
            _first(self.read_queues, self.queues, usual.read_queues),
            _first(self.write_queues, self.queues, usual.write_queues),
            usual.permission if self.permission is None else self.permission,
            usual.order if self.order is None else self.order,
            dict(sorted(attributes.items())),
            self.filter_type or usual.filter_type,
            _first(self.sys_flag, usual.sys_flag),
        )


def _first(*counts: int | None) -> int:
    return next(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What changes of a topic at one broker."""

    topic: str
    broker: str
    before: TopicSetup | None
    after: TopicSetup

    @property
    def what(self) -> Literal["create", "change", "keep"]:
        """Whether it is new, becomes another, or is as wished already."""
        if self.before is None:
            return "create"
        return "keep" if self.before == self.after else "change"

    @property
    def hidden(self) -> range:
        """The numbers of queues that can be read now, and could not be read any more."""
        return range(self.after.read_queues, self.before.read_queues if self.before else 0)

    @property
    def details(self) -> str:
        """What changes, in words.

        >>> TopicChange("orders", "broker-a", TopicSetup(8, 8), TopicSetup(16, 16)).details
        '8 queues become 16'
        """
        if self.before is not None:
            return "; ".join(self.before.differences(self.after))
        usual = TopicSetup(self.after.read_queues, self.after.write_queues)
        return "; ".join([self.after.in_queues, *usual.differences(self.after)])

    def attribute_changes(self) -> str | None:
        """Return the attributes that change, as a broker wants to be told; None if there are none."""
        before = {} if self.before is None else self.before.attributes
        put = [f"+{name}={value}" for name, value in self.after.attributes.items() if before.get(name) != value]
        taken = [f"-{name}" for name in before if name not in self.after.attributes]
        return ",".join(put + taken) or None


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Changes that were planned and not yet done: show them, then give the plan to ``Admin.apply_topics``."""

    changes: tuple[TopicChange, ...]

    @property
    def todo(self) -> tuple[TopicChange, ...]:
        """Those where something is to be done."""
        return tuple(each for each in self.changes if each.what != "keep")

    def by_topic(self) -> dict[str, list[TopicChange]]:
        """Return all changes, those of a topic together."""
        found: dict[str, list[TopicChange]] = {}
        for change in self.changes:
            found.setdefault(change.topic, []).append(change)
        return found
