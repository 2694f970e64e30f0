"""The name server's core: who is there, and where each topic lives. A command and the time in, replies out."""

from steelyard.nameserver.core import NameServer
from steelyard.nameserver.options import NameServerOptions

__all__ = ["NameServer", "NameServerOptions"]
