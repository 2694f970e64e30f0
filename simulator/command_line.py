"""`python -m simulator`: runs simulated histories with injected faults, and reports what the checkers found.

A history is its seed. It runs the real cores of members, brokers, name servers and stores in a world in which
connections break, disks fail and processes die. A failure is made smaller, described, and comes with the command that
replays it. A mutant can be planted, to see that it is found; `--hunt` does so with all mutants. Histories run in worker
processes, which are spawned, so that no state of the parent leaks into a history.

Exit codes: 0 nothing found, 1 a safety finding, or a mutant that was not found, 2 wrong usage, 3 a liveness finding, 4
the simulator or a core raised an error.
"""

import os
import sys
import time
from collections import Counter
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, TypeVar

import msgspec
from click.exceptions import Exit

from steelyard.cli.shared.commands import command, run_app
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import guard_output, make_console
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulator.mutants.hunt import MutantCatch
    from simulator.outcome import HistoryOutcome

A = TypeVar("A")
B = TypeVar("B")

_MAX_CHUNK = 16


def _run_histories(
    seeds: range, *, only: str | None = None, mutant: str | None = None, jobs: int | None = None
) -> "Iterator[HistoryOutcome]":
    """Run the histories of these seeds, and yield the outcomes in any order."""
    workers = _job_count(jobs, len(seeds))
    size = max(1, min(_MAX_CHUNK, len(seeds) // (4 * workers)))
    if workers == 1 or mutant is not None:
        size = 1  # a failure is reported before the rest of its chunk has run
    pieces = [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]
    for outcomes in _map_in_processes(partial(_run_chunk, only=only, mutant=mutant), pieces, workers):
        yield from outcomes


def _hunt_in_processes(
    names: "Sequence[str]", *, jobs: int | None = None
) -> "Iterator[tuple[str, MutantCatch | None]]":
    """Hunt mutants, and yield each with its catch, in any order."""
    return _map_in_processes(_hunt_one, names, _job_count(jobs, len(names)))


def _job_count(jobs: int | None, pieces: int) -> int:
    return max(1, min(jobs or os.cpu_count() or 1, pieces))


def _map_in_processes(work: "Callable[[A], B]", pieces: "Sequence[A]", jobs: int) -> "Iterator[B]":
    """Apply a function to each piece in worker processes, and yield the results in any order."""
    if jobs == 1:
        yield from map(work, pieces)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(work, piece) for piece in pieces]):
            yield future.result()
    finally:
        # A consumer that stops early, or an interrupt, does not wait for the remaining pieces.
        pool.shutdown(wait=True, cancel_futures=True)


def _run_chunk(seeds: tuple[int, ...], only: str | None, mutant: str | None) -> "list[HistoryOutcome]":
    from simulator.history import run_history

    return [run_history(seed, only, mutant=mutant) for seed in seeds]


def _hunt_one(name: str) -> "tuple[str, MutantCatch | None]":
    from simulator.mutants.catalog import MUTANTS
    from simulator.mutants.hunt import hunt

    return name, hunt(MUTANTS[name])


def _hunt_mutants(out: IO[str], mutant: str | None, jobs: int | None, *, as_json: bool) -> int:
    """Hunt one mutant, or all; print what found each as soon as it is known. Return the exit code."""
    from simulator.mutants.catalog import MUTANTS

    names = tuple(MUTANTS) if mutant is None else (mutant,)
    width = max(map(len, names))
    catches: dict[str, MutantCatch | None] = {}
    for name, catch in _hunt_in_processes(names, jobs=jobs):
        catches[name] = catch
        if not as_json:
            out.write(f"{name:{width}}  {_format_catch(name, catch)}\n")
            out.flush()
    if as_json:
        answer = {name: _catch_value(name, catches[name]) for name in names}
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        found = sum(catch is not None for catch in catches.values())
        out.write(f"{found} of {len(names)} bugs were found\n")
    return int(None in catches.values())


def _format_catch(name: str, catch: "MutantCatch | None") -> str:
    from simulator.outcome import replay_command

    if catch is None:
        return "not found"
    histories = "1 history" if catch.histories == 1 else f"{catch.histories} histories"
    return f"{catch.outcome.signature}, {histories}: {replay_command(catch.outcome, name)}"


def _catch_value(name: str, catch: "MutantCatch | None") -> dict[str, object] | None:
    from simulator.outcome import replay_command

    if catch is None:
        return None
    outcome = catch.outcome
    return {
        "checker": outcome.signature,
        "kind": outcome.kind,
        "seed": outcome.seed,
        "histories": catch.histories,
        "replay": replay_command(outcome, name),
    }


_MAX_SHRUNK = 3
"""How many different failures are made smaller: each takes up to 150 histories."""


@command("python -m simulator --histories 200", "python -m simulator --seed 7", "python -m simulator --hunt")
def _simulate(
    histories: Annotated[int, option(min=1, help="Number of histories.")] = 100,
    seed: Annotated[int, option(min=0, help="Seed of the first history.")] = 0,
    only: Annotated[str | None, option(help="Only histories of this kind.")] = None,
    replay: Annotated[int | None, option(min=0, help="Run the history of this seed alone, and describe it.")] = None,
    drop: Annotated[str, option(help="With --replay: leave these parts out, such as f3,m2,n50.")] = "",
    trace: Annotated[bool, option(help="With --replay: print every event.")] = False,
    jobs: Annotated[int | None, option(min=1, help="Number of worker processes; all cores if not given.")] = None,
    plant: Annotated[str | None, option(help="Plant this bug, and stop once it is found.")] = None,
    hunt: Annotated[bool, option(help="Plant each known bug in turn, and print what finds it.")] = False,
    output: Annotated[str, option(help="text, or json for programs.")] = "text",
) -> None:
    """Run simulated histories with injected faults.

    Processes crash, connections break and power is lost; checkers verify that nothing is lost or handled twice.
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
        from simulator.generators import draw_scenario

        draw_scenario(seed, only)  # an unknown kind is refused before anything starts
    if plant is not None:
        from simulator.mutants.catalog import find_mutant

        find_mutant(plant)
    out = make_console().file
    as_json = output == "json"
    if hunt:
        raise Exit(_hunt_mutants(out, plant, jobs, as_json=as_json))
    if replay is not None:
        dropped = tuple(part.strip() for part in drop.split(",") if part.strip())
        raise Exit(_replay(out, replay, only, dropped, plant, trace=trace, as_json=as_json))
    raise Exit(_run_seeds(out, range(seed, seed + histories), only, plant, jobs, as_json=as_json))


def _replay(
    out: IO[str],
    seed: int,
    only: str | None,
    dropped: tuple[str, ...],
    mutant: str | None,
    *,
    trace: bool,
    as_json: bool,
) -> int:
    from simulator.generators import draw_scenario
    from simulator.history import run_history
    from simulator.outcome import format_findings
    from simulator.scenario import describe, without_parts

    outcome = run_history(seed, only, dropped=dropped, mutant=mutant, trace=trace)
    scenario = without_parts(draw_scenario(seed, outcome.kind), dropped)
    if as_json:
        out.write(msgspec.json.encode(_outcome_value(outcome, mutant)).decode() + "\n")
        return int(outcome.verdict.value)
    out.write(f"history {seed}, {scenario.kind}\n")
    out.writelines(f"  {line}\n" for line in describe(scenario))
    out.writelines(f"{line}\n" for line in outcome.trace)
    out.writelines(f"{line}\n" for line in format_findings(outcome))
    out.write(", ".join(f"{count} {name}" for name, count in outcome.counts.items()) + "\n")
    out.write(f"digest {outcome.digest}: {outcome.verdict.name.lower()}\n")
    return int(outcome.verdict.value)


def _run_seeds(
    out: IO[str], seeds: range, only: str | None, mutant: str | None, jobs: int | None, *, as_json: bool
) -> int:
    from simulator.outcome import replay_command

    began, ran = time.monotonic(), 0
    situations: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    failed: list[HistoryOutcome] = []
    for outcome in _with_progress_bar(_run_histories(seeds, only=only, mutant=mutant, jobs=jobs), len(seeds)):
        ran += 1
        situations.update(outcome.situations)
        counts.update(outcome.counts)
        if outcome.verdict.value:
            failed.append(outcome)
            if mutant is not None:
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
            "failed": [_outcome_value(outcome, mutant) for outcome in failed],
        }
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        _print_situations(out, situations)
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        out.write(f"{ran} histories in {seconds:.1f} s: {summary}\n")
        described = _first_of_each_signature(failed)
        for outcome in described:
            _print_failure(out, outcome, mutant)
        for outcome in failed:
            if outcome not in described:
                out.write(f"history {outcome.seed}, {outcome.kind}: {outcome.signature}\n")
                out.write(f"  replay: {replay_command(outcome, mutant)}\n")
        out.write(f"{len(failed)} of {ran} histories failed\n" if failed else "no history failed\n")
    return int(min((outcome.verdict.value for outcome in failed), default=0))


def _print_situations(out: IO[str], situations: Counter[str]) -> None:
    width = len(f"{max(situations.values(), default=0)}")
    out.writelines(f"{count:>{width}}  {name}\n" for name, count in sorted(situations.items()))


def _first_of_each_signature(failed: "list[HistoryOutcome]") -> "list[HistoryOutcome]":
    """Return the first failure of each signature, but no more than can be made smaller in a while."""
    first: dict[str, HistoryOutcome] = {}
    for outcome in failed:
        first.setdefault(outcome.signature, outcome)
    return list(first.values())[:_MAX_SHRUNK]


def _print_failure(out: IO[str], outcome: "HistoryOutcome", mutant: str | None) -> None:
    from simulator.generators import draw_scenario
    from simulator.history import run_history
    from simulator.outcome import format_findings, replay_command
    from simulator.scenario import describe, without_parts
    from simulator.shrink import shrink

    seed, kind = outcome.seed, outcome.kind
    scenario = draw_scenario(seed, kind)
    smallest = shrink(scenario, outcome, lambda dropped: run_history(seed, kind, dropped=dropped, mutant=mutant))
    out.write(f"history {seed}, {kind}: {outcome.signature}\n")
    out.writelines(f"  {line}\n" for line in describe(without_parts(scenario, smallest.dropped)))
    out.writelines(f"  {line}\n" for line in format_findings(smallest))
    out.write(f"  replay: {replay_command(smallest, mutant)}\n")


def _outcome_value(outcome: "HistoryOutcome", mutant: str | None) -> dict[str, object]:
    from simulator.outcome import replay_command

    return {
        "seed": outcome.seed,
        "kind": outcome.kind,
        "verdict": outcome.verdict.name.lower(),
        "digest": outcome.digest,
        "error": outcome.error,
        "findings": [
            {
                "checker": each.checker,
                "kind": each.kind,
                "half": each.subsystem,
                "at_ms": each.at_ms,
                "says": each.sentence,
            }
            for each in outcome.findings
        ],
        "counts": dict(outcome.counts),
        "situations": dict(outcome.situations),
        "trace": list(outcome.trace),
        "replay": replay_command(outcome, mutant),
    }


def _with_progress_bar(outcomes: "Iterator[HistoryOutcome]", total: int) -> "Iterator[HistoryOutcome]":
    """Yield the outcomes, with a progress bar if stderr is a terminal."""
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


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guard_output(lambda: run_app(_simulate, words, "python -m simulator"))
