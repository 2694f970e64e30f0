"""The administrator's client for programs without a loop."""

from steelyard.client.admin import Admin as AsyncAdmin
from steelyard.client.blocking.face import Face, waits
from steelyard.client.connect import Where

__all__ = ["Admin"]


class Admin(Face[AsyncAdmin]):
    """Looks after a cluster: ours, or Apache's from 4.9 on.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
    ...     made = admin.create_topic("orders", 8)
    ...     len(made.queues), [topic.name for topic in admin.topics()]
    (16, ['orders'])
    """

    def __init__(self, where: Where = None) -> None:
        super().__init__(AsyncAdmin(where))

    topics = waits(AsyncAdmin.topics)
    topic = waits(AsyncAdmin.topic)
    create_topic = waits(AsyncAdmin.create_topic)
    add_queues = waits(AsyncAdmin.add_queues)
    delete_topic = waits(AsyncAdmin.delete_topic)

    groups = waits(AsyncAdmin.groups)
    group = waits(AsyncAdmin.group)
    create_group = waits(AsyncAdmin.create_group)
    delete_group = waits(AsyncAdmin.delete_group)

    offsets = waits(AsyncAdmin.offsets)
    plan_reset = waits(AsyncAdmin.plan_reset)
    apply = waits(AsyncAdmin.apply)
    reset_offsets = waits(AsyncAdmin.reset_offsets)

    members = waits(AsyncAdmin.members)
    ask_member = waits(AsyncAdmin.ask_member)

    message = waits(AsyncAdmin.message)
    messages_by_key = waits(AsyncAdmin.messages_by_key)
    message_at = waits(AsyncAdmin.message_at)
    messages = waits(AsyncAdmin.messages)
    dead_letters = waits(AsyncAdmin.dead_letters)
    resend = waits(AsyncAdmin.resend)

    cluster = waits(AsyncAdmin.cluster)
    name_servers = waits(AsyncAdmin.name_servers)
    broker_config = waits(AsyncAdmin.broker_config)
    set_broker_config = waits(AsyncAdmin.set_broker_config)
