"""Compressed bodies: zlib, LZ4 frames and zstd, told apart by the system flag.

A body is one stream and nothing else: a cut one, and one with anything behind its end, is `MalformedRecord`. What comes
out is bounded while it comes out: a bomb stops at the limit with `LimitExceeded` and never takes more memory than the
limit and 8 MiB. Only one layer is opened: what was compressed twice comes out compressed once.

zlib is always there; LZ4 needs the extra ``lz4``, and zstd before Python 3.14 the extra ``fast``. Each is imported when
the first such body is met.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from steelyard.errors import LimitExceeded, MalformedRecord, MissingExtra
from steelyard.wire import limits
from steelyard.wire.sysflag import COMPRESSED, Compression, compression_of

__all__ = ["compress", "decompress", "decompress_start", "flagged"]

# Java's level, for zlib and zstd.
_LEVEL = 5

# How much is asked for at once: little first, because most bodies are small.
_FIRST_BYTES = 64 * 1024
_BLOCK_BYTES = 1024 * 1024

# How much a zstd frame may make its reader remember: level 5 asks for 2 MiB, and more than the limit is of no use.
_WINDOW_BYTES = limits.DECOMPRESSED_BYTES
_WINDOW_LOG = _WINDOW_BYTES.bit_length() - 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def compress(body: bytes, kind: Compression) -> bytes:
    """Compress a body so that every other reader understands it.

    >>> len(compress(b"steelyard" * 100, Compression.ZLIB)) < 30
    True
    """
    if kind is Compression.LZ4:
        with _extra("LZ4 bodies", "lz4"):
            import lz4.frame
        # Java reads independent blocks only.
        return lz4.frame.compress(body, block_linked=False)
    if kind is Compression.ZSTD:
        with _extra("zstd bodies", "fast"):
            from steelyard.wire.zstd import zstd
        return zstd.compress(body, _LEVEL)
    return zlib.compress(body, _LEVEL)


def flagged(sys_flag: int, kind: Compression) -> int:
    """Return the system flag of a message whose body was compressed.

    >>> hex(flagged(0, Compression.ZLIB))
    '0x301'
    """
    return sys_flag | COMPRESSED | kind


def decompress(body: bytes, sys_flag: int, *, limit: int = limits.DECOMPRESSED_BYTES) -> bytes:
    """Open a compressed body: at most ``limit`` bytes come out. The system flag says of which kind it is.

    >>> decompress(compress(b"steelyard", Compression.ZLIB), 0x301)
    b'steelyard'
    """
    kind = compression_of(sys_flag)
    return _open(body, kind, _Opened(kind, limit))


def decompress_start(body: bytes, sys_flag: int, most: int) -> tuple[bytes, bool]:
    """Open the beginning of a compressed body, and say whether that is all of it; what is behind it is not looked at.

    >>> decompress_start(compress(b"steelyard", Compression.ZLIB), 0x301, 5)
    (b'steel', False)
    """
    kind = compression_of(sys_flag)
    opened = _Start(kind, most)
    try:
        return _open(body, kind, opened), True
    except LimitExceeded:
        if opened.is_full:
            return opened.start(), False
        raise


def _open(body: bytes, kind: Compression, opened: "_Opened") -> bytes:
    if kind is Compression.LZ4:
        return _from_lz4(body, opened)
    if kind is Compression.ZSTD:
        return _from_zstd(body, opened)
    return _from_zlib(body, opened)


class _Opened:
    """What has come out of a body so far, and never more than the limit."""

    __slots__ = ("_kind", "_limit", "_out", "_size")

    def __init__(self, kind: Compression, limit: int) -> None:
        self._kind, self._limit, self._size = kind.name, limit, 0
        # Grows in place and gives its bytes away without a copy: a list of blocks would need twice the memory to join.
        self._out = BytesIO()

    def room(self) -> int:
        """Return how much to ask for next: one byte more than the limit at the most, and one at the least."""
        return min(_BLOCK_BYTES if self._size else _FIRST_BYTES, self._limit - self._size + 1)

    def add(self, block: bytes) -> None:
        """Take a block."""
        self._size += len(block)
        if self._size > self._limit:
            raise LimitExceeded(f"what comes out of a {self._kind} body", where="body", limit=self._limit)
        self._out.write(block)

    def whole(self, *, ended: bool, behind: bool) -> bytes:
        """Return all of it, if the stream reached its end and the body ends there too."""
        if not ended:
            raise self.damaged("it is cut off before its end")
        if behind:
            raise self.damaged("something follows its end")
        return self._out.getvalue()

    def damaged(self, what: object) -> MalformedRecord:
        """Make the error for a body that cannot be opened."""
        return MalformedRecord(f"the {self._kind} stream cannot be opened: {what}", where="body")


class _Start(_Opened):
    """The beginning of what comes out of a body: what was too much is kept."""

    @property
    def is_full(self) -> bool:
        """Whether there is more than was wanted."""
        return self._size > self._limit

    def add(self, block: bytes) -> None:
        """Take a block, also the one that is too much."""
        try:
            super().add(block)
        except LimitExceeded:
            self._out.write(block)
            raise

    def start(self) -> bytes:
        """Return what was wanted."""
        return self._out.getvalue()[: self._limit]


def _from_zlib(body: bytes, opened: _Opened) -> bytes:
    stream, rest, stuck = zlib.decompressobj(), body, False
    try:
        while not stream.eof and not stuck:
            block = stream.decompress(rest, opened.room())
            rest = stream.unconsumed_tail
            stuck = not block and not rest
            opened.add(block)
    except zlib.error as error:
        raise opened.damaged(error) from None
    return opened.whole(ended=stream.eof, behind=bool(stream.unused_data))


def _from_lz4(body: bytes, opened: _Opened) -> bytes:
    with _extra("LZ4 bodies", "lz4"):
        import lz4.frame
    context, rest, ended, stuck = lz4.frame.create_decompression_context(), memoryview(body), False, False
    try:
        while not ended and not stuck:
            block, taken, ended = lz4.frame.decompress_chunk(context, rest, max_length=opened.room())
            rest = rest[taken:]
            stuck = not block and not taken
            opened.add(block)
    except RuntimeError as error:
        raise opened.damaged(error) from None
    return opened.whole(ended=ended, behind=bool(rest))


def _from_zstd(body: bytes, opened: _Opened) -> bytes:
    with _extra("zstd bodies", "fast"):
        from steelyard.wire.zstd import zstd
    if not body.startswith(_ZSTD_MAGIC):
        raise opened.damaged("it does not begin as one")
    try:
        promised = zstd.get_frame_info(body).decompressed_size
        window = _window_of(body, promised)
        if window > _WINDOW_BYTES:
            raise LimitExceeded("window of a ZSTD body", where="body", limit=_WINDOW_BYTES, found=window)
        stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        rest, stuck = body, False
        while not stream.eof and not stuck:
            block = stream.decompress(rest, opened.room())
            rest = b""
            stuck = not block and stream.needs_input
            opened.add(block)
    except zstd.ZstdError as error:
        raise opened.damaged(error) from None
    opened_body = opened.whole(ended=stream.eof, behind=bool(stream.unused_data))
    if promised not in (None, len(opened_body)):
        raise opened.damaged(f"{len(opened_body)} bytes came out, it promised {promised}")
    return opened_body


def _window_of(body: bytes, promised: int | None) -> int:
    """Return how much of what came out the reader of a zstd frame has to remember; its head is there as a whole."""
    if body[4] & 0x20:  # one piece: all of it
        return promised or 0
    least = 1 << 10 + (body[5] >> 3)
    return least + (least >> 3) * (body[5] & 7)


@contextmanager
def _extra(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import into the sentence that names the missing extra."""
    try:
        yield
    except ImportError:
        raise MissingExtra(what, extra=extra) from None
