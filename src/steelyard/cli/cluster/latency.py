"""`steelyard cluster latency`: how long each broker takes to store a message.

Messages are sent one after the other, each to the topic that every broker has under its own name and nobody reads. The
first one opens the line and is not counted.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.exits import Exit
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin

__all__ = ["latency", "percentile"]


@at_cluster
def latency(
    where: Where,
    out: Out,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many messages to each broker.")] = 100,
    size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="How large each is.")] = 128,
    broker: Annotated[
        list[str] | None,
        typer.Option("--broker", help="Only this broker; several by repeating it.", show_default="all brokers"),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster's.", show_default=False)
    ] = None,
) -> None:
    """Measure how long each broker takes to store a message.

    It ends with 1 if a broker did not store them all.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        names = broker or [each.broker for each in admin.servers(cluster=cluster) if each.is_master]
        rows = [_measure(admin, name, count, size) for name in dict.fromkeys(names)]
    milliseconds = [
        Column(f"{word}_ms", f"{word} ms", right=True, show="{:.2f}".format) for word in ("min", "avg", "p99", "max")
    ]
    columns = [Column("broker"), Column("sent", right=True), Column("failed", right=True), *milliseconds]
    out.rows([*columns, Column("problem")] if any(row["failed"] for row in rows) else columns, rows)
    if not rows or any(row["failed"] for row in rows):
        raise typer.Exit(Exit.FAILED)


def _measure(admin: "Admin", broker: str, count: int, size: int) -> dict[str, object]:
    from steelyard.cli.frame.screen import Progress
    from steelyard.errors import BrokerNotFound, ConfigurationError, SteelyardError

    took_ms: list[float] = []
    failed, problem = 0, None
    progress = Progress()
    for number in range(-1, count):
        try:
            one_ms = admin.probe(broker, size=size)
            if number >= 0:
                took_ms.append(one_ms)
        except (BrokerNotFound, ConfigurationError):
            raise
        except SteelyardError as error:
            failed, problem = failed + 1, error.what
            if not took_ms:
                break
        progress.tell(lambda: f"{broker}: {len(took_ms)} of {count}")
    progress.clear()
    took_ms.sort()
    return {
        "broker": broker,
        "sent": len(took_ms),
        "failed": failed,
        "min_ms": took_ms[0] if took_ms else None,
        "avg_ms": sum(took_ms) / len(took_ms) if took_ms else None,
        "p99_ms": percentile(took_ms, 99) if took_ms else None,
        "max_ms": took_ms[-1] if took_ms else None,
        "problem": problem,
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of all values do not exceed; values are in order.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99), percentile([7.0], 1)
    (2.0, 4.0, 7.0)
    """
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
