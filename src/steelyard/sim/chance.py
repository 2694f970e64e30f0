"""The only chance in a simulated world: drawn from a seed that is given, the same in every process.

A text as a seed is digested by Python itself, so it does not depend on how a process hashes texts.
"""

from random import Random

__all__ = ["Chance"]


class Chance(Random):
    """Numbers that a seed decides.

    >>> Chance("churn-7").randrange(1000) == Chance("churn-7").randrange(1000)
    True
    """

    def __init__(self, seed: str | int) -> None:
        super().__init__(seed)

    def percent(self, share: int) -> bool:
        """Say yes so many times of a hundred."""
        return self.randrange(100) < share
