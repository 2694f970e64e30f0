"""The nouns: frozen values that every other room speaks of. Nothing here knows bytes, clocks or sockets."""

from steelyard.model.java_text import java_hash, tag_hash, utf16_units
from steelyard.model.message import Message, StoredMessage
from steelyard.model.offsets import OffsetRange
from steelyard.model.queue import Queue, in_order, names_in_order
from steelyard.model.route import BrokerPlace, Permission, PublishList, QueueCounts, Route
from steelyard.model.subscription import FilterKind, Subscription, plain_tags

__all__ = [
    "BrokerPlace",
    "FilterKind",
    "Message",
    "OffsetRange",
    "Permission",
    "PublishList",
    "Queue",
    "QueueCounts",
    "Route",
    "StoredMessage",
    "Subscription",
    "in_order",
    "java_hash",
    "names_in_order",
    "plain_tags",
    "tag_hash",
    "utf16_units",
]
