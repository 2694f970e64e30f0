"""The administrator's client: topics, groups, offsets, messages, brokers and access, one file for each noun."""

from steelyard.client.admin.admin import Admin

__all__ = ["Admin"]
