"""Messages that wait for their time: in Apache's topic of delays, until they are copied to where they belong.

Levels are as `DELAY_LEVELS_MS` has them. What waits survives a restart, and so does what was delivered: Apache may
deliver again what it delivered in the last ten seconds before it was killed, which is not modelled.
"""

from heapq import heappop, heappush

from steelyard.sim.apache.log import Entry, Log, Place
from steelyard.store.marks import DELAY_LEVELS_MS, SCHEDULE_TOPIC
from steelyard.wire.properties import encode_properties, parse_properties
from steelyard.wire.property_names import DELAY_LEVEL, REAL_QUEUE_ID, REAL_TOPIC

__all__ = ["Delays"]

_TOPIC = SCHEDULE_TOPIC.decode()


class Delays:
    """What waits, by when it is due on the broker's clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    @property
    def next_ms(self) -> int | None:
        """When the next message is due; None if none waits."""
        return self._heap[0][0] if self._heap else None

    def place(self, properties: dict[str, str], place: Place) -> Place:
        """Return where a message waits if it says a level, with its real place added to its properties."""
        text = properties.get(DELAY_LEVEL, "0")
        level = int(text) if text.isdecimal() else 0
        if level <= 0:
            return place
        level = min(level, len(DELAY_LEVELS_MS))
        properties.update({DELAY_LEVEL: str(level), REAL_TOPIC: place[0], REAL_QUEUE_ID: str(place[1])})
        return _TOPIC, level - 1

    def stored(self, entry: Entry, now_ms: int) -> bool:
        """Take note of a message that was stored; say whether it is one that waits."""
        topic, queue_id = entry.place
        if topic != _TOPIC:
            return False
        heappush(self._heap, (now_ms + DELAY_LEVELS_MS[queue_id], entry.position))
        return True

    def deliver(self, log: Log, now_ms: int) -> list[Entry]:
        """Copy what is due to where it belongs, and return the copies."""
        delivered = []
        while self._heap and self._heap[0][0] <= now_ms:
            entry = log.at(heappop(self._heap)[1])
            if entry is not None:
                record = entry.record()
                properties = parse_properties(record.properties)
                place = properties[REAL_TOPIC], int(properties[REAL_QUEUE_ID])
                # The level stays with the copy, as Apache leaves it: it has a meaning only when it is sent.
                delivered.append(log.copy(record, place, encode_properties(properties), now_ms))
        return delivered
