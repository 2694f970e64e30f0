"""`steelyard broker container`: brokers that share one process, which Apache RocketMQ 5 calls a container."""

from typing import Annotated

import typer

from steelyard.cli.frame.arguments import BrokerName
from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.where import Where, at_cluster

__all__ = ["container"]

container = Noun("container", "Start and stop brokers that share one process.")

_Container = Annotated[
    str, typer.Argument(metavar="CONTAINER", help="The container's address, host:port.", show_default=False)
]


@container.verb("add", "steelyard broker container add 10.0.0.7:10811 /etc/rocketmq/broker-b.conf")
@at_cluster
def _add(
    where: Where,
    out: Out,
    address: _Container,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Its settings, on the container's machine.", show_default=False)
    ],
) -> None:
    """Start a broker in a container."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.add_to_container(address, file)
    out.done(f"{address} runs the broker of {file}", container=address, file=file)


@container.verb("remove", "steelyard broker container remove 10.0.0.7:10811 broker-b --id 0 --cluster DefaultCluster")
@at_cluster
def _remove(
    where: Where,
    out: Out,
    address: _Container,
    broker: BrokerName,
    broker_id: Annotated[int, typer.Option("--id", min=0, help="Which process of it; 0 is the master.")] = 0,
    cluster: Annotated[str | None, typer.Option(help="Its cluster.", show_default="as name servers say")] = None,
    yes: Yes = False,
) -> None:
    """Stop a broker that runs in a container."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = cluster or admin.servers(broker)[0].cluster
        confirm(f"{address} would stop broker {broker} (id {broker_id}) of {found}", yes)
        admin.remove_from_container(address, found, broker, broker_id)
    out.done(
        f"{address} does not run {broker} (id {broker_id}) any more", container=address, broker=broker, id=broker_id
    )
