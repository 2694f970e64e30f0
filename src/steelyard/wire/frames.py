"""Frames: how commands follow each other on a line.

A frame is four bytes of length, one byte of header type, three bytes of header length, the header, the body. There is
no mark to find the next frame by: once one is broken the line is lost, so a splitter that has raised once raises again.
"""

from collections.abc import Iterator
from copy import copy
from struct import Struct as Layout

from steelyard.errors import LimitExceeded, MalformedFrame, ProtocolError
from steelyard.wire import limits
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command, decode_command, encode_header

__all__ = ["Splitter", "command_at", "encode_frame", "encode_parts", "only_command"]

_LENGTHS = Layout(">ii")
_LENGTH = Layout(">i")
_MOST = limits.FRAME_BYTES - 4
_TYPES = {kind.value: kind for kind in HeaderType}
# A piece on a list costs about as much as this many bytes: with more pieces than that, they are joined.
_PIECE_BYTES = 64
# What pieces may cost beyond the bytes that they hold, and that are counted, before they are joined.
_LOOSE_BYTES = 65_536


def encode_frame(command: Command) -> bytes:
    """Write a command as one frame.

    >>> encode_frame(Command(34, opaque=1)).hex(" ", 4)[:17]
    '00000054 00000050'
    """
    header = encode_header(command)
    size = 4 + len(header) + len(command.body)
    if command.parts:
        size += sum(map(len, command.parts))
    if size + 4 > limits.FRAME_BYTES or len(header) > limits.WRITTEN_HEADER_BYTES:
        raise _too_large(command.code, len(header), size + 4)
    start = _LENGTHS.pack(size, command.header_type << 24 | len(header))
    return b"".join((start, header, command.body, *command.parts))


def encode_parts(command: Command) -> list[bytes | memoryview]:
    """Write a command as one frame in pieces: what comes of a log is not copied.

    >>> list(map(bytes, encode_parts(Command(0, parts=(memoryview(b"record"),)))))[1]
    b'record'
    """
    header = encode_header(command)
    size = 4 + len(header) + len(command.body) + sum(map(len, command.parts))
    if size + 4 > limits.FRAME_BYTES or len(header) > limits.WRITTEN_HEADER_BYTES:
        raise _too_large(command.code, len(header), size + 4)
    start = _LENGTHS.pack(size, command.header_type << 24 | len(header))
    return [b"".join((start, header, command.body)), *command.parts]


def _too_large(code: int, header: int, frame: int) -> LimitExceeded:
    if header > limits.WRITTEN_HEADER_BYTES:
        return LimitExceeded("the header", where=f"request {code}", limit=limits.WRITTEN_HEADER_BYTES, found=header)
    return LimitExceeded("the frame", where=f"request {code}", limit=limits.FRAME_BYTES, found=frame)


def only_command(data: bytes) -> Command | None:
    """Return the command of bytes that are one whole frame; None where they are anything else: use a `Splitter`.

    >>> frame = encode_frame(Command(34, opaque=1))
    >>> only_command(frame).code, only_command(frame[:-1]), only_command(frame + frame)
    (34, None, None)
    """
    if len(data) < 8:
        return None
    length, mark = _LENGTHS.unpack_from(data)
    kind, body_start = _TYPES.get(mark >> 24), 8 + (mark & 0xFFFFFF)
    if length + 4 != len(data) or kind is None or body_start > min(len(data), limits.HEADER_BYTES + 8):
        return None
    return decode_command(kind, data[8:body_start], data[body_start:])


def command_at(held: memoryview, start: int, end: int) -> tuple[Command | None, int]:
    """Return the command whose frame begins at a place of a buffer, and where the frame ends.

    Without the command if the bytes up to ``end`` are not all of it: then the place says how far it reaches at least.
    Only the body is copied, once. A broken frame raises ProtocolError.

    >>> frame = memoryview(encode_frame(Command(34, opaque=1)))
    >>> command_at(frame, 0, 7), command_at(frame, 0, 50), command_at(frame, 0, len(frame))[0].code
    ((None, 8), (None, 88), 34)
    """
    if end - start < 8:
        return None, start + 8
    length, mark = _LENGTHS.unpack_from(held, start)
    kind, header_bytes = _TYPES.get(mark >> 24), mark & 0xFFFFFF
    body_start, stop = start + 8 + header_bytes, start + 4 + length
    if kind is None or length > _MOST or header_bytes > limits.HEADER_BYTES or body_start > stop:
        raise _broken(bytes(held[start : start + 8]))
    if stop > end:
        return None, stop
    return decode_command(kind, bytes(held[start + 8 : body_start]), bytes(held[body_start:stop])), stop


class Splitter:
    """Bytes in as they arrive, commands out; half a frame stays inside.

    >>> splitter = Splitter()
    >>> frame = encode_frame(Command(34, opaque=1)) + encode_frame(Command(35, opaque=2))
    >>> [command.code for command in splitter.feed(frame[:90])], [command.code for command in splitter.feed(frame[90:])]
    ([34], [35])
    """

    __slots__ = ("_broken", "_held", "_held_bytes", "_needed", "_taken")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed = 4
        self._taken = 0
        self._broken: ProtocolError | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes are kept: of a frame that is not whole, and of commands that nobody took."""
        return self._held_bytes - self._taken

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Command]:
        """Take what arrived and yield each command it completes; those that nobody took come with the next call.

        Commands before a broken frame are yielded, then ProtocolError is raised: close the line.
        """
        if self._broken is not None:
            raise copy(self._broken)
        if self._taken:
            self._held, self._held_bytes = [self._held[0][self._taken :]], self._held_bytes - self._taken
            self._taken = self._needed = 0
        self._held.append(arrived := bytes(data))
        self._held_bytes += len(arrived)
        if self._held_bytes >= self._needed:
            return self._commands()
        if len(self._held) * _PIECE_BYTES > self._held_bytes + _LOOSE_BYTES:
            self._held = [b"".join(self._held)]
        return iter(())

    def _commands(self) -> Iterator[Command]:
        held = self._held = [b"".join(self._held)]
        arrived, start, end = held[0], self._taken, self._held_bytes
        try:
            while end - start >= 8:
                length, mark = _LENGTHS.unpack_from(arrived, start)
                kind, header_bytes = _TYPES.get(mark >> 24), mark & 0xFFFFFF
                body_start, stop = start + 8 + header_bytes, start + 4 + length
                if kind is None or length > _MOST or header_bytes > limits.HEADER_BYTES or body_start > stop:
                    raise _broken(arrived[start : start + 8])
                if stop > end:
                    self._needed = 4 + length
                    break
                command = decode_command(kind, arrived[start + 8 : body_start], arrived[body_start:stop])
                self._taken = start = stop
                yield command
                if self._held is not held:
                    return  # somebody else went on from here: another call, or what it returned
            else:
                self._needed = 8 if end - start >= 4 else 4
                if end - start >= 4 and not 4 <= _LENGTH.unpack_from(arrived, start)[0] <= _MOST:
                    raise _broken(arrived[start:])
        except ProtocolError as error:
            # A copy has no traceback: nothing of what was read is kept, and nothing grows when it is raised again.
            self._broken = copy(error)
            self._held, self._held_bytes, self._taken = [], 0, 0
            raise
        self._held, self._held_bytes, self._taken = [arrived[start:]] if start < end else [], end - start, 0


def _broken(start: bytes) -> ProtocolError:
    """Say what is wrong with a frame's first bytes."""
    length, mark = int.from_bytes(start[:4], "big", signed=True), int.from_bytes(start[4:], "big")
    kind, header_bytes = mark >> 24, mark & 0xFFFFFF
    if length > _MOST:
        what = f"its length, read from {start[:4]!r},"
        return LimitExceeded(what, where="frame", limit=limits.FRAME_BYTES, found=length + 4, at=0)
    if length < 4:
        return MalformedFrame(f"its length is {length}, at least 4 are needed", where="frame", at=0)
    if kind not in _TYPES:
        return MalformedFrame(f"the header type is {kind}, known are 0 and 1", where="frame", at=4)
    if header_bytes > limits.HEADER_BYTES:
        return LimitExceeded("its header", where="frame", limit=limits.HEADER_BYTES, found=header_bytes, at=4)
    return MalformedFrame(f"its header has {header_bytes} bytes, the whole frame {length}", where="frame", at=4)
