"""The administrator's client as a whole: every noun has a file, and this is all of them."""

from steelyard.client.admin.accounts import PlainAccounts
from steelyard.client.admin.controllers import Controllers
from steelyard.client.admin.dead_letters import DeadLetters
from steelyard.client.admin.exporting import Exporting
from steelyard.client.admin.following import Following
from steelyard.client.admin.moves import Moves
from steelyard.client.admin.policies import Policies
from steelyard.client.admin.probing import Probing
from steelyard.client.admin.producers import Producers
from steelyard.client.admin.replicas import Replicas
from steelyard.client.admin.upkeep import Upkeep

__all__ = ["Admin"]


class Admin(
    Exporting, DeadLetters, Following, Moves, Producers, Probing, Replicas, Upkeep, Controllers, Policies, PlainAccounts
):
    """Looks after a cluster: ours, or Apache's from 4.9 on.

    It connects with the first question if it was not started before. What one of the brokers cannot tell is left out
    and said once in the log; what was asked for and cannot be done is an error that says why.

    >>> import asyncio
    >>> from steelyard.serve.embedded import Cluster
    >>> async def make(namesrv: str) -> int:
    ...     async with Admin(namesrv) as admin:
    ...         return len((await admin.create_topic("orders", 8)).queues)
    >>> with Cluster(brokers=2) as cluster:
    ...     asyncio.run(make(cluster.namesrv))
    16
    """
