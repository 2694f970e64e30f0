"""All messages of a directory, read from the log alone: no index is needed, no lock taken, nothing changed.

Messages come in the order of the log, which within a queue is the order of its offsets. Damaged places are stepped over
and told among the messages, as `Damage`.
"""

from collections.abc import Callable, Iterator

from steelyard.errors import MissingExtra, ProtocolError
from steelyard.model import StoredMessage
from steelyard.store.disk import Disk
from steelyard.store.sums import Sums, sums_path
from steelyard.store.verifying import open_to_look
from steelyard.store.walk import Damage, Found, Walk
from steelyard.wire.record import decode_record
from steelyard.wire.stored import to_message, unwrap
from steelyard.wire.sysflag import WRAPPED

__all__ = ["contents"]


def contents(disk: Disk, is_wanted: Callable[[Found], bool]) -> Iterator[StoredMessage | Damage]:
    """Yield every message that is wanted, opened, and every place that is damaged. Their broker has no name."""
    with open_to_look(disk) as segments:
        sums = {each.start: Sums(data) for each in segments if (data := disk.read(sums_path(each.start)))}
        walk = Walk(segments, sums)
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
                    yield Damage(
                        segment.path, found.position, found.size, 1, f"no message that can be read: {error.what}"
                    )
