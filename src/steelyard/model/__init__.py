"""Nouns: frozen values that all other packages share. Nothing here knows bytes, clocks or sockets."""

from steelyard.model.java_strings import java_hash, tag_hash, utf16_units
from steelyard.model.message import Message, StoredMessage
from steelyard.model.queue import OffsetRange, Queue, sort_names, sort_queues
from steelyard.model.route import BrokerAddresses, Permission, PublishList, QueueCounts, TopicRoute
from steelyard.model.subscription import ExpressionType, Subscription, normalize_tags

__all__ = [
    "BrokerAddresses",
    "ExpressionType",
    "Message",
    "OffsetRange",
    "Permission",
    "PublishList",
    "Queue",
    "QueueCounts",
    "StoredMessage",
    "Subscription",
    "TopicRoute",
    "java_hash",
    "normalize_tags",
    "sort_names",
    "sort_queues",
    "tag_hash",
    "utf16_units",
]
