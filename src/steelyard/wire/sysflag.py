"""The bits of a record's system flag, named once.

Single bits are plain integers, because they are tested for every message. What several bits say together, a
transaction's state and the kind of compression, is an enum that can also be compared as a number.

Left out: the bits of a pull request, which share the name on the wire and nothing else: see wire/headers.
"""

from enum import IntEnum

from steelyard.errors import MalformedRecord

__all__ = [
    "BORN_IPV6",
    "COMPRESSED",
    "COMPRESSION_BITS",
    "INNER_BATCH",
    "MULTI_TAGS",
    "NEEDS_UNWRAP",
    "SEALED",
    "STORE_IPV6",
    "TRANSACTION_BITS",
    "WRAPPED",
    "Compression",
    "Transaction",
    "compression_of",
    "transaction_of",
    "with_transaction",
]

COMPRESSED = 0x001
"""The body is compressed; `COMPRESSION_BITS` say how."""

MULTI_TAGS = 0x002
"""The topic was made for several tags a message; nobody uses it any more."""

TRANSACTION_BITS = 0x00C
"""Where a transaction's state is: see `Transaction`."""

BORN_IPV6 = 0x010
"""The born host takes 20 bytes instead of 8."""

STORE_IPV6 = 0x020
"""The store host takes 20 bytes instead of 8."""

NEEDS_UNWRAP = 0x040
"""The reader has to unwrap the body; only together with `INNER_BATCH`."""

INNER_BATCH = 0x080
"""The body is a batch that was stored as one record."""

WRAPPED = NEEDS_UNWRAP | INNER_BATCH
"""Both bits of a batch that was stored as one record: only then does a reader unwrap it."""

SEALED = COMPRESSED | NEEDS_UNWRAP
"""A message with one of these bits may have to be opened before its body is what its sender gave."""

COMPRESSION_BITS = 0x700
"""Where the kind of compression is: see `Compression`."""


class Transaction(IntEnum):
    """The state of the transaction that a message belongs to, in place."""

    NONE = 0x0
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC


class Compression(IntEnum):
    """The kinds of compression, in place."""

    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


_KINDS = {0: Compression.ZLIB} | {int(kind): kind for kind in Compression}


def transaction_of(sys_flag: int) -> Transaction:
    """Return the state of the transaction in a system flag.

    >>> transaction_of(0x305).name
    'PREPARED'
    """
    return Transaction(sys_flag & TRANSACTION_BITS)


def with_transaction(sys_flag: int, state: Transaction) -> int:
    """Return the system flag with another state of the transaction.

    >>> with_transaction(0x305, Transaction.COMMITTED) == 0x309
    True
    """
    return sys_flag & ~TRANSACTION_BITS | state


def compression_of(sys_flag: int) -> Compression:
    """Return the kind of compression in a system flag; senders before 4.9.4 name none and mean zlib.

    >>> compression_of(0x201).name, compression_of(0x001).name
    ('ZSTD', 'ZLIB')
    """
    kind = _KINDS.get(sys_flag & COMPRESSION_BITS)
    if kind is None:
        raise MalformedRecord(
            f"the system flag {sys_flag:#x} names the compression {sys_flag >> 8 & 7}",
            where="record",
            next_step="known are 0 and 3 (zlib), 1 (LZ4) and 2 (zstd)",
        )
    return kind
