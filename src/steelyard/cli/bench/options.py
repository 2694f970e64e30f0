"""The options of a run, declared once."""

from typing import Annotated

import typer

__all__ = ["Batch", "Count", "Duration", "InFlight", "OwnQueues", "Rate", "Size"]

_LARGEST = 4 << 20

Size = Annotated[int, typer.Option(min=0, max=_LARGEST, help="How many bytes a body has.")]
Count = Annotated[int | None, typer.Option(min=1, help="Stop after so many messages.", show_default=False)]
Duration = Annotated[
    str | None, typer.Option(metavar="SPAN", help="Stop after 30s, 2m …", show_default="10s, if there is no --count")
]
InFlight = Annotated[int, typer.Option(min=1, max=4096, help="How many sends are under way at a time.")]
Batch = Annotated[int, typer.Option(min=1, max=4096, help="How many messages a send has.")]
Rate = Annotated[float | None, typer.Option(min=0.001, help="No more than so many a second.", show_default=False)]
OwnQueues = Annotated[int, typer.Option(min=1, max=1024, help="Queues a broker has of its own topic.")]
