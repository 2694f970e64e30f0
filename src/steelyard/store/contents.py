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
from steelyard.wire.stored import to_message, unwrap
from steelyard.wire.sysflag import WRAPPED

__all__ = ["contents", "file_contents"]

_IsWanted = Callable[[Found], bool]

_NAME_LETTERS = 20
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
        view = file.view()
        segment = _LooseFile(_start(name, view), len(view), file, view, name)
        walk = Walk([segment], {})
        yield from _walked([segment], walk, is_wanted)
        if walk.end == segment.start and (not len(view) or any(view[:_LOOKED_AT])):
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


def _start(name: str, view: memoryview) -> int:
    """Return the position that a file begins at: its name says so, or else the first message in it."""
    if len(name) == _NAME_LETTERS and name.isascii() and name.isdigit():
        return int(name)
    try:
        return decode_record(view, 0).position
    except ProtocolError:
        return 0


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
                record = decode_record(segment.view, found.position - segment.start)
                yield from unwrap(record, "") if record.sys_flag & WRAPPED == WRAPPED else (to_message(record, ""),)
            except (ProtocolError, MissingExtra) as error:
                yield Damage(segment.path, found.position, found.size, 1, f"no message that can be read: {error.what}")
