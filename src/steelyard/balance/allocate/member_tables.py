"""Settings that say something of single members: weights, rooms, fixed lists. Whom an entry is about.

The key of an entry is a member's name or its whole client id; if there is an entry of each kind, the id counts. The
client id of one of ours has its name between the address and what is new with each start (client/ids.py), that of a
Java client has its instanceName there. A name that several members have counts for each of them.

An entry about nobody does nothing, which is easily overlooked. So a member that must be in a table and is not, does not
start, and neither does one with an entry that can be about nobody (`check_tables`); that nobody in a running group is
meant by an entry is told by its members (balance/watching.py).
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from steelyard.balance.allocate.strategy import Strategy
from steelyard.errors import ConfigurationError
from steelyard.model.names import OUR_MARK

__all__ = ["HasTables", "LookUp", "MemberTable", "check_tables", "entry_of", "name_in", "tables_of", "unmatched"]

T = TypeVar("T")

_NEW_EACH_START = re.compile(r"\d+#\d+(#[0-9a-f]+)?")
"""The process, when it started and, of ours, random bits."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class MemberTable:
    """A setting that has entries about members."""

    setting: str
    keys: Collection[str]
    is_for_all: bool = False
    """Whether every member needs an entry."""


@runtime_checkable
class HasTables(Protocol):
    """A strategy that was told something of single members."""

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """Its settings of that kind, without empty ones."""


@dataclass(frozen=True, slots=True)
class LookUp(Generic[T]):
    """What a table says of a member, as a function.

    >>> LookUp({"till-1": "east"})("10.0.0.7@till-1#7#1700000000#ab12@sy1")
    'east'
    """

    table: Mapping[str, T]

    def __call__(self, client_id: str) -> T | None:
        return entry_of(self.table, client_id)


def name_in(client_id: str) -> str | None:
    """Return the name that a client id has in it, or None.

    >>> name_in("10.0.0.7@till-1#7#1700000000#ab12@sy1"), name_in("10.0.0.7@7#1700000000#ab12@sy1")
    ('till-1', None)
    >>> name_in("10.0.0.8@blue@unit"), name_in("10.0.0.8@4711#81723648172"), name_in("c1")
    ('blue', None, None)
    """
    instance = client_id.removesuffix(OUR_MARK).partition("@")[2]
    if client_id.endswith(OUR_MARK):
        name, *rest = instance.rsplit("#", 3)
        return name if len(rest) == 3 else None
    name = instance.partition("@")[0]
    return None if not name or _NEW_EACH_START.fullmatch(name) else name


def entry_of(table: Mapping[str, T], client_id: str) -> T | None:
    """Return what a table says of a member: by its id, else by its name; None if it says nothing."""
    if client_id in table:
        return table[client_id]
    name = name_in(client_id) if table else None
    return None if name is None else table.get(name)


def unmatched(keys: Iterable[str], members: Iterable[str]) -> list[str]:
    """Return the keys of a table, in their order, that are about none of these members.

    >>> unmatched(["till-1", "till-2"], ["10.0.0.7@till-1#7#1700000000#ab12@sy1"])
    ['till-2']
    """
    known = {each for member in members for each in (member, name_in(member))}
    return [key for key in keys if key not in known]


def tables_of(*strategies: Strategy) -> tuple[MemberTable, ...]:
    """Return the tables that strategies were given; one that several have counts once."""
    tables = (table for each in strategies if isinstance(each, HasTables) for table in each.member_tables)
    return tuple({table.setting: table for table in tables}.values())


def check_tables(tables: Iterable[MemberTable], client_id: str) -> None:
    """Refuse tables that lack a member which is about to start, and entries that can be about nobody."""
    for table in tables:
        for key in table.keys:
            if "@" not in key and not _NAME.fullmatch(key):
                raise ConfigurationError(
                    f"{table.setting} has an entry for {key!r}, and no member can be called so",
                    next_step="give the name of a member (letters, digits, ., - and _) or a whole client id",
                )
        name = name_in(client_id)
        if table.is_for_all and client_id not in table.keys and name not in table.keys:
            whom = "this member, which has no name" if name is None else f"this member, {name}"
            keys = sorted(table.keys)
            some = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
            raise ConfigurationError(
                f"{table.setting} has no entry for {whom}", next_step=f"give name=, one of {some}, or add an entry"
            )
