"""Plans made by the broker: 400, 401."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
