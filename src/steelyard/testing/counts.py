"""A number that knows what was counted: compared in a failing assert, it says what happened instead.

    assert mq.handled("orders", group="billing") == 2

It is an int in everything else. The words are put together when somebody asks for them, from what was seen when the
number was made.
"""

from typing import Self

from steelyard.testing.look import Look
from steelyard.testing.telling import tell

__all__ = ["Count"]


class Count(int):
    """How many messages a group has handled."""

    look: Look

    @classmethod
    def of(cls, look: Look) -> Self:
        """Count what a group has handled."""
        count = cls(look.handled)
        count.look = look
        return count

    def explain(self) -> list[str]:
        """Return what was seen, as lines."""
        return tell(self.look)
