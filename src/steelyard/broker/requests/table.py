"""Which handler takes which request."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler
from steelyard.broker.requests import (
    assignments,
    clients,
    groups,
    lists,
    locks,
    offsets,
    pull,
    queries,
    relays,
    replies,
    resets,
    runtime,
    send,
    send_back,
    settings,
    statistics,
    topics,
    transactions,
)

__all__ = ["HANDLERS"]

_FAMILIES = (
    assignments,
    clients,
    groups,
    lists,
    locks,
    offsets,
    pull,
    queries,
    relays,
    replies,
    resets,
    runtime,
    send,
    send_back,
    settings,
    statistics,
    topics,
    transactions,
)

HANDLERS: Mapping[int, Handler] = {
    int(code): handler for family in _FAMILIES for code, handler in family.HANDLERS.items()
}
"""By request code, all families together."""
