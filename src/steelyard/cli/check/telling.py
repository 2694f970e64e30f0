"""One look and its line, or looks again and again with what changed marked."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steelyard.cli.check.verdict import Level, Verdict
    from steelyard.cli.frame.ending import Ending
    from steelyard.cli.frame.output import Out

__all__ = ["changed", "run_checks"]

_LEAST_S = 0.05
_NOTICE_S = 0.1


def run_checks(
    look: "Callable[[], Coroutine[Any, Any, Verdict]]", out: "Out", every: str | None, count: int | None
) -> int:
    """Look once, or every so often until told to end; return the exit code of the last look."""
    with log_on_stderr(is_quiet=True):
        if every is None:
            verdict = asyncio.run(look())
            if out.is_table:
                for line in verdict.lines():
                    out.done(line)
            else:
                out.one(verdict.values())
            return int(verdict.level)
        return _again_and_again(look, out, _pause(every), count)


def _pause(every: str) -> float:
    pause_s = seconds(every)
    if pause_s < _LEAST_S:
        raise ConfigurationError(f"--every is {every}", next_step=f"give {_LEAST_S:g}s or more, such as 30s")
    return pause_s


def _again_and_again(
    look: "Callable[[], Coroutine[Any, Any, Verdict]]", out: "Out", pause_s: float, count: int | None
) -> int:
    before: dict[str, Level] = {}
    code, looks = int(Exit.INTERRUPTED), 0
    with until_told() as ending:
        while not ending:
            verdict, at = asyncio.run(_unless_told(look, ending)), datetime.now(UTC)
            if verdict is None:
                break
            code, looks = int(verdict.level), looks + 1
            if out.is_table:
                for line in changed(verdict, before):
                    out.done(f"{at:%H:%M:%S} {line}")
            else:
                was = before.get(verdict.about)
                out.one({"at": at, "was": None if was is None else was.name.lower(), **verdict.values()})
            now = {each.about: each.level for each in (verdict, *verdict.parts)}
            before = before | now if _is_blind(verdict) else now
            if looks == count:
                break
            ending.wait(pause_s)
    return code


async def _unless_told(look: "Callable[[], Coroutine[Any, Any, Verdict]]", ending: "Ending") -> "Verdict | None":
    """Look, unless somebody wants it to end: who watches a server that hangs does not want to wait for it."""
    looking = asyncio.create_task(look())
    while not looking.done():
        await asyncio.wait({looking}, timeout=_NOTICE_S)
        if ending and not looking.done():
            looking.cancel()
            await asyncio.wait({looking})
            return None
    return looking.result()


def _is_blind(verdict: "Verdict") -> bool:
    """Say whether it was not even seen what there is to be checked: nothing is gone then."""
    return len(verdict.parts) == 1 and verdict.level is verdict.level.CRITICAL


def changed(verdict: "Verdict", before: "dict[str, Level]") -> list[str]:
    """Return the line of a verdict, marked if its level is another one, and lines of parts that are new or changed.

    >>> from steelyard.cli.check.verdict import Level, Reason, Verdict
    >>> now = Verdict("group billing", "all is well", (Reason(Level.CRITICAL, "nobody is online"),))
    >>> changed(now, {"group billing": Level.OK})
    ['CRITICAL (was OK) group billing: nobody is online']
    >>> changed(now, {"group billing": Level.CRITICAL})
    ['CRITICAL group billing: nobody is online']
    """
    told = []
    for each in (verdict, *verdict.parts):
        was = before.get(each.about)
        if was is not None and was is not each.level:
            level, _, rest = each.line().partition(" ")
            told.append(f"{level} (was {was.name}) {rest}")
        elif each is verdict or was is None:
            told.append(each.line())
    now = {each.about for each in (verdict, *verdict.parts)}
    gone = [] if _is_blind(verdict) else sorted(set(before).difference(now))
    return [*told, *(f"GONE (was {before[about].name}) {about}" for about in gone)]
