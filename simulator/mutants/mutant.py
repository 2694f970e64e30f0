"""What a mutant is: a name, a sentence, and the attributes of the program that it replaces while it is active.

The program itself knows nothing of this and has no switches. A mutant replaces a function of a module or a method of a
class, as long as `mutated` lasts; everything created meanwhile has the bug. Each bug was made once: by us, by an
upstream project, or by the first design.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from steelyard.balance.group import queue_transitions
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions, Transition


@dataclass(frozen=True, slots=True)
class AttributePatch:
    """One attribute of a module or class, and how its replacement is made from the original."""

    owner: object
    attribute: str
    make_replacement: Callable[[object], object]


def patch_attribute(owner: object, attribute: str, replacement: object) -> AttributePatch:
    """Replace an attribute."""
    return AttributePatch(owner, attribute, lambda _: replacement)


_Rows = Mapping[tuple[QueueState, QueueEvent], Transition]
_Function = Callable[[QueueTransitions, ProcessQueue, Any], None]


def patch_rows(changed: _Rows) -> AttributePatch:
    """Replace rows of the transition table."""
    return _patch_table(lambda rows: {**rows, **changed})


def patch_transition(right: _Function, wrong: _Function) -> tuple[AttributePatch, AttributePatch]:
    """Replace a function in every row of the transition table, and as a method for direct calls."""

    def replaced(rows: _Rows) -> _Rows:
        return {pair: row._replace(apply=wrong) if row.apply is right else row for pair, row in rows.items()}

    return _patch_table(replaced), patch_attribute(QueueTransitions, right.__name__, wrong)


def _patch_table(change: Callable[[_Rows], _Rows]) -> AttributePatch:
    return AttributePatch(queue_transitions, "TRANSITIONS", lambda _: change(queue_transitions.TRANSITIONS))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that can be put back."""

    name: str
    sentence: str
    """What goes wrong."""
    kinds: tuple[str, ...]
    """The kinds of histories in which it can show; seeds take turns."""
    patches: tuple[AttributePatch, ...]

    def kind_of(self, seed: int) -> str:
        """Return the kind of history that a seed gives in the hunt for this mutant.

        >>> mutant = Mutant("deaf", "Requests are ignored.", ("churn", "crash"), ())
        >>> [mutant.kind_of(seed) for seed in range(3)]
        ['churn', 'crash', 'churn']
        """
        return self.kinds[seed % len(self.kinds)]


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[None]:
    """Activate a mutant for a while; None does nothing."""
    before: list[tuple[AttributePatch, object]] = []
    try:
        for swap in mutant.patches if mutant is not None else ():
            # From vars(), because a static or class method must be restored as it was.
            found = vars(swap.owner)[swap.attribute]
            before.append((swap, found))
            setattr(swap.owner, swap.attribute, swap.make_replacement(found))
        yield
    finally:
        for swap, found in reversed(before):
            setattr(swap.owner, swap.attribute, found)
