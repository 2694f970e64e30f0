"""The administrator's client for programs without an event loop: each part wraps the same part of the async `Admin`."""

from steelyard.client.admin import Admin as AsyncAdmin
from steelyard.client.admin.access import AccessAdmin
from steelyard.client.admin.brokers import BrokerAdmin
from steelyard.client.admin.dead_letters import DeadLetterAdmin
from steelyard.client.admin.groups import GroupAdmin
from steelyard.client.admin.messages import MessageAdmin
from steelyard.client.admin.name_servers import NameServerAdmin
from steelyard.client.admin.offsets import OffsetAdmin
from steelyard.client.admin.producers import ProducerAdmin
from steelyard.client.admin.topics import TopicAdmin
from steelyard.client.config import NamesrvOrConfig
from steelyard.client.sync.client import SyncClient, SyncPart, blocking


class SyncTopicAdmin(SyncPart[TopicAdmin]):
    """Topics: `Admin.topics`."""

    list = blocking(TopicAdmin.list)
    describe = blocking(TopicAdmin.describe)
    create = blocking(TopicAdmin.create)
    add_queues = blocking(TopicAdmin.add_queues)
    delete = blocking(TopicAdmin.delete)
    route = blocking(TopicAdmin.route)
    groups = blocking(TopicAdmin.groups)
    configs = blocking(TopicAdmin.configs)
    plan = blocking(TopicAdmin.plan)
    apply = blocking(TopicAdmin.apply)
    order = blocking(TopicAdmin.order)
    set_order = blocking(TopicAdmin.set_order)
    clear_order = blocking(TopicAdmin.clear_order)
    throughput = blocking(TopicAdmin.throughput)


class SyncGroupAdmin(SyncPart[GroupAdmin]):
    """Consumer groups: `Admin.groups`."""

    list = blocking(GroupAdmin.list)
    names = blocking(GroupAdmin.names)
    describe = blocking(GroupAdmin.describe)
    summarize = blocking(GroupAdmin.summarize)
    configs = blocking(GroupAdmin.configs)
    create = blocking(GroupAdmin.create)
    plan = blocking(GroupAdmin.plan)
    apply = blocking(GroupAdmin.apply)
    set_request_mode = blocking(GroupAdmin.set_request_mode)
    delete = blocking(GroupAdmin.delete)
    members = blocking(GroupAdmin.members)
    member_status = blocking(GroupAdmin.member_status)
    rebalance_history = blocking(GroupAdmin.rebalance_history)
    rebalance_history_since = blocking(GroupAdmin.rebalance_history_since)
    has_rebalance_history = blocking(GroupAdmin.has_rebalance_history)


class SyncOffsetAdmin(SyncPart[OffsetAdmin]):
    """Offsets of groups: `Admin.offsets`."""

    list = blocking(OffsetAdmin.list)
    lag = blocking(OffsetAdmin.lag)
    in_memory = blocking(OffsetAdmin.in_memory)
    plan_reset = blocking(OffsetAdmin.plan_reset)
    plan_resets = blocking(OffsetAdmin.plan_resets)
    plan_copy = blocking(OffsetAdmin.plan_copy)
    apply = blocking(OffsetAdmin.apply)
    reset = blocking(OffsetAdmin.reset)


class SyncMessageAdmin(SyncPart[MessageAdmin]):
    """Messages: `Admin.messages`."""

    find = blocking(MessageAdmin.find)
    find_by_key = blocking(MessageAdmin.find_by_key)
    at = blocking(MessageAdmin.at)
    list = blocking(MessageAdmin.list)
    group_progress = blocking(MessageAdmin.group_progress)
    traces = blocking(MessageAdmin.traces)
    redeliver = blocking(MessageAdmin.redeliver)
    consume_queue = blocking(MessageAdmin.consume_queue)


class SyncDeadLetterAdmin(SyncPart[DeadLetterAdmin]):
    """Dead letters: `Admin.dead_letters`."""

    counts = blocking(DeadLetterAdmin.counts)
    list = blocking(DeadLetterAdmin.list)
    queues = blocking(DeadLetterAdmin.queues)
    find = blocking(DeadLetterAdmin.find)
    delete = blocking(DeadLetterAdmin.delete)
    resend = blocking(DeadLetterAdmin.resend)
    resends = blocking(DeadLetterAdmin.resends)


class SyncProducerAdmin(SyncPart[ProducerAdmin]):
    """Producers: `Admin.producers`."""

    list = blocking(ProducerAdmin.list)
    of_group = blocking(ProducerAdmin.of_group)


class SyncBrokerAdmin(SyncPart[BrokerAdmin]):
    """Brokers: `Admin.brokers`."""

    list = blocking(BrokerAdmin.list)
    instances = blocking(BrokerAdmin.instances)
    describe = blocking(BrokerAdmin.describe)
    config = blocking(BrokerAdmin.config)
    plan_config = blocking(BrokerAdmin.plan_config)
    set_config = blocking(BrokerAdmin.set_config)
    lag = blocking(BrokerAdmin.lag)
    throughput = blocking(BrokerAdmin.throughput)
    probe = blocking(BrokerAdmin.probe)
    stop_writes = blocking(BrokerAdmin.stop_writes)
    allow_writes = blocking(BrokerAdmin.allow_writes)
    read_only_topics = blocking(BrokerAdmin.read_only_topics)
    clean = blocking(BrokerAdmin.clean)


class SyncNameServerAdmin(SyncPart[NameServerAdmin]):
    """Name servers: `Admin.name_servers`."""

    list = blocking(NameServerAdmin.list)
    config = blocking(NameServerAdmin.config)
    set_config = blocking(NameServerAdmin.set_config)
    key_values = blocking(NameServerAdmin.key_values)
    key_value = blocking(NameServerAdmin.key_value)
    set_key_value = blocking(NameServerAdmin.set_key_value)
    delete_key_value = blocking(NameServerAdmin.delete_key_value)


class SyncAccessAdmin(SyncPart[AccessAdmin]):
    """Users and policies: `Admin.access`."""

    users = blocking(AccessAdmin.users)
    user = blocking(AccessAdmin.user)
    create_user = blocking(AccessAdmin.create_user)
    set_user = blocking(AccessAdmin.set_user)
    delete_user = blocking(AccessAdmin.delete_user)
    copy_users = blocking(AccessAdmin.copy_users)
    policies = blocking(AccessAdmin.policies)
    create_policy = blocking(AccessAdmin.create_policy)
    set_policy = blocking(AccessAdmin.set_policy)
    delete_policy = blocking(AccessAdmin.delete_policy)
    copy_policies = blocking(AccessAdmin.copy_policies)


class Admin(SyncClient[AsyncAdmin]):
    """Administers a cluster: ours, or Apache's from 4.9 on.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster(brokers=2) as cluster, Admin(cluster.namesrv) as admin:
    ...     created = admin.topics.create("orders", 8)
    ...     len(created.queues), [topic.name for topic in admin.topics.list()]
    ...     admin.groups.create("billing", retries=3)
    ...     print(admin.offsets.plan_reset("billing", "orders", "last"))
    (16, ['orders'])
    group billing in orders: 16 queues, skips 0, repeats 0, no member online
    """

    def __init__(self, namesrv: NamesrvOrConfig = None) -> None:
        client = AsyncAdmin(namesrv)
        super().__init__(client)
        self.topics = SyncTopicAdmin(self, client.topics)
        self.groups = SyncGroupAdmin(self, client.groups)
        self.offsets = SyncOffsetAdmin(self, client.offsets)
        self.messages = SyncMessageAdmin(self, client.messages)
        self.dead_letters = SyncDeadLetterAdmin(self, client.dead_letters)
        self.producers = SyncProducerAdmin(self, client.producers)
        self.brokers = SyncBrokerAdmin(self, client.brokers)
        self.name_servers = SyncNameServerAdmin(self, client.name_servers)
        self.access = SyncAccessAdmin(self, client.access)

    export = blocking(AsyncAdmin.export)
