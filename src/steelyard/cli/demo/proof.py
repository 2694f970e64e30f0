"""What was sent and what was handled, by whom: the numbers that the demo ends with.

Every message has a number. Who handled it says so once it is done, and nobody here knows better than the pipes of the
members do: what a killed member had done and not yet said does not count as handled.
"""

import threading
from dataclasses import dataclass, field
from itertools import chain

__all__ = ["Proof", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How it ended."""

    sent: int
    failed: int
    """Sends that ended with an error: their messages may be there or not."""
    handled: int
    lost: int
    twice: int
    """Handled more than once, and no crash explains it."""
    twice_by_crash: int
    """Handled by a member that was killed before it could say so, and again by another."""


@dataclass(slots=True)
class Proof:
    """Takes note of what is sent and handled, from any thread."""

    _sent: dict[int, str] = field(default_factory=dict)
    _handled: dict[int, list[str]] = field(default_factory=dict)
    _failed: int = 0
    _killed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_sent(self, number: int, broker: str) -> None:
        """Take note of a message that a broker has stored."""
        with self._lock:
            self._sent[number] = broker

    def note_failed(self) -> None:
        """Take note of a message that could not be sent."""
        with self._lock:
            self._failed += 1

    def note_handled(self, number: int, member: str) -> None:
        """Take note of a message that a member handled."""
        with self._lock:
            self._handled.setdefault(number, []).append(member)

    def note_killed(self, member: str) -> None:
        """Take note of a member that was killed: what it handled last may be handled again."""
        with self._lock:
            self._killed.add(member)

    @property
    def sent(self) -> int:
        """How many messages are stored."""
        return len(self._sent)

    @property
    def handled(self) -> int:
        """How many messages were handled, each counted once."""
        return len(self._handled)

    def brokers_since(self, count: int) -> list[str]:
        """Return which brokers stored the messages after the first so many."""
        with self._lock:
            return list(self._sent.values())[count:]

    def is_all_handled(self) -> bool:
        """Say whether every message that was sent was handled."""
        with self._lock:
            return self._handled.keys() >= self._sent.keys()

    def verdict(self) -> Verdict:
        """Return how it ended."""
        with self._lock:
            again = [members for members in self._handled.values() if len(members) > 1]
            explained = [members for members in again if self._is_explained(members)]
            return Verdict(
                sent=len(self._sent),
                failed=self._failed,
                handled=len(self._handled),
                lost=len(self._sent.keys() - self._handled.keys()),
                twice=len(again) - len(explained),
                twice_by_crash=len(explained),
            )

    def _is_explained(self, members: list[str]) -> bool:
        """Say whether crashes explain that all these had a message: each had it once, and all but one were killed."""
        return len(set(members) - self._killed) <= 1 and len(set(members)) == len(members)

    def members(self) -> set[str]:
        """Return who handled something."""
        with self._lock:
            return set(chain.from_iterable(self._handled.values()))
