"""Where `steelyard consume` prints: whole messages, from any thread; it counts, and knows its end.

What was taken together is written together, and is with the reader before anything more is read: a message that comes
alone is seen at once, and a thousand that come together cost one write. So nothing that is printed waits here, and a
member that says it is done with a message has given it away.
"""

import errno
import os
import select
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO

from steelyard.cli.frame.ending import Ending
from steelyard.cli.frame.print_message import as_json_line, as_line
from steelyard.cli.frame.screen import visible_json
from steelyard.cli.message.formats import Format, read_format
from steelyard.model import StoredMessage

__all__ = ["Printer", "printed_as"]

_PIECE_BYTES = 1 << 18
"""So much is written at a time: messages may be large."""


def printed_as(pattern: str | None, *, as_json: bool = False) -> Format:
    """Return how messages are printed: by a pattern, as lines of JSON, or as a line for people."""
    if pattern is not None:
        return read_format(pattern, for_terminal=sys.stdout.isatty())
    if as_json:
        seen = visible_json if sys.stdout.isatty() else str
        return lambda message: f"{seen(as_json_line(message))}\n".encode()
    encoding = sys.stdout.encoding or "utf-8"
    return lambda message: f"{as_line(message)}\n".encode(encoding, "backslashreplace")


class Printer:
    """Prints messages until there are enough of them, or nobody reads them any more."""

    def __init__(self, ending: Ending, write: Format, *, count: int | None, work_ms: int) -> None:
        sys.stdout.flush()
        self._out: IO[bytes] = sys.stdout.buffer
        self._write = write
        self._ending, self._left, self._work_s = ending, count, work_ms / 1000
        self._lock = threading.Lock()

    @property
    def wants_more(self) -> bool:
        """Whether messages are still printed."""
        return self._left != 0 and self._ending.error is None

    def at_once(self, most: int) -> int:
        """Return how many messages to take next: no more than are wanted, and one if each takes its time."""
        return 1 if self._work_s else most if not self._left else min(most, self._left)

    def take(self, messages: Sequence[StoredMessage]) -> bool:
        """Print messages, each after the time that work on it is to take; False if not all of them were wanted."""
        if not self._work_s:
            return self._print(messages)
        for message in messages:
            time.sleep(self._work_s)
            if not self._print((message,)):
                return False
        return True

    def _print(self, messages: Sequence[StoredMessage]) -> bool:
        with self._lock:
            wanted = messages if self._left is None else messages[: self._left]
            if not self.wants_more:
                return False
            try:
                for piece in _pieces(map(self._write, wanted)):
                    self._out.write(piece)
                    self._out.flush()
            except OSError as error:
                self._ending.now(error)
                return False
            if self._left is not None:
                self._left -= len(wanted)
                if not self._left:
                    self._ending.now()
            return len(wanted) == len(messages)

    def look_for_reader(self) -> None:
        """End it if nobody is at the other end of the pipe: there may be no more messages by which to notice that."""
        with suppress(OSError):  # what is no file has no other end
            look = select.poll()
            look.register(self._out.fileno(), 0)
            if any(event & select.POLLERR for _, event in look.poll(0)):
                self._ending.now(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= _PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
