"""The administrator's client: topics, groups, offsets, members, messages and brokers, one file per noun."""

from steelyard.client.admin.admin import Admin

__all__ = ["Admin"]
