"""Compressed bodies: zlib, LZ4 frames and zstd, by the bits of the system flag.

A body is exactly one stream: if it is cut off, or has anything after its end, it is `MalformedRecord`. The output is
bounded while it is produced: a bomb stops at the limit with `LimitExceeded`, and never takes more memory than the limit
and 8 MiB. Only one layer is decompressed.

zlib is always available; LZ4 needs the extra ``lz4``, and zstd before Python 3.14 the extra ``fast``. Each is imported
with the first body that needs it.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from steelyard.errors import LimitExceeded, MalformedRecord, MissingExtra
from steelyard.wire import limits
from steelyard.wire.sysflag import COMPRESSED, Compression, compression_of

# Java's level, for zlib and zstd.
_LEVEL = 5

# How much is decompressed at once: little at first, because most bodies are small.
_FIRST_BYTES = 64 * 1024
_BLOCK_BYTES = 1024 * 1024

# The window of a zstd frame: level 5 uses 2 MiB, and more than the limit is of no use.
_WINDOW_BYTES = limits.DECOMPRESSED_BYTES
_WINDOW_LOG = _WINDOW_BYTES.bit_length() - 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def compress(body: bytes, kind: Compression) -> bytes:
    """Compress a body so that every client can decompress it."""
    if kind is Compression.LZ4:
        with _require_extra("LZ4 bodies", "lz4"):
            import lz4.frame
        # Java supports independent blocks only.
        return lz4.frame.compress(body, block_linked=False)
    if kind is Compression.ZSTD:
        with _require_extra("zstd bodies", "fast"):
            from steelyard.wire.zstd import zstd
        return zstd.compress(body, _LEVEL)
    return zlib.compress(body, _LEVEL)


def with_compression(sys_flag: int, kind: Compression) -> int:
    """Return the system flag of a message whose body was compressed."""
    return sys_flag | COMPRESSED | kind


def decompress(body: bytes, sys_flag: int, *, limit: int = limits.DECOMPRESSED_BYTES) -> bytes:
    """Decompress a body to at most ``limit`` bytes. The system flag says how it is compressed."""
    kind = compression_of(sys_flag)
    return _decompress(body, kind, _BoundedOutput(kind, limit))


def decompress_prefix(body: bytes, sys_flag: int, max_bytes: int) -> tuple[bytes, bool]:
    """Decompress the beginning of a body, and say whether that is all of it.

    >>> decompress_prefix(compress(b"steelyard", Compression.ZLIB), 0x301, 5)
    (b'steel', False)
    """
    kind = compression_of(sys_flag)
    opened = _BoundedOutput(kind, max_bytes)
    try:
        return _decompress(body, kind, opened), True
    except LimitExceeded:
        if opened.is_full:
            return opened.prefix(), False
        raise


def _decompress(body: bytes, kind: Compression, output: "_BoundedOutput") -> bytes:
    if kind is Compression.LZ4:
        return _from_lz4(body, output)
    if kind is Compression.ZSTD:
        return _from_zstd(body, output)
    return _from_zlib(body, output)


class _BoundedOutput:
    """The output so far, never more than the limit and one byte."""

    __slots__ = ("_kind", "_limit", "_out", "_size")

    def __init__(self, kind: Compression, limit: int) -> None:
        self._kind, self._limit, self._size = kind.name, limit, 0
        # Grows in place and returns its bytes without a copy: joining a list of blocks would take twice the memory.
        self._out = BytesIO()

    def next_read_bytes(self) -> int:
        """Return how much to decompress next: at least one byte, at most one more than the limit."""
        return min(_BLOCK_BYTES if self._size else _FIRST_BYTES, self._limit - self._size + 1)

    def add(self, block: bytes) -> None:
        """Append a block; one that exceeds the limit, by a byte, is kept for `prefix`."""
        self._size += len(block)
        self._out.write(block)
        if self.is_full:
            raise LimitExceeded(f"what comes out of a {self._kind} body", where="body", limit=self._limit)

    @property
    def is_full(self) -> bool:
        """Whether there is more than the limit."""
        return self._size > self._limit

    def prefix(self) -> bytes:
        """Return the output up to the limit."""
        return self._out.getvalue()[: self._limit]

    def finish(self, *, is_ended: bool, has_trailing_bytes: bool) -> bytes:
        """Return the output, if the stream reached its end and the body ends there, too."""
        if not is_ended:
            raise self.damage_error("it is cut off before its end")
        if has_trailing_bytes:
            raise self.damage_error("something follows its end")
        return self._out.getvalue()

    def damage_error(self, what: object) -> MalformedRecord:
        """Make the error for a body that cannot be decompressed."""
        return MalformedRecord(f"the {self._kind} stream cannot be opened: {what}", where="body")


def _from_zlib(body: bytes, output: _BoundedOutput) -> bytes:
    stream, rest, stuck = zlib.decompressobj(), body, False
    try:
        while not stream.eof and not stuck:
            block = stream.decompress(rest, output.next_read_bytes())
            rest = stream.unconsumed_tail
            stuck = not block and not rest
            output.add(block)
    except zlib.error as error:
        raise output.damage_error(error) from None
    return output.finish(is_ended=stream.eof, has_trailing_bytes=bool(stream.unused_data))


def _from_lz4(body: bytes, output: _BoundedOutput) -> bytes:
    with _require_extra("LZ4 bodies", "lz4"):
        import lz4.frame
    context, rest, ended, stuck = lz4.frame.create_decompression_context(), memoryview(body), False, False
    try:
        while not ended and not stuck:
            block, taken, ended = lz4.frame.decompress_chunk(context, rest, max_length=output.next_read_bytes())
            rest = rest[taken:]
            stuck = not block and not taken
            output.add(block)
    except RuntimeError as error:
        raise output.damage_error(error) from None
    return output.finish(is_ended=ended, has_trailing_bytes=bool(rest))


def _from_zstd(body: bytes, output: _BoundedOutput) -> bytes:
    with _require_extra("zstd bodies", "fast"):
        from steelyard.wire.zstd import zstd
    if not body.startswith(_ZSTD_MAGIC):
        raise output.damage_error("it does not begin as one")
    try:
        promised = zstd.get_frame_info(body).decompressed_size
        window = _zstd_window_bytes(body, promised)
        if window > _WINDOW_BYTES:
            raise LimitExceeded("window of a ZSTD body", where="body", limit=_WINDOW_BYTES, found=window)
        stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        rest, stuck = body, False
        while not stream.eof and not stuck:
            block = stream.decompress(rest, output.next_read_bytes())
            rest = b""
            stuck = not block and stream.needs_input
            output.add(block)
    except zstd.ZstdError as error:
        raise output.damage_error(error) from None
    opened_body = output.finish(is_ended=stream.eof, has_trailing_bytes=bool(stream.unused_data))
    if promised not in (None, len(opened_body)):
        raise output.damage_error(f"{len(opened_body)} bytes came out, it promised {promised}")
    return opened_body


def _zstd_window_bytes(body: bytes, content_bytes: int | None) -> int:
    """Return how much of what came out the reader of a zstd frame has to remember; its head is there as a whole."""
    if body[4] & 0x20:  # one piece: all of it
        return content_bytes or 0
    least = 1 << 10 + (body[5] >> 3)
    return least + (least >> 3) * (body[5] & 7)


@contextmanager
def _require_extra(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import into the sentence that names the missing extra."""
    try:
        yield
    except ImportError:
        raise MissingExtra(what, extra=extra) from None
