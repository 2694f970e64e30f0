"""Pulls that found nothing and wait: by queue, with the time at which they are answered anyway."""

__all__ = ["Parking"]


class Parking:
    """The pulls that wait."""

    def arrived(self, topic: bytes, queue_id: int) -> None:
        """Take note that a message was added to a queue; cheap, since every send calls it."""
