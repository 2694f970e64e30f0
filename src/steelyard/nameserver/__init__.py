"""The name server core: registered brokers, and the routes of topics. A command and the time in, replies out."""

from steelyard.nameserver.name_server import NameServerCore
from steelyard.nameserver.options import NameServerOptions

__all__ = ["NameServerCore", "NameServerOptions"]
