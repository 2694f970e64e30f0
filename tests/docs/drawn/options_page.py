"""The page about options: one table for each value that sets something up."""

import importlib

from tests.docs.drawn.sources import cell, fields

__all__ = ["options_page"]

_TABLES = (
    ("Connect", "steelyard.client.connect", "Where a cluster is and how to get in: the first argument of every client, where an address alone is not enough."),
    ("Producer", "steelyard.client.producing.producer_options.ProducerOptions", "Keywords of `Producer`."),
    ("Consumer", "steelyard.client.consuming.consumer_options.ConsumerOptions", "Keywords of `Consumer`."),
    ("Puller", "steelyard.client.pulling.puller_options.PullerOptions", "Keywords of `Puller`."),
    ("Times of the balancing protocol", "steelyard.balance.member_options.Times", "`times=` of a consumer or a puller. All members of a group should have the same; who leaves them alone has Steelyard's."),
    ("Broker", "steelyard.broker.options.BrokerOptions", "`broker_options=` of an embedded `Cluster`; `steelyard up` sets those that people need by options of its own."),
    ("Store", "steelyard.store.options.StoreOptions", "`store_options=` of an embedded `Cluster`: how a broker's log lies on the disk."),
)

_OPENING = """# Options

Every option, its default and what it does, from the code. The options of the Spark source and sink are on
[the page about Spark](../spark.md#options), those of the command line on [its page](cli.md).
"""


def options_page() -> str:
    """Write the page."""
    parts = [_OPENING.strip()]
    for title, path, says in _TABLES:
        module, _, name = path.rpartition(".") if path.rpartition(".")[2][0].isupper() else (path, ".", title)
        kind = getattr(importlib.import_module(module), name)
        rows = [
            f"| `{field.name}` | {_code(field.default)} | {cell(field.says)} |" for field in fields(kind)
        ]
        parts += [f"## {title}", says, "\n".join(["| option | default | what it does |", "|---|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    return f"`{cell(text)}`" if text else "it has to be given"
