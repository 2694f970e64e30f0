"""What a member holds, gives up and waits for, and knows of others, at one moment: its answer to whoever asks (307)."""

from collections.abc import Mapping

from msgspec import Struct

from steelyard.model import Queue

__all__ = ["Holdings"]


class Holdings(Struct, frozen=True):
    """One member's queues, each list in order."""

    held: tuple[Queue, ...] = ()
    """From STARTING to COMMITTING: nobody else may start with them."""
    draining: tuple[Queue, ...] = ()
    """Those of them that are being given up."""
    wanted: tuple[Queue, ...] = ()
    """Being taken: their locks are held, and the others are asked."""
    departed: Mapping[str, int] = {}
    """Ids that are missed, with the milliseconds since they were seen last."""
    unheard: Mapping[str, tuple[Queue, ...]] = {}
    """Members that do not answer us, with what they held when they last did."""
    may_hold: Mapping[str, tuple[Queue, ...]] = {}
    """Of the queues that the question names, those that each other member may hold; left out is who is not known."""
    stopped: tuple[str, ...] = ()
    """Queues that stand still since a message of theirs cannot be read, and why, in sentences."""
