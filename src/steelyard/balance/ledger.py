"""What is known of each broker's speed and faults, and until when one is better avoided.

Every finished attempt is noted. A table turns how long it took into how long the broker is avoided, and a failure
counts as a fixed long time. Five rules are ours. An exclusion always ends by time. Then one message tries the
broker out, and the others wait for what becomes of it: while it is halted, one sender is held up and not all. A broker
that comes back gets a growing part of its turns, so that a thousand producers do not flood it at once. By choice, slow
means slower than the others: where all are slow, nobody is avoided. And where everybody is avoided, the least bad one
is used, in turns.

Left out: whose fault an error is (attempts.py asks the error, and notes no fault of the caller's); probes of our own,
since the next message is one. Times are of a clock that does not jump.
"""

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median_low

from msgspec import Struct

from steelyard.balance.latency_table import MODERN, LatencyTable
from steelyard.errors import ConfigurationError

__all__ = ["Ledger", "Standing"]

_WHOLE = 1_000
_FIRST_SHARE = 125
"""In thousandths: with less than every eighth turn, a broker's return would not be noticed."""

_TRIAL_MS = 3_000
"""How long the message that tries a broker out is waited for; some never tell."""

_FINE = 64
"""Usual times are kept in such parts of a millisecond: whole ones, rounded each time, would never fall below 2."""

_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a broker stands, for people to look at."""

    broker: str
    latency_ms: int
    """Of the last attempt; a failure counts as the table says."""
    usual_ms: int | None
    """What its answers usually take, the latest counting most; None if it never answered."""
    share: float
    """The part of its turns that it gets now: 0 while it is avoided, 1 when all is well."""
    avoided_until_ms: int | None
    avoided_since_ms: int | None
    why: str
    failures: int = 0
    """Attempts that failed, since something is known of it."""


class _Account(Struct):
    latency_ms: int = 0
    usual: int | None = None
    since_ms: int = _NEVER
    until_ms: int = _NEVER
    why: str = ""
    failures: int = 0
    credit: int = 0
    is_doubtful: bool = False
    """Whether it has not answered well since it began to be avoided."""
    tried_ms: int = _NEVER
    """When it was last tried out, while in doubt."""


class Ledger:
    """What was noted of brokers, by name.

    >>> ledger = Ledger()
    >>> ledger.note("broker-a", took_ms=700, failed=False, now_ms=10_000)
    >>> ledger.avoids("broker-a", 10_000), ledger.avoids("broker-a", 12_000), ledger.avoids("broker-b", 10_000)
    (True, False, False)
    >>> ledger.look(10_000)[0].why
    'it took 700 ms'
    """

    def __init__(self, table: LatencyTable = MODERN, *, ramp_ms: int = 5_000, against_median: bool = False) -> None:
        if ramp_ms < 0:
            raise ConfigurationError(f"ramp_ms is {ramp_ms}", next_step="give 0 or more; 0 means at once")
        self.table = table
        self.ramp_ms = ramp_ms
        self.against_median = against_median
        self._accounts: dict[str, _Account] = {}
        self._calm_ms = _NEVER
        self._harmless_ms = table.harmless_ms

    def note(self, broker: str, took_ms: int, failed: bool, now_ms: int) -> None:
        """Note a finished attempt; never one that has not been answered yet."""
        account = self._accounts.get(broker) or self._new_account(broker)
        account.latency_ms = self.table.failure_ms if failed else took_ms
        if failed:
            account.failures += 1
        else:
            usual, took = account.usual, took_ms * _FINE
            account.usual = took if usual is None else (3 * usual + took + 2) // 4
        is_harmless = took_ms < self._harmless_ms and not failed
        avoid_ms = 0 if is_harmless else self.table.avoid_ms(self._judged_ms(broker, took_ms, failed))
        if avoid_ms > 0:
            self._avoid(account, avoid_ms, now_ms)
            account.why = "it failed" if failed else f"it took {took_ms} ms"
        elif account.is_doubtful:
            account.is_doubtful = False
            share = self._share(account, now_ms)
            if share < _WHOLE and (share or self.table.overwrites):
                self._come_back(account, now_ms)

    def _new_account(self, broker: str) -> _Account:
        account = self._accounts[broker] = _Account()
        self._has_news()
        return account

    def _has_news(self) -> None:
        """Be told that a broker is new here, or is avoided from now on: for a ledger that somebody watches."""

    def _judged_ms(self, broker: str, took_ms: int, failed: bool) -> int:
        """Return the time that the table is asked about."""
        if failed:
            return self.table.failure_ms
        if not self.against_median:
            return took_ms
        others = [each.usual for name, each in self._accounts.items() if name != broker and each.usual is not None]
        return took_ms - _in_ms(median_low(others)) if others else 0

    def _avoid(self, account: _Account, avoid_ms: int, now_ms: int) -> None:
        until_ms = now_ms + avoid_ms
        if not account.since_ms <= now_ms < account.until_ms:
            account.since_ms, account.until_ms = now_ms, until_ms
        elif self.table.overwrites or until_ms > account.until_ms:
            account.until_ms = until_ms
        account.credit = 0
        account.is_doubtful, account.tried_ms = True, _NEVER
        self._calm_ms = max(self._calm_ms, account.until_ms + self.ramp_ms)
        self._has_news()

    def _come_back(self, account: _Account, now_ms: int) -> None:
        """Let its part of the turns grow from now on."""
        account.since_ms = account.until_ms = now_ms
        account.credit = 0
        self._calm_ms = max(self._calm_ms, now_ms + self.ramp_ms)

    def is_calm(self, now_ms: int) -> bool:
        """Say whether nobody is avoided or coming back, so that nobody has to be asked for."""
        return now_ms >= self._calm_ms

    def avoids(self, broker: str, now_ms: int) -> bool:
        """Say whether a broker is better avoided now; one that nothing is known of is not."""
        account = self._accounts.get(broker)
        # Looking at the start too ends an exclusion even where a clock was set back.
        return account is not None and account.since_ms <= now_ms < account.until_ms

    def share(self, broker: str, now_ms: int) -> float:
        """Return which part of its turns a broker gets now."""
        account = self._accounts.get(broker)
        return 1.0 if account is None else self._share(account, now_ms) / _WHOLE

    def _share(self, account: _Account, now_ms: int) -> int:
        if account.since_ms <= now_ms < account.until_ms:
            return 0
        back_ms = now_ms - account.until_ms
        if not 0 <= back_ms < self.ramp_ms:
            return _WHOLE
        return max(_FIRST_SHARE, back_ms * _WHOLE // self.ramp_ms)

    def admits(self, broker: str, now_ms: int) -> bool:
        """Say whether a broker takes this turn; one that comes back takes some, evenly spread."""
        account = self._accounts.get(broker)
        if account is None:
            return True
        share = self._share(account, now_ms)
        if share == _WHOLE:
            return True
        if account.is_doubtful and share:
            if 0 <= now_ms - account.tried_ms < _TRIAL_MS:
                return False
            account.tried_ms = now_ms
            return True
        account.credit += share
        if account.credit < _WHOLE:
            return False
        account.credit -= _WHOLE
        return True

    def least_bad(self, brokers: Collection[str], turn: int, now_ms: int) -> str:
        """Return one of brokers that are all avoided: in turns, one of the better half; if some are not, one of them.

        >>> ledger = Ledger()
        >>> for broker, took_ms in (("a", 4_000), ("b", 600), ("c", 2_000), ("d", 9_000)):
        ...     ledger.note(broker, took_ms, failed=False, now_ms=0)
        >>> [ledger.least_bad("abcd", turn, 1) for turn in range(4)]
        ['b', 'c', 'b', 'c']
        """
        usable = [broker for broker in brokers if not self.avoids(broker, now_ms)]
        if usable:
            return usable[turn % len(usable)]
        ranked = sorted(
            brokers, key=lambda broker: (self._accounts[broker].latency_ms, self._accounts[broker].until_ms)
        )
        return ranked[turn % max(1, len(ranked) // 2)]

    def look(self, now_ms: int) -> tuple[Standing, ...]:
        """Show every broker that something is known of."""
        return tuple(self._standing(broker, account, now_ms) for broker, account in sorted(self._accounts.items()))

    def _standing(self, broker: str, account: _Account, now_ms: int) -> Standing:
        share = self._share(account, now_ms)
        since_ms, until_ms = (account.since_ms, account.until_ms) if share == 0 else (None, None)
        why = account.why if share < _WHOLE else ""
        return Standing(
            broker,
            account.latency_ms,
            None if account.usual is None else _in_ms(account.usual),
            share / _WHOLE,
            until_ms,
            since_ms,
            why,
            account.failures,
        )

    def appeared(self, broker: str, now_ms: int) -> None:
        """Take note that a broker is in a route again that it was not in: it comes back, step by step."""
        account = self._accounts.get(broker) or self._new_account(broker)
        if not self.avoids(broker, now_ms):
            self._come_back(account, now_ms)
            account.why = "it was not in the route"

    def keep_only(self, brokers: Collection[str], now_ms: int) -> None:
        """Forget all brokers but these: the others are in no route any more.

        One that is avoided, or coming back, is kept: one that restarts is missing in the route for a while.
        """
        for broker, account in list(self._accounts.items()):
            if broker not in brokers and self._share(account, now_ms) == _WHOLE:
                del self._accounts[broker]


def _in_ms(usual: int) -> int:
    return (usual + _FINE // 2) // _FINE
