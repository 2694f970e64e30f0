"""The page about options: one table for each value that sets something up."""

from typing import NamedTuple

from steelyard.balance.group.options import MemberTimings
from steelyard.broker.options import BrokerOptions
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.options import ConsumerOptions
from steelyard.client.producer.options import ProducerOptions
from steelyard.client.pull_consumer.options import PullConsumerOptions
from steelyard.store.options import StoreOptions
from tests.docs.generated.sources import cell, code, fields


class _Table(NamedTuple):
    title: str
    kind: type
    says: str


TABLES = (
    _Table(
        "ClientConfig",
        ClientConfig,
        "Where a cluster is and how to get in: the first argument of a client, where an address is not enough.",
    ),
    _Table("Producer", ProducerOptions, "Keywords of `Producer`."),
    _Table("Consumer", ConsumerOptions, "Keywords of `Consumer`."),
    _Table("PullConsumer", PullConsumerOptions, "Keywords of `PullConsumer`."),
    _Table(
        "Times of the balancing protocol",
        MemberTimings,
        "`times=` of a consumer or a pull consumer. Leave them alone, or give all members of a group the same.",
    ),
    _Table(
        "Broker",
        BrokerOptions,
        "`broker_options=` of an embedded `Cluster`. `steelyard up` has options of its own for what people set.",
    ),
    _Table("Store", StoreOptions, "`store_options=` of an embedded `Cluster`: how a broker's log lies on the disk."),
)
"""Every value that sets something up."""

_OPENING = """# Options

Every option, its default and what it does, from the code. The options of the Spark source and sink are on
[the page about Spark](../spark.md#options), those of the command line on [its page](cli.md).
"""


def options_page() -> str:
    """Write the page."""
    parts = [_OPENING.strip()]
    for table in TABLES:
        rows = [f"| `{field.name}` | {_code(field.default)} | {cell(field.says)} |" for field in fields(table.kind)]
        head = ["| option | default | what it does |", "|---|---|---|"]
        parts += [f"## {table.title}", table.says, "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    return code(text) or "it has to be given"
