"""`steelyard bench send`: how many messages a second, and how long each takes."""

import typer

from steelyard.cli.bench.options import Batch, Count, Duration, InFlight, OwnQueues, Rate, Size
from steelyard.cli.frame.arguments import SomeTopic
from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.where import Where, at_cluster

__all__ = ["bench_send"]

_USUAL_S = 10.0


@at_cluster
def bench_send(
    where: Where,
    out: Out,
    topic: SomeTopic = None,
    size: Size = 100,
    count: Count = None,
    duration: Duration = None,
    in_flight: InFlight = 64,
    batch: Batch = 1,
    rate: Rate = None,
    queues: OwnQueues = 8,
) -> None:
    """Measure sending: messages a second, and from send to answer the least, average, median, 99 % and greatest time.

    Without TOPIC it makes a topic of its own, and deletes it at the end. Ctrl-C ends it with the figures so far. The
    exit code is 1 if a send failed.
    """
    # Here and not above, so that help does not wait for what it does not need.
    import asyncio

    from steelyard.cli.bench.figures import Figures
    from steelyard.cli.bench.load import Load, run_load

    span_s = seconds(duration) if duration is not None else _USUAL_S if count is None else None
    load = Load(size, count, span_s, in_flight, batch, rate)
    figures = Figures("sent")
    with log_on_stderr(), until_told() as ending:
        asyncio.run(run_load(where.connect(), topic, queues, load, figures, ending))
    out.one(figures.values())
    if figures.failed:
        raise typer.Exit(Exit.FAILED)
