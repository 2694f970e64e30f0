"""All messages of a directory, read from the log alone: no index is needed, no lock taken, nothing changed.

Messages come in the order of the log, which within a queue is the order of its offsets. Damaged places are stepped over
and told among the messages, as `Damage`. One file can be read by itself: of a log, or of a compacted topic of Apache's,
whose files are made alike.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.errors import MissingExtra, NotAStore, ProtocolError
from steelyard.model import StoredMessage
from steelyard.store.disk import Disk
from steelyard.store.log import Segment
from steelyard.store.sums import Sums, sums_path
from steelyard.store.verifying import open_to_look
from steelyard.store.walk import Damage, Found, Walk
from steelyard.wire.record import decode_record
from steelyard.wire.record_layout import IPV4_HEAD, SMALLEST_BYTES, V1_MAGIC, V2_MAGIC, peek_record
from steelyard.wire.stored import to_message, unwrap
from steelyard.wire.sysflag import WRAPPED

__all__ = ["contents", "file_contents"]

_IsWanted = Callable[[Found], bool]

_NAME_LETTERS = 20
_POSITION = 6
"""Which field of a record's head is its position."""
_LOOKED_AT = 1 << 16
"""A file that was made and never written begins with so many zeros at least."""


def contents(disk: Disk, is_wanted: _IsWanted) -> Iterator[StoredMessage | Damage]:
    """Yield every message that is wanted, opened, and every place that is damaged. Their broker has no name."""
    with open_to_look(disk) as segments:
        sums = {each.start: Sums(data) for each in segments if (data := disk.read(sums_path(each.start)))}
        yield from _walked(segments, Walk(segments, sums), is_wanted)


def file_contents(disk: Disk, name: str, is_wanted: _IsWanted) -> Iterator[StoredMessage | Damage]:
    """Yield the same of one file; `NotAStore` if there is something else in it."""
    file = disk.open(name)
    try:
        start = file.read(0, _LOOKED_AT)
        segment = _LooseFile(_start(name, start), file.size, file, memoryview(b""), name)
        walk = Walk([segment], {})
        yield from _walked([segment], walk, is_wanted)
        if walk.end == segment.start and (not start or any(start)):
            raise NotAStore(
                f"the file {name} holds no message", next_step="give one of a commit log, or of a compacted topic"
            )
    finally:
        file.close()


@dataclass(slots=True)
class _LooseFile(Segment):
    """A file that is read by itself."""

    name: str

    @property
    def path(self) -> str:
        """What it is called."""
        return self.name


def _start(name: str, data: bytes) -> int:
    """Return the position that a file begins at: its name says so, or else the first message in it."""
    if len(name) == _NAME_LETTERS and name.isascii() and name.isdigit():
        return int(name)
    found = peek_record(data)
    if found is None or found.magic not in (V1_MAGIC, V2_MAGIC) or len(data) < SMALLEST_BYTES:
        return 0
    position: int = IPV4_HEAD.layout.unpack_from(data)[_POSITION]
    return max(position, 0)


def _walked(segments: Sequence[Segment], walk: Walk, is_wanted: _IsWanted) -> Iterator[StoredMessage | Damage]:
    told, place = 0, 0
    for found in walk:
        yield from walk.damages[told:]
        told = len(walk.damages)
        while found.position >= segments[place].end:
            place += 1
        if is_wanted(found):
            segment = segments[place]
            try:
                record = decode_record(segment.file.read(found.position - segment.start, found.size), 0)
                yield from unwrap(record, "") if record.sys_flag & WRAPPED == WRAPPED else (to_message(record, ""),)
            except (ProtocolError, MissingExtra) as error:
                yield Damage(segment.path, found.position, found.size, 1, f"no message that can be read: {error.what}")
