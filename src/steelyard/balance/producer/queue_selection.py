"""Queue selection: the queue that a message is sent to, in turns or by a `MessageQueueSelector`.

A `QueueRotation` has a counter that starts where it is told (at random, so that a thousand producers do not begin with
the same queue) and never wraps, so k times N sends put exactly k on each of N queues. A queue is skipped if its broker
failed in this send, is avoided, or is coming back and has no turn yet. If none is left, the least bad broker is taken,
or without latency tracking the next queue: a send is never refused because of a guess.

A selector is a callable ``(queues, message, argument) -> queue``. It gets the full list, and no other broker is tried
than that of the queue it returns, because another queue would break the order that the caller wants.

Left out: how often to try (send_attempts.py), and randomness, which the caller passes in.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from typing import TypeAlias

from steelyard.balance.assignors.consistent_hash import md5_hash
from steelyard.balance.producer.broker_latency import LatencyTracker
from steelyard.errors import ConfigurationError, NoRoute, SelectorFailed, SteelyardError
from steelyard.model import Message, PublishList, Queue, java_hash


class QueueRotation:
    """Takes the queues of one topic in turns; one for all senders of a producer.

    >>> queues = tuple(Queue("orders", broker, number) for broker in "ab" for number in range(2))
    >>> rotation = QueueRotation(PublishList("orders", queues), start=3)
    >>> [str(rotation.next_queue()) for _ in range(3)]
    ['orders@b:1', 'orders@a:0', 'orders@a:1']
    >>> str(rotation.next_queue(failed={"b"}))
    'orders@a:0'
    """

    __slots__ = ("_by_broker", "_queues", "_run_ends", "_turn", "_worst_turn", "has_one_broker", "latency", "topic")

    def __init__(self, listed: PublishList, start: int, latency: LatencyTracker | None = None) -> None:
        self.latency = latency
        """None means plain rotation."""
        self._turn = start
        self._worst_turn = start
        self.replace_queues(listed)

    def replace_queues(self, listed: PublishList) -> None:
        """Replace the list, because the route changed. The counter goes on."""
        if not listed:
            raise NoRoute(f"topic {listed.topic!r} has no queue that takes messages")
        self.topic = listed.topic
        self._queues = listed.queues
        self._run_ends = _run_ends(listed.queues)
        self._by_broker: dict[str, list[Queue]] = {}
        for queue in listed.queues:
            self._by_broker.setdefault(queue.broker, []).append(queue)
        self.has_one_broker = len(self._by_broker) == 1

    @property
    def queues(self) -> tuple[Queue, ...]:
        """The queues to choose from."""
        return self._queues

    @property
    def brokers(self) -> Collection[str]:
        """The brokers that have these queues, in order."""
        return self._by_broker.keys()

    def next_queue(self, now_ms: int = 0, failed: Collection[str] = ()) -> Queue:
        """Choose the next queue; ``failed`` are all brokers that failed in this send."""
        latency = self.latency
        if not failed and (latency is None or latency.are_all_available(now_ms)):
            return self._next_in_turn()
        return self._first_available(now_ms, failed) or self._least_bad(now_ms, failed)

    def _next_in_turn(self) -> Queue:
        turn = self._turn
        self._turn = turn + 1
        return self._queues[turn % len(self._queues)]

    def _first_available(self, now_ms: int, failed: Collection[str]) -> Queue | None:
        """Go around once, and take the first queue whose broker is available."""
        queues, latency = self._queues, self.latency
        turn, size = self._turn, len(self._queues)
        end = turn + size
        while turn < end:
            at = turn % size
            queue = queues[at]
            if queue.broker in failed or (latency is not None and latency.is_avoided(queue.broker, now_ms)):
                # Skip all queues of this broker at once: a thousand of them cost no more than one.
                turn += self._run_ends[at] - at
            elif latency is None or latency.admits(queue.broker, now_ms):
                self._turn = turn + 1
                return queue
            else:
                turn += 1
        return None

    def _least_bad(self, now_ms: int, failed: Collection[str]) -> Queue:
        if self.latency is None:
            return self._next_in_turn()
        left = [broker for broker in self._by_broker if broker not in failed] or list(self._by_broker)
        self._worst_turn += 1
        broker = self.latency.least_bad(left, self._worst_turn, now_ms)
        mine = self._by_broker[broker]
        turn = self._turn
        self._turn = turn + 1
        return mine[turn % len(mine)]


def _run_ends(queues: Sequence[Queue]) -> list[int]:
    """Return for each index where the run of queues of the same broker ends.

    >>> _run_ends([Queue("t", broker, 0) for broker in "aab"])
    [2, 2, 3]
    """
    ends = [len(queues)] * len(queues)
    for at in range(len(queues) - 2, -1, -1):
        ends[at] = ends[at + 1] if queues[at].broker == queues[at + 1].broker else at + 1
    return ends


# Hashes of keys as the clients of other languages compute them, so that a key has one queue for every sender: FNV-1a
# (Go), SipHash-2-4 with Guava's default key (the gRPC clients of Java and Go; that of Node swaps the bytes of the
# result, and so picks other queues) and SHA-256 (the gRPC client of Python). All read the key as UTF-8. Java's own hash
# is `java_hash` of the model.
_64_BITS = 0xFFFFFFFFFFFFFFFF
_GUAVA_KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


def fnv1a(key: str) -> int:
    """Return the 32 bits of FNV-1a.

    >>> hex(fnv1a("foobar"))
    '0xbf9cf968'
    """
    value = 0x811C9DC5
    for byte in key.encode(errors="replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _sha256_hash(key: str) -> int:
    """Return a key's SHA-256 as one number, big end first."""
    return int.from_bytes(sha256(key.encode(errors="replace")).digest(), "big")


def siphash24(key: str) -> int:
    """Return SipHash-2-4 of a key, with 64 bits and a sign, as Java sees it.

    >>> siphash24("order-1")
    -4360020059536918905
    """
    value = _siphash(key.encode(errors="replace"))
    return value - (1 << 64) if value >> 63 else value


def _siphash(raw: bytes) -> int:
    """Return the 64 bits of SipHash-2-4.

    >>> hex(_siphash(bytes(range(15))))
    '0xa129ca6149be45e5'
    """
    one, two = _GUAVA_KEY
    state = (one ^ 0x736F6D6570736575, two ^ 0x646F72616E646F6D, one ^ 0x6C7967656E657261, two ^ 0x7465646279746573)
    whole = len(raw) - len(raw) % 8
    last = raw[whole:].ljust(7, b"\0") + bytes([len(raw) & 0xFF])
    for word in [raw[at : at + 8] for at in range(0, whole, 8)] + [last]:
        number = int.from_bytes(word, "little")
        a, b, c, d = _sip_rounds(2, *state[:3], state[3] ^ number)
        state = (a ^ number, b, c, d)
    a, b, c, d = _sip_rounds(4, state[0], state[1], state[2] ^ 0xFF, state[3])
    return a ^ b ^ c ^ d


def _sip_rounds(count: int, a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        a = (a + b) & _64_BITS
        b = _rotate_left(b, 13) ^ a
        a = _rotate_left(a, 32)
        c = (c + d) & _64_BITS
        d = _rotate_left(d, 16) ^ c
        a = (a + d) & _64_BITS
        d = _rotate_left(d, 21) ^ a
        c = (c + b) & _64_BITS
        b = _rotate_left(b, 17) ^ c
        c = _rotate_left(c, 32)
    return a, b, c, d


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _64_BITS


MessageQueueSelector: TypeAlias = Callable[[Sequence[Queue], Message, object], Queue | None]
"""``(queues, message, argument) -> queue``; None, or a queue that is not in the list, is an error."""


def select_queue(
    chosen_by: MessageQueueSelector, queues: Sequence[Queue], message: Message, argument: object = None
) -> Queue:
    """Call a selector, and check the answer of a user's own one.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> str(select_queue(KeyHashSelector("hash", java_hash), queues, Message("orders", b"{}"), "order-1"))
    'orders@broker-a:2'
    """
    if isinstance(chosen_by, KeyHashSelector | RandomSelector | RoundRobinSelector | MachineRoomSelector):
        return chosen_by(queues, message, argument)
    try:
        chosen = chosen_by(tuple(queues), message, argument)
        is_listed = chosen in queues
    except SteelyardError:
        raise
    except Exception as error:
        raise _selector_failed(chosen_by, message, f"raised {error!r}", "fix the callable") from error
    if chosen is None or not is_listed:
        what = "returned no queue" if chosen is None else f"returned {chosen}, which was not offered"
        raise _selector_failed(chosen_by, message, what, "return one of the queues that the callable was given")
    return chosen


def _selector_failed(chosen_by: MessageQueueSelector, message: Message, what: str, next_step: str) -> SelectorFailed:
    name = getattr(chosen_by, "name", None) or getattr(chosen_by, "__name__", None) or type(chosen_by).__name__
    return SelectorFailed(f"the selector {name!r} {what} for a message to {message.topic!r}", next_step=next_step)


@dataclass(frozen=True, slots=True)
class KeyHashSelector:
    """The same key, the same queue, as long as the list does not change."""

    name: str
    hash_function: Callable[[str], int]
    """If its result is signed, ``is_absolute`` says how the sign is dropped."""
    is_absolute: bool = True
    """Java drops the sign of the remainder; the gRPC clients take the non-negative remainder."""

    def __call__(self, queues: Sequence[Queue], message: Message, argument: object) -> Queue:
        value = _hash_key(self.hash_function, _key_of(message, argument, self.name))
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


def _hash_key(hash_function: Callable[[str], int], key: str | int) -> int:
    if isinstance(key, str) or hash_function is not java_hash:
        return hash_function(str(key))
    if isinstance(key, bool):
        return 1231 if key else 1237  # Boolean.hashCode
    # Integer.hashCode is the number itself, Long.hashCode the XOR of its halves.
    folded = key if -(1 << 31) <= key < 1 << 31 else (key ^ (key & 0xFFFFFFFFFFFFFFFF) >> 32) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >> 31 == 1 else folded


@dataclass(frozen=True, slots=True)
class RandomSelector:
    """A random queue, by a number that the caller draws."""

    draw: Callable[[], int]
    name: str = "random"

    def __call__(self, queues: Sequence[Queue], _message: Message, _argument: object) -> Queue:
        return queues[self.draw() % len(queues)]


@dataclass(frozen=True, slots=True)
class RoundRobinSelector:
    """One queue after the other, for each topic by itself."""

    start: int = 0
    name: str = "round-robin"
    _turns: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int), repr=False, compare=False)

    def __call__(self, queues: Sequence[Queue], message: Message, _argument: object) -> Queue:
        turn = self._turns[message.topic]
        self._turns[message.topic] = turn + 1
        return queues[(self.start + turn) % len(queues)]


@dataclass(frozen=True, slots=True)
class MachineRoomSelector:
    """In turns, the queues of brokers (``room@name``) in one of the rooms; all queues, if there are none.

    Java's selector of this name is an empty stub.

    >>> queues = [Queue("orders", broker, 0) for broker in ("east@a", "west@b", "west@c")]
    >>> near = MachineRoomSelector(frozenset({"west"}))
    >>> [near(queues, Message("orders", b"{}"), None).broker for _ in range(3)]
    ['west@b', 'west@c', 'west@b']
    """

    rooms: Collection[str]
    name: str = "machine-room"
    _turns: RoundRobinSelector = field(default_factory=RoundRobinSelector, repr=False, compare=False)

    def __call__(self, queues: Sequence[Queue], message: Message, argument: object) -> Queue:
        near = [queue for queue in queues if "@" in queue.broker and queue.broker.split("@")[0] in self.rooms]
        return self._turns(near or queues, message, argument)


_KEY_HASH_SELECTORS = {
    "hash": KeyHashSelector("hash", java_hash),
    "fnv1a": KeyHashSelector("fnv1a", fnv1a),
    "md5": KeyHashSelector("md5", md5_hash),
    "sha256": KeyHashSelector("sha256", _sha256_hash),
    "siphash24": KeyHashSelector("siphash24", siphash24, is_absolute=False),
}

SELECTOR_NAMES = (*_KEY_HASH_SELECTORS, "random", "machine-room", "round-robin")


def make_selector(
    name: str, *, draw: Callable[[], int] | None = None, rooms: Collection[str] = (), start: int = 0
) -> MessageQueueSelector:
    """Make the selector of a name: ``random`` needs a function to draw with, ``machine-room`` the rooms.

    >>> make_selector("fnv1a").name, make_selector("Round_Robin").name
    ('fnv1a', 'round-robin')
    """
    plain = name.strip().casefold().replace("_", "-")
    if plain in _KEY_HASH_SELECTORS:
        return _KEY_HASH_SELECTORS[plain]
    if plain == "round-robin":
        return RoundRobinSelector(start)
    if plain == "random" and draw is not None:
        return RandomSelector(draw)
    if plain == "machine-room" and rooms:
        return MachineRoomSelector(frozenset(rooms))
    if plain in SELECTOR_NAMES:
        needs = "a function to draw numbers with" if plain == "random" else "rooms"
        raise ConfigurationError(f"the selector {plain!r} needs {needs}", next_step=f"give {needs}")
    close = get_close_matches(plain, SELECTOR_NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigurationError(f"no selector is called {name!r}", next_step=f"{hint}known: {', '.join(SELECTOR_NAMES)}")
