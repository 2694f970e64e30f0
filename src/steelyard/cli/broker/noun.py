"""The noun itself, which the files beside put their verbs on, and the options that several of them have."""

from typing import Annotated

import typer

from steelyard.cli.frame.nouns import Noun

__all__ = ["ReplicaId", "app"]

app = Noun("broker", "Look at brokers, change their settings, take them out of service.")

ReplicaId = Annotated[
    int | None,
    typer.Option("--id", min=0, help="Which process of it: 0 is the master, others are replicas.", show_default="0"),
]
