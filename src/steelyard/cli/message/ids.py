"""What a message's id says by itself, without asking anybody.

An id of 32 or 56 digits is either the place of a message, that is a broker's address, its port and a position in its
log, or a key that a producer made, of its address, process and clock. Where a port would be, a key has its process, of
which the upper half is zero for a port alone: that tells them apart as good as always. 34 digits are a gRPC client's.
"""

from datetime import UTC, datetime

from steelyard.cli.frame.output import Out
from steelyard.cli.frame.where import at_cluster
from steelyard.cli.message.looking import MessageId
from steelyard.cli.message.places import checked_id

__all__ = ["explain_id"]


@at_cluster
def explain_id(out: Out, message_id: MessageId) -> None:
    """Tell what a message's id says: where the message lies, or who made the id, and when."""
    from steelyard.wire.message_ids import read_card_key, read_offset_id, read_unique_key

    text = checked_id(message_id)
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    if len(text) == 34:
        card = read_card_key(text)
        out.one(
            {
                "id": text,
                "kind": "key of a gRPC client",
                "network_card": card.card,
                "process": card.pid,
                "made_at": _moment(card.made_ms),
                "counter": card.counter,
            }
        )
        return
    key = read_unique_key(text, now_ms=now_ms)
    if key.pid == 0:
        host, position = read_offset_id(text)
        address, _, port = host.rpartition(":")
        out.one({"id": text, "kind": "place", "address": address.strip("[]"), "port": int(port), "position": position})
        return
    out.one(
        {
            "id": text,
            "kind": "key of a producer",
            "address": key.address,
            "process": key.pid,
            "process_hash": f"{key.process:08X}",
            # The month is not in it: this is the last time that fits, on a clock without a time zone.
            "made_at": _moment(key.made_ms),
            "counter": key.counter,
        }
    )


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
