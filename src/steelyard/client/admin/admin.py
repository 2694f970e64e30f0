"""The administrator's client as a whole: every noun has a file, and this is all of them."""

from steelyard.client.admin.cluster import Brokers
from steelyard.client.admin.groups import Groups
from steelyard.client.admin.messages import Messages

__all__ = ["Admin"]


class Admin(Groups, Messages, Brokers):
    """Looks after a cluster: ours, or Apache's from 4.9 on.

        async with Admin("localhost:9876") as admin:
            await admin.create_topic("orders", 16)
            print(await admin.group("billing"))

    It connects with the first question if it was not started before. What one of the brokers cannot tell is left out
    and said once in the log; what was asked for and cannot be done is an error that says why.
    """
