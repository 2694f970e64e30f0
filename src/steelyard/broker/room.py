"""How much a table may hold: it is saved as one document, which has to be read back whole.

A table that cannot be saved is a table that is lost with the process, and whoever fills it need not be the one who
loses something. So each entry is weighed when it comes in, and the one that does not fit any more is refused.
"""

from steelyard.broker.refusals import refusal
from steelyard.wire.bodies import encode_body
from steelyard.wire.codes import ResponseCode
from steelyard.wire.limits import FRAME_BYTES, JSON_MARKS

__all__ = ["Room"]

_MOST_BYTES = FRAME_BYTES - 64 * 1024
# Quotes, a colon and a comma around the name under which an entry is saved.
_AROUND_BYTES = 4
# Who reads the document counts its brackets, commas and colons as well as its bytes.
_MARKS = (b"{", b"}", b"[", b"]", b",", b":")
_MARK_BYTES = -(-FRAME_BYTES // JSON_MARKS)


class Room:
    """Knows how long the saved document of one table is.

    >>> room = Room("topics")
    >>> room.take("a", {"perm": 6}); room.take("a", {}); room.give_back("a"); room.bytes
    0
    """

    def __init__(self, what: str, most_bytes: int = _MOST_BYTES) -> None:
        self._what, self._most_bytes = what, most_bytes
        self._sizes: dict[str, int] = {}
        self.bytes = 0
        """What all entries take."""

    def take(self, name: str, settings: object, *, is_saved: bool = False) -> None:
        """Count an entry in the place of what had its name; one that does not fit is refused, unless it is saved."""
        text = encode_body(settings)
        size = max(len(text), sum(map(text.count, _MARKS)) * _MARK_BYTES) + len(name) + _AROUND_BYTES
        after = self.bytes + size - self._sizes.get(name, 0)
        if after > self._most_bytes and not is_saved:
            raise refusal(
                ResponseCode.SYSTEM_ERROR,
                f"the {self._what} of this broker take {self.bytes} bytes, with {name[:255]} it would be {after} and "
                f"at most {self._most_bytes} can be saved: delete some, or say less",
            )
        self._sizes[name], self.bytes = size, after

    def give_back(self, name: str) -> None:
        """Count an entry no more."""
        self.bytes -= self._sizes.pop(name, 0)
