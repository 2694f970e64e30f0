"""`steelyard sim`: run simulated histories in which things go wrong on purpose, and say what came of it.

A history is its seed. Each runs the real cores, member, broker, name server and store, in a world where lines break,
disks forget and processes die, and checkers look for what never may happen. A failure is made smaller, told in words,
and comes with the one command that replays it.

A bug can be planted, to see that it is found: a run ends with the first history that shows it. A hunt does so with all
bugs there are.

Exit codes: 0 all is well, 1 something happened that never may, or a planted bug was not found, 3 something did not
happen in time, 4 the simulator or a core raised an error, 2 there is no answer.
"""

import sys
import time
from collections import Counter
from typing import IO, TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.screen import screen
from steelyard.cli.sim.histories import run_all
from steelyard.cli.sim.hunting import hunt_bugs
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.sim.outcome import Outcome

__all__ = ["sim"]

_MOST_SHRUNK = 3
"""How many different failures are made smaller: each takes up to a hundred histories."""


@verb("steelyard sim --histories 200", "steelyard sim --seed 7", "steelyard sim --hunt")
def sim(
    histories: Annotated[int, typer.Option(min=1, help="How many histories to run.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the first one.")] = 0,
    only: Annotated[str | None, typer.Option(help="Only histories of this kind.", show_default=False)] = None,
    replay: Annotated[int | None, typer.Option(min=0, help="Run the history of this seed alone, and tell it.")] = None,
    drop: Annotated[
        str, typer.Option(help="With --replay: leave these parts out, such as f3,m2,n50.", show_default=False)
    ] = "",
    trace: Annotated[bool, typer.Option("--trace", help="With --replay: print all that happens.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many to run at a time; all cores if not given.", show_default=False)
    ] = None,
    plant: Annotated[
        str | None, typer.Option(help="Put this bug in, and stop once it is found.", show_default=False)
    ] = None,
    hunt: Annotated[bool, typer.Option("--hunt", help="Put in each known bug in turn, and say what finds it.")] = False,
    output: Annotated[str, typer.Option(help="text, or json for programs.")] = "text",
) -> None:
    """Run simulated histories in which things go wrong on purpose.

    There are crashes, cuts and lost power, and it is checked that nothing is lost or handled twice.
    """
    if output not in ("text", "json"):
        raise ConfigurationError(f"--output is {output!r}", next_step="give text or json")
    if replay is None and (drop or trace):
        raise ConfigurationError("--drop and --trace are about one history", next_step="give --replay with its seed")
    if hunt and (replay is not None or only is not None):
        raise ConfigurationError(
            "--hunt chooses its histories by itself", next_step="leave --replay and --only out, or give --plant instead"
        )
    if only is not None:
        from steelyard.sim.kinds.table import draw

        draw(seed, only)  # so that an unknown kind is refused before anything starts
    if plant is not None:
        from steelyard.sim.planted.table import find_bug

        find_bug(plant)
    out = screen().file
    as_json = output == "json"
    if hunt:
        raise typer.Exit(hunt_bugs(out, plant, jobs, as_json=as_json))
    if replay is not None:
        dropped = tuple(part.strip() for part in drop.split(",") if part.strip())
        raise typer.Exit(_replay(out, replay, only, dropped, plant, trace=trace, as_json=as_json))
    raise typer.Exit(_run(out, range(seed, seed + histories), only, plant, jobs, as_json=as_json))


def _replay(
    out: IO[str],
    seed: int,
    only: str | None,
    dropped: tuple[str, ...],
    planted: str | None,
    *,
    trace: bool,
    as_json: bool,
) -> int:
    from steelyard.sim.history import run_history
    from steelyard.sim.kinds.table import draw
    from steelyard.sim.outcome import tell_findings
    from steelyard.sim.plan import tell, without

    outcome = run_history(seed, only, dropped=dropped, planted=planted, trace=trace)
    plan = without(draw(seed, outcome.kind), dropped)
    if as_json:
        out.write(msgspec.json.encode(_as_value(outcome, planted)).decode() + "\n")
        return int(outcome.verdict.value)
    out.write(f"history {seed}, {plan.kind}\n")
    out.writelines(f"  {line}\n" for line in tell(plan))
    out.writelines(f"{line}\n" for line in outcome.trace)
    out.writelines(f"{line}\n" for line in tell_findings(outcome))
    out.write(", ".join(f"{count} {name}" for name, count in outcome.counts.items()) + "\n")
    out.write(f"digest {outcome.digest}: {outcome.verdict.name.lower()}\n")
    return int(outcome.verdict.value)


def _run(out: IO[str], seeds: range, only: str | None, planted: str | None, jobs: int | None, *, as_json: bool) -> int:
    from steelyard.sim.outcome import replay_command

    began, ran = time.monotonic(), 0
    situations: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    for outcome in _watched(run_all(seeds, only=only, planted=planted, jobs=jobs), len(seeds)):
        ran += 1
        situations.update(outcome.situations)
        counts.update(outcome.counts)
        if outcome.verdict.value:
            failed.append(outcome)
            if planted is not None:
                break
    seconds = time.monotonic() - began
    failed.sort(key=lambda outcome: (outcome.verdict.value, outcome.seed))
    if as_json:
        answer = {
            "histories": ran,
            "first_seed": seeds.start,
            "seconds": round(seconds, 3),
            "situations": dict(sorted(situations.items())),
            "counts": dict(sorted(counts.items())),
            "failed": [_as_value(outcome, planted) for outcome in failed],
        }
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        _tell_situations(out, situations)
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        out.write(f"{ran} histories in {seconds:.1f} s: {summary}\n")
        told = _different(failed)
        for outcome in told:
            _tell_failure(out, outcome, planted)
        for outcome in failed:
            if outcome not in told:
                out.write(f"history {outcome.seed}, {outcome.kind}: {outcome.signature}\n")
                out.write(f"  replay: {replay_command(outcome, planted)}\n")
        out.write(f"{len(failed)} of {ran} histories failed\n" if failed else "no history failed\n")
    return int(min((outcome.verdict.value for outcome in failed), default=0))


def _tell_situations(out: IO[str], situations: Counter[str]) -> None:
    wide = len(f"{max(situations.values(), default=0)}")
    out.writelines(f"{count:>{wide}}  {name}\n" for name, count in sorted(situations.items()))


def _different(failed: "list[Outcome]") -> "list[Outcome]":
    """Return the first failure of each sort, no more than can be made smaller in a while."""
    first: dict[str, Outcome] = {}
    for outcome in failed:
        first.setdefault(outcome.signature, outcome)
    return list(first.values())[:_MOST_SHRUNK]


def _tell_failure(out: IO[str], outcome: "Outcome", planted: str | None) -> None:
    from steelyard.sim.history import run_history
    from steelyard.sim.kinds.table import draw
    from steelyard.sim.outcome import replay_command, tell_findings
    from steelyard.sim.plan import tell, without
    from steelyard.sim.shrink import shrink

    seed, kind = outcome.seed, outcome.kind
    plan = draw(seed, kind)
    small = shrink(plan, outcome, lambda dropped: run_history(seed, kind, dropped=dropped, planted=planted))
    out.write(f"history {seed}, {kind}: {outcome.signature}\n")
    out.writelines(f"  {line}\n" for line in tell(without(plan, small.dropped)))
    out.writelines(f"  {line}\n" for line in tell_findings(small))
    out.write(f"  replay: {replay_command(small, planted)}\n")


def _as_value(outcome: "Outcome", planted: str | None) -> dict[str, object]:
    from steelyard.sim.outcome import replay_command

    return {
        "seed": outcome.seed,
        "kind": outcome.kind,
        "verdict": outcome.verdict.name.lower(),
        "digest": outcome.digest,
        "error": outcome.error,
        "findings": [
            {"checker": each.checker, "kind": each.kind, "half": each.half, "at_ms": each.at_ms, "says": each.sentence}
            for each in outcome.findings
        ],
        "counts": dict(outcome.counts),
        "situations": dict(outcome.situations),
        "trace": list(outcome.trace),
        "replay": replay_command(outcome, planted),
    }


def _watched(outcomes: "Iterator[Outcome]", total: int) -> "Iterator[Outcome]":
    """Pass outcomes on, with a bar on stderr if somebody sits there."""
    if not sys.stderr.isatty():
        yield from outcomes
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("histories"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("histories", total=total, failed="")
        failed = 0
        for outcome in outcomes:
            failed += bool(outcome.verdict.value)
            bar.update(task, advance=1, failed=f"{failed} failed" if failed else "")
            yield outcome
