"""Locks: 41, 42."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
