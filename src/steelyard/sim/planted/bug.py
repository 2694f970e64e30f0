"""What a planted bug is: a name, a sentence, and the parts of the program that it replaces while it is in.

The program itself knows nothing of this and has no switches. A bug replaces a function of a module or a method of a
class by a wrong one, for as long as `planted` lasts, and everything made meanwhile behaves as if the mistake had been
written there. Each is a mistake that was made once: by us, by an upstream project, or by the first design.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Bug", "Swap", "planted", "swap"]


@dataclass(frozen=True, slots=True)
class Swap:
    """One attribute of a module or class, and what takes its place, made from what was there."""

    owner: object
    attribute: str
    wrong: Callable[[object], object]


def swap(owner: object, attribute: str, wrong: object) -> Swap:
    """Say that a wrong thing takes the place of whatever is there."""
    return Swap(owner, attribute, lambda _: wrong)


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake that can be put back."""

    name: str
    sentence: str
    """What goes wrong, in plain words."""
    kinds: tuple[str, ...]
    """The kinds of histories in which it can show."""
    swaps: tuple[Swap, ...]

    def kind_of(self, seed: int) -> str:
        """Return of which kind the history of a seed is while this bug is hunted: its kinds take turns.

        >>> bug = Bug("deaf", "Nobody is heard.", ("churn", "crash"), ())
        >>> [bug.kind_of(seed) for seed in range(3)]
        ['churn', 'crash', 'churn']
        """
        return self.kinds[seed % len(self.kinds)]


@contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """Put a bug in for a while; None puts in nothing."""
    before: list[tuple[Swap, object]] = []
    try:
        for swap in bug.swaps if bug is not None else ():
            # As the class has it: a static or class method must go back as it was.
            found = vars(swap.owner)[swap.attribute]
            before.append((swap, found))
            setattr(swap.owner, swap.attribute, swap.wrong(found))
        yield
    finally:
        for swap, found in reversed(before):
            setattr(swap.owner, swap.attribute, found)
