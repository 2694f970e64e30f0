"""How much comes and goes: counters that cost next to nothing, sampled now and then."""

__all__ = ["Rates"]


class Rates:
    """Counters of a broker, its topics and its groups."""

    def sent(self, topic: str, messages: int, size: int) -> None:
        """Count messages that came in."""

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that went out."""
