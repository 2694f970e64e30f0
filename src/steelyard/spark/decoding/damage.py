"""Which record of which queue is damaged: the second, slow look once it is known that one is."""

from typing import TYPE_CHECKING

from steelyard.errors import MalformedRecord, ProtocolError
from steelyard.wire.record import read_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client.bulk.reading import Piece
    from steelyard.model import Queue

__all__ = ["damage_among", "damage_at"]

_NEXT_STEP = "the broker gave bytes that no consumer can read: look at the message there, or read from behind it"


def damage_at(queue: "Queue", offset: int, error: ProtocolError) -> MalformedRecord:
    """Make the error for a message that cannot be read."""
    return MalformedRecord(str(error), where=f"{queue}, offset {offset}", next_step=_NEXT_STEP)


def damage_among(pieces: "Sequence[Piece]") -> MalformedRecord:
    """Make the error for the first damaged record of some pieces."""
    for piece in pieces:
        offset = piece.start
        try:
            for record in read_records(piece.records):
                offset = record.offset + 1
        except MalformedRecord as error:
            return damage_at(piece.queue, offset, error)
    return MalformedRecord("no record is damaged, and yet they could not be read", where="records")
