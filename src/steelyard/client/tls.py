"""Tls for code that configures a client and must not import `net`: a name of net/tls.py."""

from steelyard.net.tls import Tls

__all__ = ["Tls"]
