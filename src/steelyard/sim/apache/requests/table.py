"""Every request that the model of Apache's broker knows, and who executes it."""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard.sim.apache.requests import (
    administration,
    locks,
    members,
    offsets,
    pull,
    relay,
    send,
    send_back,
    transactions,
)
from steelyard.sim.apache.state import Handler
from steelyard.wire.codes import RequestCode

__all__ = ["ADMINISTRATION", "HANDLERS"]

HANDLERS: Mapping[int, Handler] = MappingProxyType(
    {
        int(code): handler
        for family in (administration, locks, members, offsets, pull, relay, send, send_back, transactions)
        for code, handler in family.HANDLERS.items()
    }
)

ADMINISTRATION = frozenset(
    int(code)
    for code in (
        *administration.HANDLERS,
        *locks.HANDLERS,
        *relay.HANDLERS,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    )
) - {RequestCode.CHECK_CLIENT_CONFIG}
"""Requests that share the pool of administration."""
