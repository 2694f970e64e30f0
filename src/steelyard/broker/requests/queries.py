"""Messages by key, by place: 12, 33, 321."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
