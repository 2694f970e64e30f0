"""The outcome of a history: its findings, the situations that came up, and the command that replays it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from simulator.checkers.checker import CheckerFinding
from simulator.generators import kind_of_seed

_MAX_SHOWN_FINDINGS = 10
_MAX_SHOWN_FACTS = 6


class HistoryVerdict(Enum):
    """The worst finding; the value is the exit code of the run."""

    FINE = 0
    SAFETY = 1
    """Something happened that never may."""
    LIVENESS = 3
    """Something did not happen in time."""
    ERROR = 4
    """A core or the simulator raised an error."""


@dataclass(frozen=True, slots=True)
class HistoryOutcome:
    """What came of one history."""

    seed: int
    kind: str
    digest: str = ""
    """Equal digests: equal histories."""
    findings: tuple[CheckerFinding, ...] = ()
    situations: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    """Messages, handlers, deliveries and simulated milliseconds."""
    dropped: tuple[str, ...] = ()
    """The parts of the scenario that were left out."""
    error: str | None = None
    """The error that was raised, with its frames."""
    trace: tuple[str, ...] = ()

    @property
    def verdict(self) -> HistoryVerdict:
        """The worst finding: an error hides everything else, and safety comes before liveness."""
        if self.error is not None:
            return HistoryVerdict.ERROR
        kinds = {finding.kind for finding in self.findings}
        if "safety" in kinds:
            return HistoryVerdict.SAFETY
        return HistoryVerdict.LIVENESS if kinds else HistoryVerdict.FINE

    @property
    def signature(self) -> str:
        """The first checker of the worst kind: a smaller history with the same signature is the same failure."""
        if self.error is not None:
            return "error: " + self.error.splitlines()[-1].partition(":")[0]
        worst = self.verdict.name.lower()
        return next((finding.checker for finding in self.findings if finding.kind == worst), "")


def replay_command(outcome: HistoryOutcome, mutant: str | None = None) -> str:
    """Return the command that replays this history.

    >>> replay_command(HistoryOutcome(1, "crash", dropped=("f2", "n20")))
    'python -m simulator --replay 1 --drop f2,n20 --trace'
    >>> replay_command(HistoryOutcome(1, "churn"))
    'python -m simulator --replay 1 --only churn --trace'
    >>> replay_command(HistoryOutcome(1, "crash"), mutant="deaf")
    'python -m simulator --replay 1 --only crash --plant deaf --trace'
    """
    words = ["python -m simulator --replay", str(outcome.seed)]
    if mutant is not None or outcome.kind != kind_of_seed(outcome.seed):
        words += ["--only", outcome.kind]
    if outcome.dropped:
        words += ["--drop", ",".join(outcome.dropped)]
    if mutant is not None:
        words += ["--plant", mutant]
    return " ".join((*words, "--trace"))


def format_findings(outcome: HistoryOutcome) -> Iterator[str]:
    """Yield the findings as lines of text."""
    if outcome.error is not None:
        yield from outcome.error.splitlines()
    for finding in outcome.findings[:_MAX_SHOWN_FINDINGS]:
        yield (
            f"{finding.kind}, the {finding.subsystem} half: {finding.checker} at {finding.at_ms / 1000:.3f} s: "
            f"{finding.sentence}"
        )
        yield from (f"    {fact}" for fact in finding.facts[:_MAX_SHOWN_FACTS])
    if len(outcome.findings) > _MAX_SHOWN_FINDINGS:
        yield f"and {len(outcome.findings) - _MAX_SHOWN_FINDINGS} more"
