"""Which queue a message goes to by its key, its room or by chance: selectors, by name or of one's own.

A selector is a callable ``(queues, message, argument) -> queue``. It sees the full list, and the queue it returns is
used as it is: no other broker is tried, because another queue would break the order that the caller wants. The hashes
are those of other clients, so that one key has one queue whoever sends. Where no argument is given, the message's first
key counts.

Java's machine room selector is an empty stub; ours prefers the queues of the rooms it is given, and takes turns.

Left out: chance. The random selector asks a function that is handed in.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeAlias

from steelyard.balance.allocate.ring import md5_point
from steelyard.balance.key_hashes import fnv1a, sha256_number, siphash24
from steelyard.errors import ConfigurationError, SelectorFailed, SteelyardError
from steelyard.model import Message, Queue, java_hash

__all__ = ["SELECTORS", "ByKey", "ByRandom", "ByRoom", "ByTurn", "Selector", "select", "selector"]

Selector: TypeAlias = Callable[[Sequence[Queue], Message, object], Queue | None]
"""``(queues, message, argument) -> queue``; None, or anything else that is no queue of the list, is an error."""


def select(chooses: Selector, queues: Sequence[Queue], message: Message, argument: object = None) -> Queue:
    """Ask a selector, and look at the answer of a foreign one before anything is done with it.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> str(select(ByKey("hash", java_hash), queues, Message("orders", b"{}"), "order-1"))
    'orders@broker-a:2'
    """
    if isinstance(chooses, ByKey | ByRandom | ByTurn | ByRoom):
        return chooses(queues, message, argument)
    try:
        chosen = chooses(tuple(queues), message, argument)
        is_listed = chosen in queues
    except SteelyardError:
        raise
    except Exception as error:
        raise _failed(chooses, message, f"raised {error!r}", "mend the callable") from error
    if chosen is None or not is_listed:
        said = "named no queue" if chosen is None else f"named {chosen}, which was not on offer"
        raise _failed(chooses, message, said, "return one of the queues that the callable was given")
    return chosen


def _failed(chooses: Selector, message: Message, what: str, next_step: str) -> SelectorFailed:
    name = getattr(chooses, "name", None) or getattr(chooses, "__name__", None) or type(chooses).__name__
    return SelectorFailed(f"the selector {name!r} {what} for a message to {message.topic!r}", next_step=next_step)


@dataclass(frozen=True, slots=True)
class ByKey:
    """The same key, the same queue, as long as the list does not change."""

    name: str
    number: Callable[[str], int]
    """The hash. Where it has a sign, ``is_absolute`` says how the sign is lost."""
    is_absolute: bool = True
    """Java drops the sign of the remainder; the gRPC clients take the remainder that is never negative."""

    def __call__(self, queues: Sequence[Queue], message: Message, argument: object) -> Queue:
        value = _number(self.number, _key_of(message, argument, self.name))
        return queues[(abs(value) if self.is_absolute else value) % len(queues)]


def _key_of(message: Message, argument: object, name: str) -> str | int:
    key = argument if argument is not None else next(iter(message.keys), None)
    if isinstance(key, str | int):
        return key
    what = "has no key" if key is None else f"has a {type(key).__name__} as its key"
    raise SelectorFailed(
        f"a message to {message.topic!r} {what}, and the selector {name!r} needs one",
        next_step="give a text or a whole number as the selector's argument, or a key to the message",
    )


def _number(hashed: Callable[[str], int], key: str | int) -> int:
    if isinstance(key, str) or hashed is not java_hash:
        return hashed(str(key))
    if isinstance(key, bool):
        return 1231 if key else 1237  # Boolean.hashCode
    # Integer.hashCode is the number itself, Long.hashCode both its halves laid over each other.
    folded = key if -(1 << 31) <= key < 1 << 31 else (key ^ (key & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >> 31 == 1 else folded


@dataclass(frozen=True, slots=True)
class ByRandom:
    """Any queue, by a number that the caller draws."""

    draw: Callable[[], int]
    name: str = "random"

    def __call__(self, queues: Sequence[Queue], _message: Message, _argument: object) -> Queue:
        return queues[self.draw() % len(queues)]


@dataclass(frozen=True, slots=True)
class ByTurn:
    """One queue after the other, for each topic by itself."""

    start: int = 0
    name: str = "round-robin"
    _turns: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int), repr=False, compare=False)

    def __call__(self, queues: Sequence[Queue], message: Message, _argument: object) -> Queue:
        turn = self._turns[message.topic]
        self._turns[message.topic] = turn + 1
        return queues[(self.start + turn) % len(queues)]


@dataclass(frozen=True, slots=True)
class ByRoom:
    """In turns, the queues whose brokers (``room@name``) stand in one of the rooms; all, where there is none.

    >>> queues = [Queue("orders", broker, 0) for broker in ("east@a", "west@b", "west@c")]
    >>> near = ByRoom(frozenset({"west"}))
    >>> [near(queues, Message("orders", b"{}"), None).broker for _ in range(3)]
    ['west@b', 'west@c', 'west@b']
    """

    rooms: Collection[str]
    name: str = "machine-room"
    _turns: ByTurn = field(default_factory=ByTurn, repr=False, compare=False)

    def __call__(self, queues: Sequence[Queue], message: Message, argument: object) -> Queue:
        near = [queue for queue in queues if "@" in queue.broker and queue.broker.split("@")[0] in self.rooms]
        return self._turns(near or queues, message, argument)


_KEYED = {
    "hash": ByKey("hash", java_hash),
    "fnv1a": ByKey("fnv1a", fnv1a),
    "md5": ByKey("md5", md5_point),
    "sha256": ByKey("sha256", sha256_number),
    "siphash24": ByKey("siphash24", siphash24, is_absolute=False),
}

SELECTORS = (*_KEYED, "random", "machine-room", "round-robin")
"""The names that `selector` knows."""


def selector(
    name: str, *, draw: Callable[[], int] | None = None, rooms: Collection[str] = (), start: int = 0
) -> Selector:
    """Make the selector of that name: ``random`` needs a function to draw with, ``machine-room`` the rooms.

    >>> selector("fnv1a").name, selector("Round_Robin").name
    ('fnv1a', 'round-robin')
    """
    plain = name.strip().casefold().replace("_", "-")
    if plain in _KEYED:
        return _KEYED[plain]
    if plain == "round-robin":
        return ByTurn(start)
    if plain == "random" and draw is not None:
        return ByRandom(draw)
    if plain == "machine-room" and rooms:
        return ByRoom(frozenset(rooms))
    if plain in SELECTORS:
        needs = "a function to draw numbers with" if plain == "random" else "rooms"
        raise ConfigurationError(f"the selector {plain!r} needs {needs}", next_step=f"give {needs}")
    close = get_close_matches(plain, SELECTORS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigurationError(f"no selector is called {name!r}", next_step=f"{hint}known: {', '.join(SELECTORS)}")
