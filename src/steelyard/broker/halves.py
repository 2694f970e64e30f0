"""Half messages: sent, and not yet committed or rolled back."""

__all__ = ["Halves"]


class Halves:
    """Which half messages are open."""

    def check_room(self) -> None:
        """Refuse one more."""
