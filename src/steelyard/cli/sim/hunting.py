"""`steelyard sim --hunt`: put each known bug in and look for it, as if nobody knew of it."""

from typing import IO, TYPE_CHECKING

import msgspec

from steelyard.cli.sim.histories import hunt_all

if TYPE_CHECKING:
    from steelyard.sim.planted.hunt import Catch

__all__ = ["hunt_bugs"]


def hunt_bugs(out: IO[str], planted: str | None, jobs: int | None, *, as_json: bool) -> int:
    """Hunt one bug, or all there are; say what found each as soon as it is known. Return the exit code."""
    from steelyard.sim.planted.table import BUGS

    names = tuple(BUGS) if planted is None else (planted,)
    wide = max(map(len, names))
    catches: dict[str, Catch | None] = {}
    for name, catch in hunt_all(names, jobs=jobs):
        catches[name] = catch
        if not as_json:
            out.write(f"{name:{wide}}  {_told(name, catch)}\n")
            out.flush()
    if as_json:
        answer = {name: _as_value(name, catches[name]) for name in names}
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        found = sum(catch is not None for catch in catches.values())
        out.write(f"{found} of {len(names)} bugs were found\n")
    return int(None in catches.values())


def _told(name: str, catch: "Catch | None") -> str:
    from steelyard.sim.outcome import replay_command

    if catch is None:
        return "not found"
    histories = "1 history" if catch.histories == 1 else f"{catch.histories} histories"
    return f"{catch.outcome.signature}, {histories}: {replay_command(catch.outcome, name)}"


def _as_value(name: str, catch: "Catch | None") -> dict[str, object] | None:
    from steelyard.sim.outcome import replay_command

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
