"""One history from its plan to its outcome: the world is built, lives through its plan, is healed and comes to rest.

While it runs every fact goes to the checkers. Once nothing planned is left the world is healed; then it has to come to
rest within the time the protocol promises, and to stay so for a moment. What is left then is judged once more.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.sim.backlog import Backlog
from steelyard.sim.checkers.checker import End
from steelyard.sim.checkers.table import Jury
from steelyard.sim.ending import look_back
from steelyard.sim.facts import Fact
from steelyard.sim.kinds.table import draw
from steelyard.sim.outcome import Outcome
from steelyard.sim.plan import Plan, without
from steelyard.sim.planted.bug import planted as putting_in
from steelyard.sim.planted.table import find_bug
from steelyard.sim.resting import Rest
from steelyard.sim.situations import Watcher
from steelyard.sim.staging import Stage
from steelyard.sim.terms import rest_ms, terms_of
from steelyard.sim.troubles import Troubles

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Played", "play", "run_history"]

_STAY_MS = 1_000
"""How long a world that came to rest is watched, so that one which only passed through is not taken for it."""


@dataclass(frozen=True, slots=True)
class Played:
    """A history with everything that is known of it, for tests that measure."""

    outcome: Outcome
    facts: tuple[Fact, ...]
    end: End | None
    """None if it broke off with an error."""


def run_history(
    seed: int,
    only: str | None = None,
    *,
    dropped: Collection[str] = (),
    planted: str | None = None,
    trace: bool = False,
) -> Outcome:
    """Run the history of a seed, perhaps without some of its parts or with a bug put in; return what came of it.

    With a bug and without ``only`` its kind is one in which the bug can show.
    """
    bug = find_bug(planted)
    plan = draw(seed, bug.kind_of(seed) if bug is not None and only is None else only)
    return play(without(plan, dropped), dropped=tuple(dropped), planted=planted, trace=trace).outcome


def play(plan: Plan, *, dropped: tuple[str, ...] = (), planted: str | None = None, trace: bool = False) -> Played:
    """Run a plan, perhaps with a bug put in, and keep what is known of the history."""
    with putting_in(find_bug(planted)):
        return _play(plan, dropped, trace)


def _play(plan: Plan, dropped: tuple[str, ...], trace: bool) -> Played:
    stage = Stage(plan, trace=trace)
    journal = stage.world.journal
    jury, watcher, backlog = Jury(terms_of(plan)), Watcher(), Backlog(plan)
    journal.listeners += [jury.note, watcher.note, backlog.note]
    end: End | None = None
    error: str | None = None
    try:
        end = _run(stage, backlog)
        jury.finish(end)
        watcher.finish(end)
    except Exception as raised:  # whatever a core raises is a finding, and the next history goes on
        error = _told(raised)
    outcome = Outcome(
        seed=plan.seed,
        kind=plan.kind,
        digest=journal.digest(),
        findings=tuple(jury.findings),
        situations=dict(sorted(watcher.counts.items())),
        counts={
            "messages": backlog.acked,
            "handlers": backlog.handled,
            "deliveries": journal.deliveries,
            "simulated ms": stage.world.now_ms(),
        },
        dropped=dropped,
        error=error,
        trace=tuple(journal.lines or ()),
    )
    return Played(outcome, tuple(journal.facts), end)


def _run(stage: Stage, backlog: Backlog) -> End:
    world, plan = stage.world, stage.plan
    troubles, rest = Troubles(stage), Rest(stage, backlog)
    world.run(plan.calm_ms)
    troubles.heal()
    healed_ms = world.now_ms()
    until_ms = healed_ms + rest_ms(plan)
    is_at_rest = False
    while not is_at_rest and world.now_ms() < until_ms:
        world.run(until_ms, rest)
        world.run(min(until_ms, world.now_ms() + _STAY_MS))
        is_at_rest = rest()
    return look_back(stage, rest, healed_ms)


def _told(error: BaseException) -> str:
    """Return what was raised and from where, the last line naming it."""
    lines: list[str] = []
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        lines.append(f"  {code.co_filename.rpartition('steelyard/')[2]}:{step.tb_lineno} in {code.co_name}")
        step = step.tb_next
    return "\n".join((*lines, f"{type(error).__name__}: {error}"))
