"""Strategies by name: Java's names and ours, and those that users add.

A registry is a value: adding a strategy gives a new registry and changes nothing that anybody else holds. Names are
compared without regard to case, ``_`` counts as ``-``, and Java's ``MACHINE_ROOM_NEARBY-<inner>`` names its inner
strategy.

Left out: importing. A name such as ``package.module:rule`` is given to a function ``load`` that the caller hands in,
because only the shell may import what a user writes on a command line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeAlias

from steelyard.balance.allocate.average import Average
from steelyard.balance.allocate.by_config import ByConfig
from steelyard.balance.allocate.circle import Circle
from steelyard.balance.allocate.custom import Custom
from steelyard.balance.allocate.machine_room import MachineRoom
from steelyard.balance.allocate.member_tables import LookUp
from steelyard.balance.allocate.nearby import NEARBY, Nearby
from steelyard.balance.allocate.ring import Ring
from steelyard.balance.allocate.settings import Settings, read_settings
from steelyard.balance.allocate.sticky import Sticky
from steelyard.balance.allocate.strategy import Rule, Strategy
from steelyard.errors import ConfigurationError, UnknownStrategy

__all__ = ["BUILT_IN", "Known", "Load", "Registry", "find_strategy"]

Load: TypeAlias = Callable[[str], Rule]
"""Turns ``package.module:rule`` into the callable it names; raises an error of steelyard.errors if it cannot."""


@dataclass(frozen=True, slots=True)
class Known:
    """A strategy that has a name: ours, Java's if it has one, and how to make it from settings."""

    name: str
    java: str | None
    make: Callable[[Settings], Strategy]

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name it has."""
        return (self.name,) if self.java is None else (self.java, self.name)


@dataclass(frozen=True, slots=True)
class Registry:
    """The strategies that can be asked for by name."""

    known: tuple[Known, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Our names, in the order in which they were added."""
        return tuple(each.name for each in self.known)

    def adding(self, name: str, rule: Rule) -> "Registry":
        """Return a registry that knows one more: a rule of the user's own.

        >>> BUILT_IN.adding("mine", lambda group, member, queues, members: []).names[-1]
        'mine'
        """
        if not name or ":" in name:
            raise ConfigurationError(
                f"{name!r} cannot be the name of a strategy", next_step="give a word without a colon"
            )
        if self.get(name) is not None:
            raise ConfigurationError(f"a strategy is called {name!r} already", next_step="give it another name")
        custom = Custom(name, rule)
        return replace(self, known=(*self.known, Known(name, None, lambda _: custom)))

    def get(self, name: str) -> Known | None:
        """Return the strategy of that name, ours or Java's, or None."""
        wanted = _plain(name)
        return next((each for each in self.known if wanted in map(_plain, each.spellings)), None)

    def make(self, name: str, settings: Settings) -> Strategy:
        """Make the strategy of that name; an unknown name is an error that says which one is nearest."""
        known = self.get(name)
        if known is not None:
            return known.make(settings)
        outer, inner = _plain(name)[: len(NEARBY) + 1], name.strip()[len(NEARBY) + 1 :]
        if outer == _plain(f"{NEARBY}-") and inner:
            return replace(_nearby(settings), inner=self.make(inner, settings))
        raise UnknownStrategy(name, known=self.names, nearest=self._nearest(name))

    def _nearest(self, name: str) -> str | None:
        spellings = {_plain(spelling): spelling for each in self.known for spelling in each.spellings}
        close = get_close_matches(_plain(name), spellings, n=1)
        return spellings[close[0]] if close else None


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-")


def _by_config(settings: Settings) -> ByConfig:
    if settings.queues is None:
        raise _missing("CONFIG", "queues", "[[topic, broker, id], …] for all, or {member: [[topic, broker, id], …]}")
    return ByConfig(own=settings.queues) if isinstance(settings.queues, dict) else ByConfig(settings.queues)


def _machine_room(settings: Settings) -> MachineRoom:
    if settings.rooms is None:
        raise _missing("MACHINE_ROOM", "rooms", "[room, …]; a broker in a room is called room@name")
    return MachineRoom(settings.rooms)


def _nearby(settings: Settings) -> Nearby:
    if settings.member_rooms is None:
        raise _missing(NEARBY, "member_rooms", "{member: room, …}; a broker in a room is called room@name")
    return Nearby(LookUp(settings.member_rooms))


def _sticky(settings: Settings) -> Sticky:
    lags = {each.queue: each.messages for each in settings.lags}
    return Sticky(topics=settings.topics, weights=settings.weights, lags=lags, budget=settings.budget)


def _missing(strategy: str, field: str, example: str) -> ConfigurationError:
    return ConfigurationError(f"{strategy} needs {field} in its configuration", next_step=f"give {field}: {example}")


BUILT_IN = Registry(
    (
        Known("average", "AVG", lambda _: Average()),
        Known("circle", "AVG_BY_CIRCLE", lambda _: Circle()),
        Known("config", "CONFIG", _by_config),
        Known("machine-room", "MACHINE_ROOM", _machine_room),
        Known("machine-room-nearby", NEARBY, _nearby),
        Known("ring", "CONSISTENT_HASH", lambda settings: Ring(settings.virtual_nodes)),
        Known("sticky", "STICKY", _sticky),
    )
)
"""Java's six and ours."""


def find_strategy(
    choice: str | Strategy | Rule,
    config: Mapping[str, object] | Settings = MappingProxyType({}),
    *,
    registry: Registry = BUILT_IN,
    load: Load | None = None,
) -> Strategy:
    """Return the strategy that somebody chose: by name, by ``package.module:rule``, or as a callable.

    >>> find_strategy("average").name, find_strategy("ring", {"virtual_nodes": 100}).name
    ('AVG', 'CONSISTENT_HASH')
    >>> find_strategy("stiky")
    Traceback (most recent call last):
    ...
    steelyard.errors.UnknownStrategy: no allocation strategy is called 'stiky'; did you mean sticky? known: average, \
circle, config, machine-room, machine-room-nearby, ring, sticky
    """
    if isinstance(choice, type) or not (isinstance(choice, str) or callable(choice)):
        raise ConfigurationError(
            f"{choice!r} is no allocation strategy",
            next_step=f"give a callable (group, member, queues, members) -> queues, or {' or '.join(registry.names)}",
        )
    if isinstance(choice, Strategy):
        return choice
    if not isinstance(choice, str):
        return Custom(getattr(choice, "__name__", type(choice).__name__), choice)
    if ":" in choice and load is not None:
        return Custom(choice, load(choice))
    settings = config if isinstance(config, Settings) else read_settings(config)
    return registry.make(choice, settings)
