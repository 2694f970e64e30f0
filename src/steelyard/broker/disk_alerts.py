"""Disk alerts: each disk problem is logged once when it begins and once when it is over.

Senders get an error each time. The operator reads a log, and must neither miss a problem nor drown in it: lost messages
are logged at the start, and later findings now and then; failing work is logged when it first fails and when it works
again. What fails right now is in the runtime table (requests/stats.py) and the metrics.
"""

from collections.abc import Sequence

from steelyard.broker.timing import is_due
from steelyard.store.log_scan import Damage
from steelyard.store.recovery import CUT_OFF
from steelyard.store.store import Store

STORING_MESSAGES = "storing messages"
_REPEAT_MS = 60_000
"""The least time between two warnings about the same work: a nearly full disk fails for every large message."""


class DiskAlerts:
    """Failing operations. ``warnings`` receives the alerts."""

    def __init__(self, warnings: list[str], store: Store, now_ms: int) -> None:
        self._warnings, self._store = warnings, store
        self._failing: dict[str, tuple[str, int]] = {}
        """By operation: the reason, and since when."""
        self._reported_ms: dict[str, int] = {}
        self._reported: set[str] = set()
        """Operations that were reported to fail, and not yet to work again."""
        self._is_read_only_reported = False
        self._reported_damages = 0
        self._next_damages_ms = now_ms
        self.failures = 0
        """The number of failed operations."""
        self.check_store(now_ms)

    @property
    def read_only_reason(self) -> str | None:
        """Why messages cannot be stored right now, or None."""
        if self._store.read_only_reason is not None:
            return self._store.read_only_reason
        found = self._failing.get(STORING_MESSAGES)
        return None if found is None else found[0]

    def record_failure(self, operation: str, error: Exception, now_ms: int) -> None:
        """Record a failed operation; it will be retried."""
        self.failures += 1
        _, since_ms = self._failing.get(operation, ("", now_ms))
        self._failing[operation] = str(error), since_ms
        due_ms = self._reported_ms[operation] + _REPEAT_MS if operation in self._reported_ms else now_ms
        if operation not in self._reported and is_due(due_ms, _REPEAT_MS, now_ms):
            self._reported_ms[operation] = now_ms
            self._reported.add(operation)
            self._warnings.append(f"{operation} fails and is retried: {error}")

    def record_success(self, operation: str, now_ms: int) -> None:
        """Record a successful operation; it is reported only after a failure."""
        found = self._failing.pop(operation, None) if self._failing else None
        if found is not None and operation in self._reported:
            self._reported.discard(operation)
            self._warnings.append(f"{operation} works again, after {max(0, now_ms - found[1]) / 1_000:.1f} s")

    def check_store(self, now_ms: int) -> None:
        """Report what the store has found since the last check: lost messages, a failed sync."""
        store = self._store
        if store.read_only_reason is not None and not self._is_read_only_reported:
            self._is_read_only_reported = True
            self.failures += 1
            step = "check the disk, then restart the broker"
            self._warnings.append(f"no more messages are accepted: {store.read_only_reason}; {step}")
        if len(store.damages) > self._reported_damages and is_due(self._next_damages_ms, _REPEAT_MS, now_ms):
            self._next_damages_ms = now_ms + _REPEAT_MS
            lost = [each for each in store.damages[self._reported_damages :] if each.what != CUT_OFF or each.records]
            self._reported_damages = len(store.damages)
            if lost:
                self._warnings.append(_describe_damages(lost))


def _describe_damages(damages: Sequence[Damage]) -> str:
    """Describe lost messages.

    >>> _describe_damages([Damage("commitlog/00000000000000000000", 4_096, 2_000, 7)])
    'the log is damaged, and 7 messages are lost: commitlog/00000000000000000000, position 4096: 2000 bytes are \
damaged, 7 messages lost; for details run `steelyard store verify`'
    """
    lost = sum(damage.records or 0 for damage in damages)
    least = "at least " if any(damage.records is None for damage in damages) else ""
    where = f"the log is damaged in {len(damages)} places" if len(damages) > 1 else "the log is damaged"
    first = "the first is at " if len(damages) > 1 else ""
    how_many = f"{least}{lost} message{'s are' if lost != 1 else ' is'} lost"
    return f"{where}, and {how_many}: {first}{damages[0]}; for details run `steelyard store verify`"
