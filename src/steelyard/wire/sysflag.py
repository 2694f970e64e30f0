"""The bits of a record's system flag.

Single bits are plain integers, because they are tested for every message. Several bits together, a transaction's state
and the kind of compression, are enums. Left out: the bits of a pull request, which only share the name (wire/headers).
"""

from enum import IntEnum

from steelyard.errors import MalformedRecord

COMPRESSED = 0x001
"""The body is compressed; `COMPRESSION_BITS` say how."""


TRANSACTION_BITS = 0x00C
"""The bits of a `TransactionFlag`."""

BORN_IPV6 = 0x010
"""The born host takes 20 bytes instead of 8."""

STORE_IPV6 = 0x020
"""The store host takes 20 bytes instead of 8."""

NEEDS_UNWRAP = 0x040
"""The consumer has to unwrap the body; only together with `INNER_BATCH`."""

INNER_BATCH = 0x080
"""The body is a batch that is stored as one record."""

WRAPPED = NEEDS_UNWRAP | INNER_BATCH
"""Both bits of a batch that is stored as one record: only then a consumer unwraps it."""

SEALED = COMPRESSED | NEEDS_UNWRAP
"""A body with one of these bits may have to be decompressed or unwrapped."""

COMPRESSION_BITS = 0x700
"""The bits of a `Compression`."""


class TransactionFlag(IntEnum):
    """The state of a message's transaction, as bits of the flag."""

    NONE = 0x0
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC


class Compression(IntEnum):
    """The kinds of compression, as bits of the flag."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


_COMPRESSIONS = {0: Compression.ZLIB} | {int(kind): kind for kind in Compression}


def with_transaction(sys_flag: int, state: TransactionFlag) -> int:
    """Return the system flag with another state of the transaction."""
    return sys_flag & ~TRANSACTION_BITS | state


def compression_of(sys_flag: int) -> Compression:
    """Return the kind of compression in a system flag; clients before 4.9.4 set none and mean zlib."""
    kind = _COMPRESSIONS.get(sys_flag & COMPRESSION_BITS)
    if kind is None:
        raise MalformedRecord(
            f"the system flag {sys_flag:#x} names the compression {sys_flag >> 8 & 7}",
            where="record",
            next_step="known are 0 and 3 (zlib), 1 (LZ4) and 2 (zstd)",
        )
    return kind
