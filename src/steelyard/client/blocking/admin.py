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
    topic_route = waits(AsyncAdmin.topic_route)
    topic_groups = waits(AsyncAdmin.topic_groups)
    topic_setups = waits(AsyncAdmin.topic_setups)
    plan_topics = waits(AsyncAdmin.plan_topics)
    apply_topics = waits(AsyncAdmin.apply_topics)
    topic_order = waits(AsyncAdmin.topic_order)
    fix_order = waits(AsyncAdmin.fix_order)
    clear_order = waits(AsyncAdmin.clear_order)

    groups = waits(AsyncAdmin.groups)
    group_names = waits(AsyncAdmin.group_names)
    group = waits(AsyncAdmin.group)
    glance = waits(AsyncAdmin.glance)
    group_rules = waits(AsyncAdmin.group_rules)
    plan_groups = waits(AsyncAdmin.plan_groups)
    apply_groups = waits(AsyncAdmin.apply_groups)
    set_request_mode = waits(AsyncAdmin.set_request_mode)
    create_group = waits(AsyncAdmin.create_group)
    delete_group = waits(AsyncAdmin.delete_group)
    moves = waits(AsyncAdmin.moves)
    moves_since = waits(AsyncAdmin.moves_since)
    keeps_moves = waits(AsyncAdmin.keeps_moves)

    offsets = waits(AsyncAdmin.offsets)
    lag = waits(AsyncAdmin.lag)
    held_offsets = waits(AsyncAdmin.held_offsets)
    plan_reset = waits(AsyncAdmin.plan_reset)
    plan_resets = waits(AsyncAdmin.plan_resets)
    plan_copy = waits(AsyncAdmin.plan_copy)
    apply = waits(AsyncAdmin.apply)
    reset_offsets = waits(AsyncAdmin.reset_offsets)

    members = waits(AsyncAdmin.members)
    ask_member = waits(AsyncAdmin.ask_member)

    message = waits(AsyncAdmin.message)
    messages_by_key = waits(AsyncAdmin.messages_by_key)
    message_at = waits(AsyncAdmin.message_at)
    messages = waits(AsyncAdmin.messages)
    readers = waits(AsyncAdmin.readers)
    traces = waits(AsyncAdmin.traces)
    redeliver = waits(AsyncAdmin.redeliver)
    queue_index = waits(AsyncAdmin.queue_index)
    export_pop_records = waits(AsyncAdmin.export_pop_records)

    given_up = waits(AsyncAdmin.given_up)
    dead_letters = waits(AsyncAdmin.dead_letters)
    dead_letter_queues = waits(AsyncAdmin.dead_letter_queues)
    dead_letter = waits(AsyncAdmin.dead_letter)
    delete_dead_letters = waits(AsyncAdmin.delete_dead_letters)
    resend = waits(AsyncAdmin.resend)

    producers = waits(AsyncAdmin.producers)
    producer = waits(AsyncAdmin.producer)

    broker_flows = waits(AsyncAdmin.broker_flows)
    topic_flows = waits(AsyncAdmin.topic_flows)
    probe = waits(AsyncAdmin.probe)
    export = waits(AsyncAdmin.export)

    key_values = waits(AsyncAdmin.key_values)
    key_value = waits(AsyncAdmin.key_value)
    set_key_value = waits(AsyncAdmin.set_key_value)
    delete_key_value = waits(AsyncAdmin.delete_key_value)
    name_server_config = waits(AsyncAdmin.name_server_config)
    set_name_server_config = waits(AsyncAdmin.set_name_server_config)

    cluster = waits(AsyncAdmin.cluster)
    name_servers = waits(AsyncAdmin.name_servers)
    broker_config = waits(AsyncAdmin.broker_config)
    set_broker_config = waits(AsyncAdmin.set_broker_config)
    servers = waits(AsyncAdmin.servers)
    broker = waits(AsyncAdmin.broker)
    plan_broker_config = waits(AsyncAdmin.plan_broker_config)
    broker_lag = waits(AsyncAdmin.broker_lag)
    replicas = waits(AsyncAdmin.replicas)
    epochs = waits(AsyncAdmin.epochs)

    stop_writes = waits(AsyncAdmin.stop_writes)
    allow_writes = waits(AsyncAdmin.allow_writes)
    not_writable = waits(AsyncAdmin.not_writable)
    clean_broker = waits(AsyncAdmin.clean_broker)
    cold_reads = waits(AsyncAdmin.cold_reads)
    limit_cold_reads = waits(AsyncAdmin.limit_cold_reads)
    unlimit_cold_reads = waits(AsyncAdmin.unlimit_cold_reads)
    set_read_ahead = waits(AsyncAdmin.set_read_ahead)
    check_index = waits(AsyncAdmin.check_index)
    set_flushed = waits(AsyncAdmin.set_flushed)
    add_to_container = waits(AsyncAdmin.add_to_container)
    remove_from_container = waits(AsyncAdmin.remove_from_container)

    controllers = waits(AsyncAdmin.controllers)
    controller_config = waits(AsyncAdmin.controller_config)
    plan_controller_config = waits(AsyncAdmin.plan_controller_config)
    set_controller_config = waits(AsyncAdmin.set_controller_config)
    known_replicas = waits(AsyncAdmin.known_replicas)
    elect = waits(AsyncAdmin.elect)
    forget_broker = waits(AsyncAdmin.forget_broker)

    users = waits(AsyncAdmin.users)
    user = waits(AsyncAdmin.user)
    create_user = waits(AsyncAdmin.create_user)
    set_user = waits(AsyncAdmin.set_user)
    delete_user = waits(AsyncAdmin.delete_user)
    copy_users = waits(AsyncAdmin.copy_users)

    policies = waits(AsyncAdmin.policies)
    create_policy = waits(AsyncAdmin.create_policy)
    set_policy = waits(AsyncAdmin.set_policy)
    delete_policy = waits(AsyncAdmin.delete_policy)
    copy_policies = waits(AsyncAdmin.copy_policies)

    accounts = waits(AsyncAdmin.accounts)
    account = waits(AsyncAdmin.account)
    set_account = waits(AsyncAdmin.set_account)
    delete_account = waits(AsyncAdmin.delete_account)
    open_addresses = waits(AsyncAdmin.open_addresses)
    set_open_addresses = waits(AsyncAdmin.set_open_addresses)
    account_files = waits(AsyncAdmin.account_files)
