"""Hunts a mutant like any other bug: runs histories until one of them fails.

A history that also fails without the mutant says nothing about it, and is skipped. `CATCHES` records the checker and
seed of the last hunt; `python -m simulator --hunt --output json | python -m tests.simulator.record_catches` rewrites
it, and the table in docs/reliability.md. A seed may lose its mutant when something else changes, because its history is
another one then: the tests go on hunting.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.history import run_history
from simulator.mutants.mutant import Mutant
from simulator.outcome import HistoryOutcome, HistoryVerdict

MAX_HISTORIES = 1_000
"""A mutant that shows in none of these counts as not caught."""


@dataclass(frozen=True, slots=True)
class MutantCatch:
    """The first history in which a mutant showed."""

    outcome: HistoryOutcome
    histories: int
    """The number of histories that were run, including this one."""


def hunt(mutant: Mutant, seeds: Iterable[int] = range(MAX_HISTORIES)) -> MutantCatch | None:
    """Run the histories of these seeds, of the mutant's kinds in turn, until one fails because of it."""
    for count, seed in enumerate(seeds, 1):
        outcome = run_history(seed, mutant=mutant.name)
        is_caught = outcome.verdict in (HistoryVerdict.SAFETY, HistoryVerdict.LIVENESS)
        if is_caught and run_history(seed, outcome.kind).verdict is HistoryVerdict.FINE:
            return MutantCatch(outcome, count)
    return None


CATCHES: dict[str, tuple[str, int]] = {
    "ack-before-write": ("one message per offset", 1),
    "write-error-swallowed": ("one message per offset", 1),
    "failed-write-kept": ("handled below commit", 10),
    "sync-forgotten": ("acked not lost", 0),
    "folder-not-synced": ("acked not lost", 0),
    "sync-error-forgiven": ("acked not lost", 32),
    "last-record-cut": ("acked not lost", 1),
    "offsets-given-again": ("acked not lost", 1),
    "commits-not-loaded": ("commits go forward", 12),
    "border-skipped": ("handled below commit", 6),
    "delay-level-off-by-one": ("delayed never early", 5),
    "delivered-again-after-crash": ("retries do not multiply", 12),
    "delivery-lost-by-disk": ("drained and settled", 47),
    "half-visible": ("half messages invisible", 0),
    "check-never-sent": ("drained and settled", 0),
    "check-makes-new-half": ("drained and settled", 0),
    "retry-stored-twice": ("retries do not multiply", 0),
    "retry-not-counted": ("drained and settled", 0),
    "pull-never-woken": ("progress", 0),
    "fencing-skipped": ("commits go forward", 16),
    "renewal-granted-anew": ("leases kept", 7),
    "lock-taken-over": ("leases kept", 0),
    "unlocked-by-anybody": ("leases kept", 175),
    "lease-outlives-member": ("no orphan locks", 2),
    "order-grace-forgotten": ("grace kept", 2),
    "epochs-begin-again": ("leases kept", 88),
    "settling-ignored": ("holders first", 2),
    "claims-ignored": ("holders first", 1),
    "replaced-connection-commits": ("commits go forward", 25),
    "replaced-connection-registers": ("commits go forward", 578),
    "silence-unnoticed": ("no orphan locks", 80),
    "connection-grace-forgotten": ("grace kept", 3),
    "notifications-never-sent": ("crash bounds", 31),
    "owners-of-before": ("minimum moves", 0),
    "owners-misplaced": ("minimum moves", 16),
    "any-close-ends-brokers": ("newcomers plan", 10),
    "routes-frozen": ("drained and settled", 1),
    "commit-before-handle": ("handled below commit", 1),
    "window-without-holes": ("handled below commit", 6),
    "pull-carries-commit": ("handled below commit", 0),
    "pull-of-an-earlier-generation": ("starts once", 0),
    "two-commits-under-way": ("commits go forward", 4),
    "start-uncommitted": ("drained and settled", 0),
    "released-uncommitted": ("starts once", 2),
    "released-before-the-response": ("commits end", 0),
    "failure-counts-as-done": ("drained and settled", 0),
    "sent-back-unconfirmed": ("drained and settled", 691),
    "sent-back-after-loss": ("retries do not multiply", 259),
    "order-skips-failures": ("handled below commit", 5),
    "order-goes-on-past-failures": ("starts once", 49),
    "order-by-two-handlers": ("order per key", 0),
    "unsure-starts-handlers": ("only owners start", 20),
    "fence-ignored": ("fenced starts", 0),
    "drain-bound-commits-all": ("handled below commit", 4),
    "unregistered-before-unlock": ("unregister last", 3),
    "unregistered-first": ("unregister last", 4),
    "failed-broker-again": ("sends find a way", 11),
    "taken-without-lock": ("one owner", 3),
    "silence-means-no": ("owners probed", 71),
    "held-means-owned": ("one owner", 7),
    "restarted-broker-trusted": ("holders first", 65),
    "short-lock-kept": ("unregister last", 1),
    "unwanted-grant-kept": ("unregister last", 13),
    "unlock-not-awaited": ("unregister last", 19),
    "renewal-takes": ("leases kept", 2),
    "denied-leaver-stays": ("waits are short", 16),
    "unsure-never-yields": ("drained and settled", 3),
    "overtaken-window-kept": ("crash bounds", 102),
    "unsure-undoes-drain": ("one owner", 618),
    "drain-undone": ("one owner", 24),
    "late-commit-stays": ("drained and settled", 126),
    "planned-over-unsorted-ids": ("waits are short", 2),
    "one-list-for-all": ("minimum moves", 26),
    "owners-never-updated": ("waits are short", 9),
    "list-one-response-old": ("settles in time", 92),
    "silence-changes-the-strategy": ("healthy stay read", 25),
    "blip-counts-as-gone": ("no member overlooked", 49),
    "lost-notification-never-repaired": ("drained and settled", 1),
    "notification-ignored": ("crash bounds", 31),
    "handover-request-ignored": ("waits are short", 24),
    "rebalances-without-a-gap": ("few rebalances", 2),
    "new-queue-from-its-end": ("drained and settled", 0),
}
"""By mutant: the checker, and the seed, whose history is of the kind that `Mutant.kind_of` returns."""
