"""How lines are encrypted, for those who configure a client and know nothing of sockets: a name of net/tls.py."""

from steelyard.net.tls import Tls

__all__ = ["Tls"]
