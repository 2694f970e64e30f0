"""Hashes of keys, as the clients of other languages compute them: one key, one queue, whoever sends it.

`java_hash` of the model is Java's own. Here are FNV-1a (Go), SipHash-2-4 with the key that Guava starts with (the gRPC
clients of Java and Go; Node's swaps the bytes of the result, and so picks other queues) and SHA-256 (the gRPC client of
Python). All of them read the key as UTF-8.
"""

from hashlib import sha256

__all__ = ["fnv1a", "sha256_number", "siphash24"]

_64_BITS = 0xFFFFFFFFFFFFFFFF
_GUAVA_KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


def fnv1a(key: str) -> int:
    """Return the 32 bits of FNV-1a.

    >>> hex(fnv1a("foobar"))
    '0xbf9cf968'
    """
    value = 0x811C9DC5
    for byte in key.encode(errors="replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def sha256_number(key: str) -> int:
    """Return a key's SHA-256 as one number, big end first."""
    return int.from_bytes(sha256(key.encode(errors="replace")).digest(), "big")


def siphash24(key: str) -> int:
    """Return SipHash-2-4 of a key, with 64 bits and a sign, as Java sees it.

    >>> siphash24("order-1")
    -4360020059536918905
    """
    value = _siphash(key.encode(errors="replace"))
    return value - (1 << 64) if value >> 63 else value


def _siphash(raw: bytes) -> int:
    """Return the 64 bits of SipHash-2-4.

    >>> hex(_siphash(bytes(range(15))))
    '0xa129ca6149be45e5'
    """
    one, two = _GUAVA_KEY
    state = (one ^ 0x736F6D6570736575, two ^ 0x646F72616E646F6D, one ^ 0x6C7967656E657261, two ^ 0x7465646279746573)
    whole = len(raw) - len(raw) % 8
    last = raw[whole:].ljust(7, b"\0") + bytes([len(raw) & 0xFF])
    for word in [raw[at : at + 8] for at in range(0, whole, 8)] + [last]:
        number = int.from_bytes(word, "little")
        a, b, c, d = _rounds(2, *state[:3], state[3] ^ number)
        state = (a ^ number, b, c, d)
    a, b, c, d = _rounds(4, state[0], state[1], state[2] ^ 0xFF, state[3])
    return a ^ b ^ c ^ d


def _rounds(count: int, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        a = (a + b) & _64_BITS
        b = _turned(b, 13) ^ a
        a = _turned(a, 32)
        c = (c + d) & _64_BITS
        d = _turned(d, 16) ^ c
        a = (a + d) & _64_BITS
        d = _turned(d, 21) ^ a
        c = (c + b) & _64_BITS
        b = _turned(b, 17) ^ c
        c = _turned(c, 32)
    return a, b, c, d


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _64_BITS
