"""The end of a transaction: 37, and the check of open ones: 323."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
