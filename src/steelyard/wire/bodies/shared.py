"""Small bodies that many requests share: a table's version, a table of texts, lists of names."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.body import Body, always, always_map
from steelyard.wire.numbers import Int64

__all__ = ["GroupNames", "TableVersion", "TextTable", "TopicNames"]


class TableVersion(Body, frozen=True, kw_only=True):
    """When a table changed last; two tables are the same when all three numbers are (Java: DataVersion)."""

    counter: Int64 = always(0)
    state_version: Int64 | None = None
    """Grows with each change of master; 4.9 does not have it."""
    timestamp: Int64 = always(0)


class TextTable(Body, frozen=True, kw_only=True):
    """Texts by name: settings, or a broker's measurements (Java: KVTable)."""

    table: Mapping[str, str] = always_map()


class TopicNames(Body, frozen=True, kw_only=True):
    """Names of topics; from a name server also the address of one broker (Java: TopicList)."""

    broker_address: str | None = field(default=None, name="brokerAddr")
    topics: tuple[str, ...] = always((), "topicList")


class GroupNames(Body, frozen=True, kw_only=True):
    """Names of consumer groups (Java: GroupList)."""

    groups: tuple[str, ...] = always((), "groupList")
