"""`steelyard bench receive`: how many messages a second can be read, and how old they are when they come.

It reads every queue without being in a group, and leaves nothing behind. How old a message is counts only if it was
born while this runs: that is what somebody else sends meanwhile, or this itself with ``--rate``.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.bench.options import Count, Duration, OwnQueues, Rate, Size
from steelyard.cli.frame.arguments import SomeTopic
from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.screen import refuse
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

if TYPE_CHECKING:
    from steelyard.cli.bench.load import Load

__all__ = ["bench_receive"]

_OWN_COUNT = 100_000
_OWN_S = 10.0
_FILL_TOGETHER = 100
_FILL_IN_FLIGHT = 8


@at_cluster
def bench_receive(
    where: Where,
    out: Out,
    topic: SomeTopic = None,
    start: Annotated[
        str, typer.Option("--from", metavar="first|last", help="Of a topic that is there: from where on.")
    ] = "first",
    size: Size = 100,
    count: Count = None,
    duration: Duration = None,
    rate: Rate = None,
    queues: OwnQueues = 8,
) -> None:
    """Measure receiving: messages a second and megabytes a second, and how old new messages are when they come.

    With TOPIC it reads what is there, up to its end, --count or --duration. Without, it fills a topic of its own with
    --count messages (100000) first, or sends --rate a second to it meanwhile, and deletes it at the end. Ctrl-C ends it
    with the figures so far. The exit code is 1 if something that was sent did not come.
    """
    if start not in ("first", "last"):
        raise ConfigurationError(f"--from is {start!r}", next_step="give first or last")
    if topic is not None and rate is not None:
        raise ConfigurationError(
            "--rate is for a topic of its own",
            next_step=f"to send to {topic}: steelyard bench send {topic} --rate {rate:g}",
        )
    # Here and not above, so that help does not wait for what it does not need.
    import asyncio

    from steelyard.cli.bench.figures import Figures
    from steelyard.cli.bench.reads import Wish, read_own, read_topic

    span_s = None if duration is None else seconds(duration)
    if start == "last" and count is None and span_s is None:
        span_s = _OWN_S
    sent, figures = Figures("sent"), Figures("received")
    with log_on_stderr(), until_told() as ending:
        wish = Wish(start, count, span_s)
        if topic is not None:
            asyncio.run(read_topic(where.connect(), topic, wish, figures, ending))
        else:
            load = _own_load(size, count, span_s, rate)
            asyncio.run(read_own(where.connect(), load, queues, sent, figures, ending))
    out.one(figures.values())
    missing = sent.messages - figures.messages
    if missing > 0 and not ending:
        raise typer.Exit(refuse(f"{missing} messages that were sent did not come", Exit.FAILED))
    if sent.failed:
        raise typer.Exit(Exit.FAILED)


def _own_load(size: int, count: int | None, span_s: float | None, rate: float | None) -> "Load":
    from steelyard.cli.bench.load import Load

    if rate is not None:
        usual_s = span_s or (None if count else _OWN_S)
        return Load(size, count, usual_s, _FILL_IN_FLIGHT * _FILL_TOGETHER, 1, rate)
    return Load(size, count or _OWN_COUNT, span_s, _FILL_IN_FLIGHT, _FILL_TOGETHER, None)
