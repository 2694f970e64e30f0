"""Frames: how commands follow each other on a connection.

A frame is four bytes of length, one byte of header type, three bytes of header length, the header, the body. There is
no marker to find the next frame by: after a broken frame the connection is lost, so a decoder that has raised raises
again.
"""

from collections.abc import Iterator
from copy import copy
from struct import Struct as Layout

from steelyard.errors import LimitExceeded, MalformedFrame, ProtocolError
from steelyard.wire import limits
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command, decode_command, encode_header

_LENGTHS = Layout(">ii")
_LENGTH = Layout(">i")
_MAX_LENGTH = limits.FRAME_BYTES - 4
_TYPES = {kind.value: kind for kind in HeaderType}
# A chunk in a list costs about as much as this many bytes: with more chunks than that, they are joined.
_CHUNK_COST_BYTES = 64
# What chunks may cost beyond their counted bytes before they are joined.
_MAX_CHUNK_OVERHEAD_BYTES = 65_536


def encode_frame(command: Command) -> bytes:
    """Encode a command as one frame."""
    header = encode_header(command)
    size = 4 + len(header) + len(command.body)
    if command.parts:
        size += sum(map(len, command.parts))
    if size + 4 > limits.FRAME_BYTES or len(header) > limits.WRITTEN_HEADER_BYTES:
        raise _size_error(command.code, len(header), size + 4)
    start = _LENGTHS.pack(size, command.header_type << 24 | len(header))
    return b"".join((start, header, command.body, *command.parts))


def encode_frame_parts(command: Command) -> list[bytes | memoryview]:
    """Encode a command as one frame in pieces: views of a log are not copied.

    >>> list(map(bytes, encode_frame_parts(Command(0, parts=(memoryview(b"record"),)))))[1]
    b'record'
    """
    header = encode_header(command)
    size = 4 + len(header) + len(command.body) + sum(map(len, command.parts))
    if size + 4 > limits.FRAME_BYTES or len(header) > limits.WRITTEN_HEADER_BYTES:
        raise _size_error(command.code, len(header), size + 4)
    start = _LENGTHS.pack(size, command.header_type << 24 | len(header))
    return [b"".join((start, header, command.body)), *command.parts]


def _size_error(code: int, header: int, frame: int) -> LimitExceeded:
    if header > limits.WRITTEN_HEADER_BYTES:
        return LimitExceeded("the header", where=f"request {code}", limit=limits.WRITTEN_HEADER_BYTES, found=header)
    return LimitExceeded("the frame", where=f"request {code}", limit=limits.FRAME_BYTES, found=frame)


def decode_single_frame(data: bytes) -> Command | None:
    """Decode bytes that are exactly one frame; None for anything else: use a `FrameDecoder`."""
    if len(data) < 8:
        return None
    length, mark = _LENGTHS.unpack_from(data)
    kind, body_start = _TYPES.get(mark >> 24), 8 + (mark & 0xFFFFFF)
    if length + 4 != len(data) or kind is None or body_start > min(len(data), limits.HEADER_BYTES + 8):
        return None
    return decode_command(kind, data[8:body_start], data[body_start:])


def decode_frame_at(buffer: memoryview, start: int, end: int) -> tuple[Command | None, int]:
    """Decode the frame that begins at ``start``; return its command and its end.

    The command is None if the frame is not complete: then its end is at least the one returned. Only the body is
    copied, once. A broken frame raises ProtocolError.
    """
    if end - start < 8:
        return None, start + 8
    length, mark = _LENGTHS.unpack_from(buffer, start)
    kind, header_bytes = _TYPES.get(mark >> 24), mark & 0xFFFFFF
    body_start, stop = start + 8 + header_bytes, start + 4 + length
    if kind is None or length > _MAX_LENGTH or header_bytes > limits.HEADER_BYTES or body_start > stop:
        raise _frame_error(bytes(buffer[start : start + 8]))
    if stop > end:
        return None, stop
    return decode_command(kind, bytes(buffer[start + 8 : body_start]), bytes(buffer[body_start:stop])), stop


class FrameDecoder:
    """Bytes in as they arrive, commands out; a partial frame is kept."""

    __slots__ = ("_chunks", "_consumed_bytes", "_error", "_needed_bytes", "buffered_bytes")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.buffered_bytes = 0
        """The number of bytes that are kept: of a partial frame, and of commands that were not consumed."""
        self._needed_bytes = 4
        self._consumed_bytes = 0
        self._error: ProtocolError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Command]:
        """Add bytes and yield each complete command; those that are not consumed come with the next call.

        Commands before a broken frame are yielded, then ProtocolError is raised: close the connection.
        """
        if self._error is not None:
            raise copy(self._error)
        if self._consumed_bytes:
            self._chunks = [self._chunks[0][self._consumed_bytes :]]
            self._consumed_bytes = self._needed_bytes = 0
        self._chunks.append(arrived := bytes(data))
        self.buffered_bytes += len(arrived)
        if self.buffered_bytes >= self._needed_bytes:
            return self._decode_commands()
        if len(self._chunks) * _CHUNK_COST_BYTES > self.buffered_bytes + _MAX_CHUNK_OVERHEAD_BYTES:
            self._chunks = [b"".join(self._chunks)]
        return iter(())

    def _decode_commands(self) -> Iterator[Command]:
        held = self._chunks = [b"".join(self._chunks)]
        arrived, start, end = held[0], self._consumed_bytes, len(held[0])
        try:
            while end - start >= 8:
                length, mark = _LENGTHS.unpack_from(arrived, start)
                kind, header_bytes = _TYPES.get(mark >> 24), mark & 0xFFFFFF
                body_start, stop = start + 8 + header_bytes, start + 4 + length
                if kind is None or length > _MAX_LENGTH or header_bytes > limits.HEADER_BYTES or body_start > stop:
                    raise _frame_error(arrived[start : start + 8])
                if stop > end:
                    self._needed_bytes = 4 + length
                    break
                command = decode_command(kind, arrived[start + 8 : body_start], arrived[body_start:stop])
                self._consumed_bytes = start = stop
                self.buffered_bytes = end - start
                yield command
                if self._chunks is not held:
                    return  # another call of feed took over
            else:
                self._needed_bytes = 8 if end - start >= 4 else 4
                if end - start >= 4 and not 4 <= _LENGTH.unpack_from(arrived, start)[0] <= _MAX_LENGTH:
                    raise _frame_error(arrived[start:])
        except ProtocolError as error:
            # A copy has no traceback, so it keeps no data and does not grow when it is raised again.
            self._error = copy(error)
            self._chunks, self.buffered_bytes, self._consumed_bytes = [], 0, 0
            raise
        self._chunks, self.buffered_bytes = [arrived[start:]] if start < end else [], end - start
        self._consumed_bytes = 0


def _frame_error(start: bytes) -> ProtocolError:
    """Make the error for the first bytes of a frame."""
    length, mark = int.from_bytes(start[:4], "big", signed=True), int.from_bytes(start[4:], "big")
    kind, header_bytes = mark >> 24, mark & 0xFFFFFF
    if length > _MAX_LENGTH:
        what = f"its length, read from {start[:4]!r},"
        return LimitExceeded(what, where="frame", limit=limits.FRAME_BYTES, found=length + 4, at=0)
    if length < 4:
        return MalformedFrame(f"its length is {length}, at least 4 are needed", where="frame", at=0)
    if kind not in _TYPES:
        return MalformedFrame(f"the header type is {kind}, known are 0 and 1", where="frame", at=4)
    if header_bytes > limits.HEADER_BYTES:
        return LimitExceeded("its header", where="frame", limit=limits.HEADER_BYTES, found=header_bytes, at=4)
    return MalformedFrame(f"its header has {header_bytes} bytes, the whole frame {length}", where="frame", at=4)
