"""Hosts in records: four or sixteen bytes of address, then the port in 32 bits.

In the program a host is text, ``10.0.0.1:10911`` or ``[::1]:10911``. Both directions are cached, since few hosts
repeat in many records.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from steelyard.errors import MalformedRecord
from steelyard.model.message import host_hex

IPV4_BYTES = 8
IPV6_BYTES = 20


@lru_cache(maxsize=4096)
def host_text(host: bytes) -> str:
    """Return a record's host as text."""
    address, port = host[:-4], int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == IPV4_BYTES:
        return f"{IPv4Address(address)}:{port}"
    if len(host) == IPV6_BYTES:
        return f"[{IPv6Address(address)}]:{port}"
    raise MalformedRecord(f"a host has {len(host)} bytes, not 8 or 20", where="record")


@lru_cache(maxsize=4096)
def host_bytes(host: str) -> bytes:
    """Return a host's text as bytes of a record."""
    return bytes.fromhex(host_hex(host))
