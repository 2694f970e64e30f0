"""All checkers, and the runner that passes the facts of a history to them."""

from collections.abc import Callable, Iterable

from simulator.checkers.acked_not_lost import AckedNotLost
from simulator.checkers.checker import Checker, CheckerFinding, HistoryConditions, HistoryEnd
from simulator.checkers.commits_end import CommitsEnd
from simulator.checkers.commits_go_forward import CommitsGoForward
from simulator.checkers.crash_bounds import CrashBounds
from simulator.checkers.delayed_never_early import DelayedNeverEarly
from simulator.checkers.drained_and_settled import DrainedAndSettled
from simulator.checkers.fenced_starts import FencedStarts
from simulator.checkers.few_rebalances import FewRebalances
from simulator.checkers.grace_kept import GraceKept
from simulator.checkers.half_messages_invisible import HalfMessagesInvisible
from simulator.checkers.handled_below_commit import HandledBelowCommit
from simulator.checkers.healthy_stay_read import HealthyStayRead
from simulator.checkers.holders_first import HoldersFirst
from simulator.checkers.leases_kept import LeasesKept
from simulator.checkers.leavers_leave import LeaversLeave
from simulator.checkers.minimum_moves import MinimumMoves
from simulator.checkers.newcomers_plan import NewcomersPlan
from simulator.checkers.no_orphan_locks import NoOrphanLocks
from simulator.checkers.nobody_overlooked import NobodyOverlooked
from simulator.checkers.nothing_unexpected import NothingUnexpected
from simulator.checkers.one_message_per_offset import OneMessagePerOffset
from simulator.checkers.one_owner import OneOwner
from simulator.checkers.only_owners_start import OnlyOwnersStart
from simulator.checkers.order_per_key import OrderPerKey
from simulator.checkers.owners_probed import OwnersProbed
from simulator.checkers.progress import ProgressIsMade
from simulator.checkers.retries_do_not_multiply import RetriesDoNotMultiply
from simulator.checkers.sends_find_a_way import SendsFindAWay
from simulator.checkers.settled_as_planned import SettledAsPlanned
from simulator.checkers.settles_in_time import SettlesInTime
from simulator.checkers.starts_once import StartsOnce
from simulator.checkers.unregister_last import UnregisterLast
from simulator.checkers.waits_are_short import WaitsAreShort
from simulator.facts import Fact

ALL_CHECKERS: tuple[type[Checker], ...] = (
    AckedNotLost,
    OneMessagePerOffset,
    NothingUnexpected,
    HalfMessagesInvisible,
    DelayedNeverEarly,
    OrderPerKey,
    RetriesDoNotMultiply,
    StartsOnce,
    HandledBelowCommit,
    CommitsGoForward,
    CommitsEnd,
    OneOwner,
    OnlyOwnersStart,
    FencedStarts,
    LeasesKept,
    GraceKept,
    OwnersProbed,
    HoldersFirst,
    NoOrphanLocks,
    UnregisterLast,
    NobodyOverlooked,
    MinimumMoves,
    FewRebalances,
    NewcomersPlan,
    CrashBounds,
    HealthyStayRead,
    SettlesInTime,
    WaitsAreShort,
    LeaversLeave,
    SendsFindAWay,
    ProgressIsMade,
    DrainedAndSettled,
    SettledAsPlanned,
)
"""In the order in which their findings are told."""

_MAX_FINDINGS = 25
"""Of one checker in one history: a list of thousands helps no one."""


class CheckerRunner:
    """All checkers of one history; each gets only the facts it wants."""

    def __init__(self, conditions: HistoryConditions, checkers: Iterable[type[Checker]] = ALL_CHECKERS) -> None:
        self.findings: list[CheckerFinding] = []
        self._checkers = [checker(conditions) for checker in checkers]
        self._listeners: dict[type[Fact], list[Callable[[Fact], Iterable[CheckerFinding]]]] = {}
        self._counts: dict[str, int] = {}
        for checker in self._checkers:
            for kind in checker.fact_types:
                self._listeners.setdefault(kind, []).append(checker.observe)

    def observe(self, fact: Fact) -> None:
        """Pass a fact to the checkers that want it."""
        for listener in self._listeners.get(type(fact), ()):
            findings = listener(fact)
            if findings:
                self._keep_findings(findings)

    def check_end(self, end: HistoryEnd) -> tuple[CheckerFinding, ...]:
        """Run the final checks, and return all findings."""
        for checker in self._checkers:
            self._keep_findings(checker.check_end(end))
        return tuple(self.findings)

    def _keep_findings(self, findings: Iterable[CheckerFinding]) -> None:
        for finding in findings:
            count = self._counts[finding.checker] = self._counts.get(finding.checker, 0) + 1
            if count <= _MAX_FINDINGS:
                self.findings.append(finding)
