"""What a check says: how bad it is, why, and the figures behind it, as plug-ins of Nagios say it.

    WARNING group billing: 1,204 messages wait, more than 1,000 | lag=1204;1000;10000 age=12s;300; members=3

One line: the level, what was looked at, the reasons with the worst first, and behind the bar each figure with the
limits it was held against. A shared convention of tools that watch: 0 ok, 1 warning, 2 critical, 3 unknown.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["NO_LIMITS", "Figure", "Level", "Limits", "Reason", "Verdict", "worst"]


class Level(IntEnum):
    """How bad it is. The number is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3
    """A server answered and does not tell what was asked, so nobody can say."""


_BY_WEIGHT = (Level.CRITICAL, Level.UNKNOWN, Level.WARNING, Level.OK)


def worst(levels: Iterable[Level]) -> Level:
    """Return the one that counts: what is known to be bad comes before what is not known.

    >>> worst([Level.UNKNOWN, Level.CRITICAL]).name, worst([Level.UNKNOWN, Level.WARNING]).name, worst([]).name
    ('CRITICAL', 'UNKNOWN', 'OK')
    """
    return min(levels, key=_BY_WEIGHT.index, default=Level.OK)


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a figure is too much. None is no limit."""

    warn: float | None = None
    crit: float | None = None

    def level(self, value: float) -> Level:
        """Judge a figure: what is more than a limit is beyond it.

        >>> limits = Limits(1_000, 10_000)
        >>> [limits.level(each).name for each in (1_000, 1_001, 10_001)]
        ['OK', 'WARNING', 'CRITICAL']
        """
        if self.crit is not None and value > self.crit:
            return Level.CRITICAL
        return Level.WARNING if self.warn is not None and value > self.warn else Level.OK

    def passed(self, value: float) -> float | None:
        """Return the limit that a figure is beyond, the highest one."""
        return {Level.CRITICAL: self.crit, Level.WARNING: self.warn}.get(self.level(value))


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit and its limits.

    >>> str(Figure("disk of broker-a", 0.5, limits=Limits(0.75))), str(Figure("lag", 12))
    ("'disk of broker-a'=0.5;0.75;", 'lag=12')
    """

    name: str
    value: float
    unit: str = ""
    """``s``, ``ms``, ``B``, or nothing for a count."""
    limits: Limits = NO_LIMITS

    def __str__(self) -> str:
        """Write it as tools read it."""
        name = f"'{self.name}'" if set(self.name) & {" ", "=", "'"} else self.name
        text = (
            f"{name}={self.value:g}{self.unit}" if isinstance(self.value, float) else f"{name}={self.value}{self.unit}"
        )
        if self.limits == NO_LIMITS:
            return text
        low, high = ("" if each is None else f"{each:g}" for each in (self.limits.warn, self.limits.crit))
        return f"{text};{low};{high}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why it is as bad as it is: a sentence."""

    level: Level
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one check; ``parts`` are the checks that it was made of."""

    about: str
    """Such as ``group billing``."""
    well: str
    """How it is, in short: what is said if there is nothing to complain of."""
    reasons: tuple[Reason, ...] = ()
    figures: tuple[Figure, ...] = ()
    parts: tuple["Verdict", ...] = ()

    @property
    def level(self) -> Level:
        """How bad it is: as bad as the worst reason, or the worst part."""
        return worst([*(each.level for each in self.reasons), *(part.level for part in self.parts)])

    @property
    def sentences(self) -> list[str]:
        """Why it is as it is, the worst first."""
        told = sorted(self.reasons, key=lambda each: _BY_WEIGHT.index(each.level))
        return [each.sentence for each in told] or [self.well]

    def line(self) -> str:
        """Return it as one line."""
        behind = " ".join(map(str, self.figures))
        # Whatever stands behind a bar is read as figures.
        said = "; ".join(self.sentences).replace("|", "/")
        return f"{self.level.name} {self.about}: {said}{f' | {behind}' if behind else ''}"

    def lines(self) -> Iterator[str]:
        """Return it as one line, and one for each part."""
        yield self.line()
        for part in self.parts:
            yield from part.lines()

    def values(self) -> Mapping[str, object]:
        """Return it for programs."""
        return {
            "check": self.about,
            "status": self.level.name.lower(),
            "exit": int(self.level),
            "sentences": self.sentences,
            "figures": {
                each.name: {"value": each.value, "unit": each.unit, "warn": each.limits.warn, "crit": each.limits.crit}
                for each in self.figures
            },
            **({"parts": [part.values() for part in self.parts]} if self.parts else {}),
        }
