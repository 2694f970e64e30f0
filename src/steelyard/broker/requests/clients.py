"""Heartbeats and leaving: 34, 35, 46."""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler

__all__ = ["HANDLERS"]

HANDLERS: Mapping[int, Handler] = {}
