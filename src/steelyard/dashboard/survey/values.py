"""The whole cluster as it was seen last: what overview, topics and groups show before anybody looks closer.

Times are milliseconds since the epoch, and each row says when it was seen: rows of one survey are not of one moment.
What nobody told, or what takes two looks and was looked at once, is None.
"""

from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["BrokerRow", "GroupRow", "HazardRow", "Point", "Seen", "TopicRow"]


class BrokerRow(Struct, frozen=True, kw_only=True):
    """A server: a broker's master, or one of its replicas."""

    name: str
    id: int
    """0 is the master."""
    cluster: str
    address: str
    version: str | None = None
    up_ms: int | None = None
    in_rate: float | None = None
    """Messages stored a second."""
    out_rate: float | None = None
    """Messages delivered a second."""
    disk_used: float | None = None
    """The share of its disk that is full, from 0 to 1."""
    problem: str | None = None
    """Why it tells nothing at all."""


class TopicRow(Struct, frozen=True, kw_only=True):
    """A topic in a list."""

    name: str
    kind: str
    """Whose it is: users, retry, dead letters, system."""
    queues: int
    brokers: tuple[str, ...]
    permission: str
    """What may be done with it: read, write."""
    groups: tuple[str, ...] = ()
    """Who reads it, of the groups that were seen."""
    messages: int | None = None
    in_rate: float | None = None
    """Messages stored a second, between the last two looks."""
    stored_ms: int | None = None
    """When the last message came."""
    at_ms: int | None = None
    """When its queues were seen; None: not yet."""


class GroupRow(Struct, frozen=True, kw_only=True):
    """A group in a list. Until it was looked at for the first time only its name is known."""

    name: str
    members: int | None = None
    """How many are online."""
    kind: str | None = None
    """How it gets its messages: push, pull or pop; None while nobody is online."""
    broadcast: bool = False
    strategy: str | None = None
    topics: tuple[str, ...] = ()
    """What it reads, without its retries."""
    queues: int | None = None
    """How many it reads, without those of retries; None where no broker tells of any."""
    lag: int | None = None
    """How many messages wait; None for a broadcast, of which every member keeps its own offsets."""
    out_rate: float | None = None
    """Messages that it is done with a second, between the last two looks."""
    dead: int | None = None
    """Messages in its dead letters; None where that was not looked at."""
    hazards: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be found out."""
    at_ms: int | None = None
    """When it was seen; None: not yet."""


class HazardRow(Struct, frozen=True):
    """Something that looks wrong, in a sentence, and where it can be seen."""

    about: str
    """broker, topic, group or dead letters."""
    name: str
    """Which of them."""
    kind: str
    """What is wrong, in a word that stays the same while it lasts and is the same for others who have it."""
    sentence: str
    is_bad: bool = False
    """Whether messages are lost, late or refused by it; else it is worth a look."""


class Point(Struct, frozen=True, array_like=True):
    """A moment of the last minutes."""

    at_ms: int
    in_rate: float | None
    out_rate: float | None
    lag: int | None


class Seen(Struct, frozen=True, kw_only=True):
    """All that was seen."""

    at_ms: int
    """When brokers were asked last."""
    brokers: tuple[BrokerRow, ...] = ()
    topics: Mapping[str, TopicRow] = field(default_factory=dict)
    groups: Mapping[str, GroupRow] = field(default_factory=dict)
    hazards: tuple[HazardRow, ...] = ()
    """What looks wrong anywhere, the worst first."""
    points: tuple[Point, ...] = ()
    """The last minutes, oldest first."""
    notes: tuple[str, ...] = ()
    """What the cluster cannot tell."""
    groups_seen_ms: int | None = None
    """When the group was seen whose row is the oldest; None while some were not seen at all."""
    topics_seen_ms: int | None = None
    """The same of topics."""
