"""How a history ended: what was found, how often which situation came up, and how to see it again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from steelyard.sim.checkers.checker import Finding
from steelyard.sim.kinds.table import kind_of

__all__ = ["Outcome", "Verdict", "replay_command", "tell_findings"]

_MOST_TOLD = 10
_MOST_FACTS = 6


class Verdict(Enum):
    """The worst that was found; the value is the exit code of a run in which it was."""

    FINE = 0
    SAFETY = 1
    """Something happened that never may."""
    LIVENESS = 3
    """Something did not happen in time."""
    ERROR = 4
    """A program of ours raised what it never may, or the simulator itself did."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one history came to."""

    seed: int
    kind: str
    digest: str = ""
    """The same whenever the same history runs."""
    findings: tuple[Finding, ...] = ()
    situations: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many messages, handlers, deliveries … there were, and how long it took."""
    dropped: tuple[str, ...] = ()
    """The parts of the plan that were left out."""
    error: str | None = None
    """What was raised, with where."""
    trace: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of it: an error hides everything else, and safety comes before liveness."""
        if self.error is not None:
            return Verdict.ERROR
        kinds = {finding.kind for finding in self.findings}
        if "safety" in kinds:
            return Verdict.SAFETY
        return Verdict.LIVENESS if kinds else Verdict.FINE

    @property
    def signature(self) -> str:
        """What a smaller history has to show to count as the same failure: the first checker of the worst kind."""
        if self.error is not None:
            return "error: " + self.error.splitlines()[-1].partition(":")[0]
        worst = self.verdict.name.lower()
        return next((finding.checker for finding in self.findings if finding.kind == worst), "")


def replay_command(outcome: Outcome, planted: str | None = None) -> str:
    """Return the one command that shows this history again.

    >>> replay_command(Outcome(1, "crash", dropped=("f2", "n20")))
    'steelyard sim --replay 1 --drop f2,n20 --trace'
    >>> replay_command(Outcome(1, "churn"))
    'steelyard sim --replay 1 --only churn --trace'
    >>> replay_command(Outcome(1, "crash"), planted="deaf")
    'steelyard sim --replay 1 --only crash --plant deaf --trace'
    """
    words = ["steelyard sim --replay", str(outcome.seed)]
    if planted is not None or outcome.kind != kind_of(outcome.seed):
        words += ["--only", outcome.kind]
    if outcome.dropped:
        words += ["--drop", ",".join(outcome.dropped)]
    if planted is not None:
        words += ["--plant", planted]
    return " ".join((*words, "--trace"))


def tell_findings(outcome: Outcome) -> Iterator[str]:
    """Say what was found, line by line."""
    if outcome.error is not None:
        yield from outcome.error.splitlines()
    for finding in outcome.findings[:_MOST_TOLD]:
        yield (
            f"{finding.kind}, the {finding.half} half: {finding.checker} at {finding.at_ms / 1000:.3f} s: "
            f"{finding.sentence}"
        )
        yield from (f"    {fact}" for fact in finding.facts[:_MOST_FACTS])
    if len(outcome.findings) > _MOST_TOLD:
        yield f"and {len(outcome.findings) - _MOST_TOLD} more"
