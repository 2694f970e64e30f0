"""What strategies can be configured with, read from plain values such as a JSON file holds.

One configuration serves all strategies, so that the same file can be tried with each: a field that another strategy
reads does no harm, one that no strategy reads is refused. A field that is missing is missed when a strategy that needs
it is made (names.py). What is said of single members is found by their names, or client ids (member_tables.py).
"""

from collections.abc import Mapping

import msgspec

from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["QueueLag", "Settings", "read_settings"]


class QueueLag(msgspec.Struct, frozen=True, array_like=True):
    """How many messages wait in a queue, written ``[[topic, broker, id], messages]``."""

    queue: Queue
    messages: int


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a configuration; each names the strategy that reads it."""

    rooms: frozenset[str] | None = None
    """MACHINE_ROOM: the rooms whose queues are shared."""

    member_rooms: dict[str, str] | None = None
    """MACHINE_ROOM_NEARBY: the room of each member. That of a broker is what its name says, ``room@name``."""

    queues: list[Queue] | dict[str, list[Queue]] | None = None
    """CONFIG: one list for everybody, or a list for each member, for all of them."""

    virtual_nodes: int = 10
    """CONSISTENT_HASH: how many points of the ring a member has."""

    topics: dict[str, frozenset[str]] = {}
    """STICKY: the topics a member subscribes to, where not all."""

    weights: dict[str, float] = {}
    """STICKY: how much a member can carry; 1 where nothing is said."""

    lags: list[QueueLag] = []
    """STICKY: how many messages wait in each queue."""

    budget: int = 0
    """STICKY: how many queues may move beyond the least to make lags even."""


def read_settings(values: Mapping[str, object]) -> Settings:
    """Check plain values and return them as settings.

    >>> read_settings({"rooms": ["east"]}).rooms
    frozenset({'east'})
    >>> read_settings({"rooms": "east"})
    Traceback (most recent call last):
    ...
    steelyard.errors.ConfigurationError: the strategy's configuration is wrong at rooms: expected `array | null`, got \
`str`; its fields are rooms, member_rooms, queues, virtual_nodes, topics, weights, lags, budget
    """
    try:
        return msgspec.convert(dict(values), Settings)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        field = f"at {path.rstrip('`').lstrip('.')}" if path else "as a whole"
        raise ConfigurationError(
            f"the strategy's configuration is wrong {field}: {what[:1].lower()}{what[1:]}",
            next_step=f"its fields are {', '.join(Settings.__struct_fields__)}",
        ) from error
