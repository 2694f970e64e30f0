"""Every rule that is checked, and the jury that reads a history to all of them at once."""

from collections.abc import Callable, Iterable

from steelyard.sim.checkers.acked_not_lost import AckedNotLost
from steelyard.sim.checkers.checker import Checker, End, Finding, Terms
from steelyard.sim.checkers.commits_end import CommitsEnd
from steelyard.sim.checkers.commits_go_forward import CommitsGoForward
from steelyard.sim.checkers.crash_bounds import CrashBounds
from steelyard.sim.checkers.delayed_never_early import DelayedNeverEarly
from steelyard.sim.checkers.drained_and_settled import DrainedAndSettled
from steelyard.sim.checkers.fenced_starts import FencedStarts
from steelyard.sim.checkers.few_rounds import FewRounds
from steelyard.sim.checkers.goodbye_last import GoodbyeLast
from steelyard.sim.checkers.grace_kept import GraceKept
from steelyard.sim.checkers.halves_invisible import HalvesInvisible
from steelyard.sim.checkers.handled_below_commit import HandledBelowCommit
from steelyard.sim.checkers.healthy_stay_read import HealthyStayRead
from steelyard.sim.checkers.holders_asked import HoldersAsked
from steelyard.sim.checkers.holders_first import HoldersFirst
from steelyard.sim.checkers.leases_kept import LeasesKept
from steelyard.sim.checkers.least_moves import LeastMoves
from steelyard.sim.checkers.leavers_leave import LeaversLeave
from steelyard.sim.checkers.newcomers_plan import NewcomersPlan
from steelyard.sim.checkers.no_orphan_locks import NoOrphanLocks
from steelyard.sim.checkers.nobody_overlooked import NobodyOverlooked
from steelyard.sim.checkers.nothing_unexpected import NothingUnexpected
from steelyard.sim.checkers.one_message_per_offset import OneMessagePerOffset
from steelyard.sim.checkers.one_owner import OneOwner
from steelyard.sim.checkers.only_owners_start import OnlyOwnersStart
from steelyard.sim.checkers.order_per_key import OrderPerKey
from steelyard.sim.checkers.progress import Progress
from steelyard.sim.checkers.retries_do_not_multiply import RetriesDoNotMultiply
from steelyard.sim.checkers.sends_find_a_way import SendsFindAWay
from steelyard.sim.checkers.settled_as_planned import SettledAsPlanned
from steelyard.sim.checkers.settles_in_time import SettlesInTime
from steelyard.sim.checkers.starts_once import StartsOnce
from steelyard.sim.checkers.waits_are_short import WaitsAreShort
from steelyard.sim.facts import Fact

__all__ = ["ALL", "Jury"]

ALL: tuple[type[Checker], ...] = (
    AckedNotLost,
    OneMessagePerOffset,
    NothingUnexpected,
    HalvesInvisible,
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
    HoldersAsked,
    HoldersFirst,
    NoOrphanLocks,
    GoodbyeLast,
    NobodyOverlooked,
    LeastMoves,
    FewRounds,
    NewcomersPlan,
    CrashBounds,
    HealthyStayRead,
    SettlesInTime,
    WaitsAreShort,
    LeaversLeave,
    SendsFindAWay,
    Progress,
    DrainedAndSettled,
    SettledAsPlanned,
)
"""In the order in which their findings are told."""

_MOST_FINDINGS = 25
"""Of one checker in one history: a rule that is broken often is broken, and a list of thousands helps nobody."""


class Jury:
    """All checkers of one history; each is told only what it wants to hear."""

    def __init__(self, terms: Terms, checkers: Iterable[type[Checker]] = ALL) -> None:
        self.findings: list[Finding] = []
        self._checkers = [checker(terms) for checker in checkers]
        self._listeners: dict[type[Fact], list[Callable[[Fact], Iterable[Finding]]]] = {}
        self._told: dict[str, int] = {}
        for checker in self._checkers:
            for kind in checker.wants:
                self._listeners.setdefault(kind, []).append(checker.note)

    def note(self, fact: Fact) -> None:
        """Let every checker that wants it take in a fact."""
        for listen in self._listeners.get(type(fact), ()):
            found = listen(fact)
            if found:
                self._keep(found)

    def finish(self, end: End) -> tuple[Finding, ...]:
        """Let every checker look at the end; return all that was found, in order of time for each kind of checker."""
        for checker in self._checkers:
            self._keep(checker.finish(end))
        return tuple(self.findings)

    def _keep(self, found: Iterable[Finding]) -> None:
        for finding in found:
            told = self._told[finding.checker] = self._told.get(finding.checker, 0) + 1
            if told <= _MOST_FINDINGS:
                self.findings.append(finding)
