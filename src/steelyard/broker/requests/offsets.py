"""Offsets of groups and bounds of queues: 14, 15, 29 to 32, 314."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
