"""The administrator's client as a whole: every noun has a file, and this is all of them."""

from steelyard.client.admin.cluster import Brokers
from steelyard.client.admin.groups import Groups
from steelyard.client.admin.messages import Messages

__all__ = ["Admin"]


class Admin(Groups, Messages, Brokers):
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
