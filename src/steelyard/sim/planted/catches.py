"""What found each planted bug, and the seed that showed it, as the last hunt recorded it.

`steelyard sim --hunt --output json | python -m tests.sim.recording` writes it anew, and the page about reliability. A
seed may lose its bug when something else changes, because then its history is another one: the tests hunt on then.
"""

__all__ = ["CATCHES"]

CATCHES: dict[str, tuple[str, int]] = {
    "delay-level-off-by-one": ("delayed never early", 5),
    "delivered-again-after-crash": ("retries do not multiply", 12),
    "delivery-lost-by-disk": ("drained and settled", 47),
    "half-visible": ("halves invisible", 0),
    "check-never-sent": ("drained and settled", 0),
    "check-makes-new-half": ("drained and settled", 0),
    "retry-stored-twice": ("retries do not multiply", 0),
    "retry-not-counted": ("drained and settled", 0),
    "pull-never-woken": ("progress", 0),
    "fencing-skipped": ("commits go forward", 16),
    "renewal-granted-anew": ("leases kept", 7),
    "lock-taken-over": ("leases kept", 0),
    "unlocked-by-anybody": ("leases kept", 244),
    "lease-outlives-member": ("no orphan locks", 2),
    "order-grace-forgotten": ("grace kept", 6),
    "epochs-begin-again": ("leases kept", 7),
    "settling-ignored": ("holders first", 2),
    "claims-ignored": ("holders first", 1),
    "replaced-line-commits": ("commits go forward", 18),
    "replaced-line-registers": ("commits go forward", 193),
    "silence-unnoticed": ("no orphan locks", 18),
    "line-grace-forgotten": ("grace kept", 3),
    "notices-never-sent": ("crash bounds", 31),
    "owners-of-before": ("least moves", 0),
    "owners-misplaced": ("least moves", 16),
    "any-line-ends-brokers": ("newcomers plan", 10),
    "routes-frozen": ("drained and settled", 1),
    "ack-before-write": ("one message per offset", 1),
    "write-error-swallowed": ("one message per offset", 1),
    "failed-write-kept": ("handled below commit", 10),
    "sync-forgotten": ("acked not lost", 0),
    "folder-not-synced": ("acked not lost", 1),
    "sync-error-forgiven": ("acked not lost", 164),
    "last-record-cut": ("acked not lost", 1),
    "offsets-given-again": ("acked not lost", 1),
    "commits-not-loaded": ("commits go forward", 12),
    "border-skipped": ("handled below commit", 6),
}
"""By the bug's name: the checker, and the seed, whose history is of the kind that `Bug.kind_of` says."""
