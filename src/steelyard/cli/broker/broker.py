"""`steelyard broker` as a whole: its verbs stand in the files beside, and some are nouns of their own."""

from steelyard.cli.broker import looking, replicas, upkeep, writing
from steelyard.cli.broker.cold_reads import cold_reads
from steelyard.cli.broker.config import config
from steelyard.cli.broker.container import container
from steelyard.cli.broker.noun import app

__all__ = ["PARTS", "app"]

PARTS = looking, replicas, upkeep, writing
"""The files that put their verbs on the noun when they are loaded."""

for _noun in (config, cold_reads, container):
    app.add_typer(_noun)
