"""Strategies by name, Java's and ours, and the options that configure them.

Case does not matter in a name, ``_`` counts as ``-``, and Java's ``MACHINE_ROOM_NEARBY-<inner>`` names its inner
strategy. One set of options serves all strategies, so that
the same file can be tried with each: a field that another strategy reads is ignored, an unknown field is refused, and a
missing one is an error when a strategy needs it.

Left out: importing. A name such as ``package.module:rule`` goes to a function ``load`` of the caller, because a pure
package imports nothing at run time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from steelyard.balance.assignors.average import Average
from steelyard.balance.assignors.by_config import ByConfig
from steelyard.balance.assignors.circle import AverageByCircle
from steelyard.balance.assignors.consistent_hash import ConsistentHash
from steelyard.balance.assignors.machine_room import MachineRoom
from steelyard.balance.assignors.nearby import MACHINE_ROOM_NEARBY, MachineRoomNearby
from steelyard.balance.assignors.sticky import Sticky
from steelyard.balance.assignors.strategy import CustomStrategy, MemberLookup, Strategy, StrategyFunction
from steelyard.errors import ConfigurationError, UnknownStrategy
from steelyard.model import Queue


class QueueLag(msgspec.Struct, frozen=True, array_like=True):
    """How many messages wait in a queue, written ``[[topic, broker, id], messages]``."""

    queue: Queue
    messages: int


class StrategyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a configuration, each with the strategy that reads it."""

    rooms: frozenset[str] | None = None
    """MACHINE_ROOM: the rooms whose queues are shared."""
    member_rooms: dict[str, str] | None = None
    """MACHINE_ROOM_NEARBY: the room of each member. That of a broker is in its name, ``room@name``."""
    queues: list[Queue] | dict[str, list[Queue]] | None = None
    """CONFIG: one list for all members, or a list for each."""
    virtual_nodes: int = 10
    """CONSISTENT_HASH: the number of points of a member on the ring."""
    topics: dict[str, frozenset[str]] = {}
    """STICKY: the topics of a member, if not all."""
    weights: dict[str, float] = {}
    """STICKY: the capacity of a member, by default 1."""
    lags: list[QueueLag] = []
    """STICKY: the lag of each queue."""
    budget: int = 0
    """STICKY: how many queues may move beyond the minimum to balance lags."""


def read_strategy_options(values: Mapping[str, object]) -> StrategyOptions:
    """Check plain values and return them as options.

    >>> read_strategy_options({"rooms": ["east"]}).rooms
    frozenset({'east'})
    >>> read_strategy_options({"rooms": "east"})
    Traceback (most recent call last):
    ...
    steelyard.errors.ConfigurationError: the strategy's configuration is wrong at rooms: expected `array | null`, got \
`str`; its fields are rooms, member_rooms, queues, virtual_nodes, topics, weights, lags, budget
    """
    try:
        return msgspec.convert(dict(values), StrategyOptions)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        field = f"at {path.rstrip('`').lstrip('.')}" if path else "as a whole"
        raise ConfigurationError(
            f"the strategy's configuration is wrong {field}: {what[:1].lower()}{what[1:]}",
            next_step=f"its fields are {', '.join(StrategyOptions.__struct_fields__)}",
        ) from error


StrategyLoader: TypeAlias = Callable[[str], StrategyFunction]
"""Turns ``package.module:rule`` into the callable it names; raises an error of steelyard.errors if it cannot."""


@dataclass(frozen=True, slots=True)
class KnownStrategy:
    """A strategy with our name, Java's name, and how to make it from options."""

    name: str
    java: str
    make: Callable[[StrategyOptions], Strategy]


@dataclass(frozen=True, slots=True)
class StrategyRegistry:
    """The strategies that can be found by name."""

    known: tuple[KnownStrategy, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Our names."""
        return tuple(each.name for each in self.known)

    def get(self, name: str) -> KnownStrategy | None:
        """Return the strategy of that name, ours or Java's, or None."""
        wanted = _normalized(name)
        return next((each for each in self.known if wanted in map(_normalized, (each.java, each.name))), None)

    def make(self, name: str, settings: StrategyOptions) -> Strategy:
        """Make the strategy of a name; for an unknown name the error suggests the nearest one."""
        known = self.get(name)
        if known is not None:
            return known.make(settings)
        outer, inner = _normalized(name)[: len(MACHINE_ROOM_NEARBY) + 1], name.strip()[len(MACHINE_ROOM_NEARBY) + 1 :]
        if outer == _normalized(f"{MACHINE_ROOM_NEARBY}-") and inner:
            return replace(_nearby(settings), inner=self.make(inner, settings))
        raise UnknownStrategy(name, known=self.names, nearest=self._nearest(name))

    def _nearest(self, name: str) -> str | None:
        spellings = {_normalized(spelling): spelling for each in self.known for spelling in (each.java, each.name)}
        close = get_close_matches(_normalized(name), spellings, n=1)
        return spellings[close[0]] if close else None


def _normalized(name: str) -> str:
    return name.strip().casefold().replace("_", "-")


def _by_config(settings: StrategyOptions) -> ByConfig:
    if settings.queues is None:
        raise _missing("CONFIG", "queues", "[[topic, broker, id], …] for all, or {member: [[topic, broker, id], …]}")
    return (
        ByConfig(queues_by_member=settings.queues) if isinstance(settings.queues, dict) else ByConfig(settings.queues)
    )


def _machine_room(settings: StrategyOptions) -> MachineRoom:
    if settings.rooms is None:
        raise _missing("MACHINE_ROOM", "rooms", "[room, …]; a broker in a room is called room@name")
    return MachineRoom(settings.rooms)


def _nearby(settings: StrategyOptions) -> MachineRoomNearby:
    if settings.member_rooms is None:
        raise _missing(MACHINE_ROOM_NEARBY, "member_rooms", "{member: room, …}; a broker in a room is called room@name")
    return MachineRoomNearby(MemberLookup(settings.member_rooms))


def _sticky(settings: StrategyOptions) -> Sticky:
    lags = {each.queue: each.messages for each in settings.lags}
    return Sticky(topics=settings.topics, weights=settings.weights, lags=lags, budget=settings.budget)


def _missing(strategy: str, field: str, example: str) -> ConfigurationError:
    return ConfigurationError(f"{strategy} needs {field} in its configuration", next_step=f"give {field}: {example}")


BUILT_IN_STRATEGIES = StrategyRegistry(
    (
        KnownStrategy("average", "AVG", lambda _: Average()),
        KnownStrategy("circle", "AVG_BY_CIRCLE", lambda _: AverageByCircle()),
        KnownStrategy("config", "CONFIG", _by_config),
        KnownStrategy("machine-room", "MACHINE_ROOM", _machine_room),
        KnownStrategy("machine-room-nearby", MACHINE_ROOM_NEARBY, _nearby),
        KnownStrategy("ring", "CONSISTENT_HASH", lambda settings: ConsistentHash(settings.virtual_nodes)),
        KnownStrategy("sticky", "STICKY", _sticky),
    )
)


def find_strategy(
    choice: str | Strategy | StrategyFunction,
    config: Mapping[str, object] | StrategyOptions = MappingProxyType({}),
    *,
    load: StrategyLoader | None = None,
) -> Strategy:
    """Return the strategy of a choice: a name, ``package.module:rule``, or a callable.

    >>> find_strategy("average").name, find_strategy("ring", {"virtual_nodes": 100}).name
    ('AVG', 'CONSISTENT_HASH')
    >>> find_strategy("stiky")
    Traceback (most recent call last):
    ...
    steelyard.errors.UnknownStrategy: no allocation strategy is called 'stiky'; did you mean sticky? known: average, \
circle, config, machine-room, machine-room-nearby, ring, sticky
    """
    if isinstance(choice, type) or not (isinstance(choice, str) or callable(choice)):
        names = " or ".join(BUILT_IN_STRATEGIES.names)
        raise ConfigurationError(
            f"{choice!r} is no allocation strategy",
            next_step=f"give a callable (group, member, queues, members) -> queues, or {names}",
        )
    if isinstance(choice, Strategy):
        return choice
    if not isinstance(choice, str):
        return CustomStrategy(getattr(choice, "__name__", type(choice).__name__), choice)
    if ":" in choice and load is not None:
        return CustomStrategy(choice, load(choice))
    settings = config if isinstance(config, StrategyOptions) else read_strategy_options(config)
    return BUILT_IN_STRATEGIES.make(choice, settings)
