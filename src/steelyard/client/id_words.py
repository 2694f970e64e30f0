"""What a message's id says by itself, without asking anybody.

An id of 32 or 56 digits is either the place of a message, that is a broker's address, its port and a position in its
log, or a key that a producer made, of its address, process and clock. Where a key has its process, a place has the
upper half of a port, which is zero: that tells them apart as good as always. 34 digits are a key of a gRPC client's.
"""

from datetime import datetime

from steelyard.client.admin.times import moment
from steelyard.wire.message_ids import read_card_key, read_offset_id, read_unique_key

__all__ = ["explain_id"]

_CARD_KEY_LETTERS = 34


def explain_id(message_id: str, now: datetime) -> dict[str, object]:
    """Return what an id says, by name; `MalformedRecord` if it is none.

    >>> explain_id("C0A8010200002A9F0000000000000400", datetime(2026, 11, 1))["port"]
    10911
    """
    if len(message_id) == _CARD_KEY_LETTERS:
        card = read_card_key(message_id)
        return {
            "id": message_id,
            "kind": "key of a gRPC client",
            "network_card": card.card,
            "process": card.pid,
            "made_at": moment(card.made_ms),
            "counter": card.counter,
        }
    key = read_unique_key(message_id, now_ms=int(now.timestamp() * 1000))
    if key.pid == 0:
        host, position = read_offset_id(message_id)
        address, _, port = host.rpartition(":")
        return {
            "id": message_id,
            "kind": "place",
            "address": address.strip("[]"),
            "port": int(port),
            "position": position,
        }
    return {
        "id": message_id,
        "kind": "key of a producer",
        "address": key.address,
        "process": key.pid,
        "process_hash": f"{key.process:08X}",
        # The month is not in it: this is the last time that fits, on a clock without a time zone.
        "made_at": moment(key.made_ms),
        "counter": key.counter,
    }
