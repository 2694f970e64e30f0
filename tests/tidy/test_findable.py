"""A RocketMQ or Kafka engineer finds everything by name: each question leads to its file by a word in the file's path.

The words are those of the field: of RocketMQ's classes, of Kafka's documentation, of a client's options. A file that is
moved keeps one of them in its name, or the question gets another word.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.tidy.tree import SRC, Source, complain, modules, product


class Question(NamedTuple):
    """What somebody looks for, the words that he searches for, and the file that must be found by one of them."""

    text: str
    words: str
    path: str


QUESTIONS = [
    Question(*row)
    for row in (
        (
            "TopicPublishInfo, the publish list of a topic, and the default topic TBW102",
            "publish route",
            "model/route.py",
        ),
        ("where a topic's route is fetched, cached and refreshed", "topic_routes routes", "client/topic_routes.py"),
        (
            "which queue a message goes to (MQFaultStrategy, partitioner)",
            "queue_selection",
            "balance/producer/queue_selection.py",
        ),
        (
            "latency fault tolerance: which broker is avoided, and how long",
            "latency",
            "balance/producer/broker_latency.py",
        ),
        ("how often and where one send is tried", "send_attempts attempts retry", "balance/producer/send_attempts.py"),
        ("batch accumulator: messages that share a request", "accumulator", "client/producer/accumulator.py"),
        ("the options of a producer", "producer/options", "client/producer/options.py"),
        ("what a send returns", "send_result", "client/producer/send_result.py"),
        ("transactional messages at the producer", "transactions", "client/producer/transactions.py"),
        ("half messages at the broker", "half_messages", "broker/half_messages.py"),
        ("check-back of open transactions", "transaction_checks", "broker/transaction_checks.py"),
        ("request-reply (RPC) at the producer", "request_reply", "client/producer/request_reply.py"),
        (
            "one producer's latency table as it is reported to brokers",
            "latency_report",
            "client/producer/latency_report.py",
        ),
        ("consume from where: the first offset of a group", "start_offset offset", "balance/group/start_offset.py"),
        ("the heartbeat as a client builds it", "heartbeat", "balance/group/heartbeats.py"),
        ("the heartbeat as a broker handles it", "heartbeat", "broker/requests/heartbeat.py"),
        ("when a silent client is dropped", "client_expiry expiry", "broker/client_expiry.py"),
        (
            "ConsumerManager: members of groups, as a broker knows them",
            "consumer_registry",
            "broker/consumer_registry.py",
        ),
        ("ProducerManager", "producer_registry", "broker/producer_registry.py"),
        ("NOTIFY_CONSUMER_IDS_CHANGED", "notifications notify", "broker/member_notifications.py"),
        ("who subscribes to what in a group", "subscriptions", "broker/subscriptions.py"),
        ("the rebalance loop of a member (RebalanceImpl)", "rebalance", "balance/group/rebalance.py"),
        ("member lists as brokers report them", "member_lists", "balance/group/member_lists.py"),
        ("which queues a member should own", "assignment", "balance/group/assignment.py"),
        ("ProcessQueue", "process_queue", "balance/group/process_queue.py"),
        (
            "the states of an assigned queue and what changes them",
            "queue_states queue_transitions",
            "balance/group/queue_transitions.py",
        ),
        ("flow control: may this queue pull now", "flow_control", "balance/group/flow_control.py"),
        ("messages in flight and the lowest unfinished offset", "inflight", "balance/group/inflight_window.py"),
        ("fetching: when the next pull is sent", "fetch pull", "balance/group/fetch.py"),
        ("when offsets are committed", "offset_commits", "balance/group/offset_commits.py"),
        (
            "queue locks at the client (RebalanceLockManager's counterpart)",
            "queue_locks",
            "balance/group/queue_locks.py",
        ),
        ("queue locks at the broker", "queue_locks", "broker/queue_locks.py"),
        ("who owns which queue, asked of the members", "ownership", "balance/group/ownership_probe.py"),
        ("AllocateMessageQueueAveragely", "average", "balance/assignors/average.py"),
        ("AllocateMessageQueueConsistentHash", "consistent_hash", "balance/assignors/consistent_hash.py"),
        ("AllocateMessageQueueByMachineRoom", "machine_room", "balance/assignors/machine_room.py"),
        ("sticky assignment (StickyAssignor)", "sticky", "balance/assignors/sticky.py"),
        ("why a queue moved, and the dry run of a rebalance", "explain", "balance/assignors/explain.py"),
        ("strategies by their names", "registry strategy", "balance/assignors/registry.py"),
        ("long polling: pulls that wait (PullRequestHoldService)", "long_polling held_pulls", "broker/long_polling.py"),
        ("delay levels and timers (ScheduleMessageService)", "delayed", "broker/delayed_delivery.py"),
        ("commit log", "commit_log", "store/commit_log.py"),
        ("consume queue", "consume_queue", "store/consume_queue.py"),
        ("key index (IndexFile)", "key_index", "store/key_index.py"),
        ("recovery after a crash", "recovery", "store/recovery.py"),
        ("retention: which log files are deleted", "retention", "store/retention.py"),
        ("group commit: when the log is flushed to disk", "sync flush", "store/sync.py"),
        ("checksums of the log", "checksums crc", "store/checksums.py"),
        ("consumer offsets at the broker (ConsumerOffsetManager)", "offsets", "broker/offsets.py"),
        ("fencing: commits of a former owner are refused", "fencing", "broker/commit_fencing.py"),
        ("SQL92 filters", "filters sql", "broker/filters.py"),
        ("topic settings (TopicConfigManager)", "topics", "broker/topics.py"),
        (
            "settings of consumer groups (SubscriptionGroupManager)",
            "subscription_groups",
            "broker/subscription_groups.py",
        ),
        ("binary header (ROCKETMQ serialize type)", "binary_header", "wire/binary_header.py"),
        ("frames on the socket", "frames", "wire/frames.py"),
        ("RemotingCommand", "command", "wire/command.py"),
        ("request and response codes", "codes", "wire/codes.py"),
        ("compression of bodies", "compression", "wire/compression.py"),
        ("message ids", "message_ids", "wire/message_ids.py"),
        ("ACL signature of a request", "signing signature", "wire/signing.py"),
        ("SEND_MESSAGE at the broker", "send", "broker/requests/send.py"),
        ("PULL_MESSAGE at the broker", "pull", "broker/requests/pull.py"),
        ("dead letters: find and resend them", "dead_letters", "client/admin/dead_letters.py"),
        (
            "send back: a failed message goes to its retry topic or to the dead letters",
            "dead_letters",
            "protocol/dead_letters.py",
        ),
        (
            "offsets of a broadcasting consumer in a local file (LocalFileOffsetStore)",
            "local_offset_store",
            "client/consumer/local_offset_store.py",
        ),
        ("a client's connection to a broker", "broker_connection", "client/broker_connection.py"),
        ("a client's connection at the server", "server_connection", "net/server_connection.py"),
        ("requests in flight by opaque (responseTable)", "pending_requests", "client/pending_requests.py"),
        (
            "threads that run the user's handlers (ConsumeMessageService)",
            "handler_pool",
            "client/consumer/handler_pool.py",
        ),
        ("the event loop in a thread behind the blocking clients", "loop_thread", "client/loop_thread.py"),
        ("routes at the name server (RouteInfoManager)", "route_table", "nameserver/route_table.py"),
        ("brokers' registration at the name server", "registration", "broker/nameserver_registration.py"),
        ("namespace", "namespace", "client/namespace.py"),
        ("client id", "ids", "client/ids.py"),
        ("TLS of connections", "tls", "net/tls.py"),
        ("resetting the offsets of a group", "offsets", "client/admin/offsets.py"),
        ("message trace", "message_trace", "client/observers/message_trace.py"),
        ("metrics of a broker", "metrics", "broker/metrics.py"),
        ("Prometheus text format", "exposition prometheus", "metrics/exposition.py"),
        ("history of rebalances", "rebalance_history", "broker/rebalance_history.py"),
        ("pull consumer (LitePullConsumer)", "pull_consumer", "client/pull_consumer/pull_consumer.py"),
        ("embedded cluster", "embedded", "serve/embedded.py"),
        ("the Spark source's partitions and their ranges", "planning partition", "spark/planning.py"),
        ("batch reads of Spark", "batch_reader", "spark/batch_reader.py"),
        ("requests that a broker forwards to a client", "forwarded", "broker/forwarded_requests.py"),
        ("checkpoint: up to where the log is known to be sound", "checkpoint", "store/checkpoint.py"),
        ("zstd", "zstd", "wire/zstd.py"),
        ("the whole cluster as a document", "export", "client/admin/export.py"),
        ("audit log of the dashboard", "audit", "dashboard/audit_log.py"),
        ("limits of the dashboard's connections", "connection_limits", "dashboard/connection_limits.py"),
        ("what looks wrong, on the dashboard", "diagnostics", "dashboard/diagnostics.py"),
        ("rules for what looks wrong in a group", "diagnostics", "diagnostics/group.py"),
        ("from when on a consumer counts as stuck", "thresholds", "diagnostics/thresholds.py"),
        ("the dashboard's ASGI application", "app", "dashboard/app.py"),
        ("connections and threads that a test leaks", "leaks", "testing/leaks.py"),
        ("micro-batches: how much a trigger reads (admission control)", "stream", "spark/stream_reader.py"),
    )
]

# The blocking clients are called like the asynchronous ones: `steelyard.Producer` and `steelyard.aio.Producer`.
_TWO_FACED = "src/steelyard/client/sync/"
_SMALL = 120

# A table, an entry point or a user names these, one file a command, a page, a request family, a job: what counts the
# modules that could be one does not count them.
_DOORS = tuple(
    f"src/steelyard/{path}"
    for path in (
        "__main__.py",
        "aio.py",
        "otel.py",
        "cli/",
        "dashboard/api/",
        "broker/requests/",
        "pipelines/a",
        "pipelines/b",
        "pipelines/replay.py",
        "testing/plugin.py",
        "model/",
    )
)


def test_every_question_is_answered_by_a_name() -> None:
    assert len(QUESTIONS) >= 60
    complain(line for question in QUESTIONS for line in unanswered(question))


def test_a_public_class_is_defined_once() -> None:
    complain(defined_twice(source for source in modules() if not source.path.startswith(_TWO_FACED)))


def test_a_small_module_of_one_importer_has_a_name_that_people_search_for() -> None:
    searched = {question.path for question in QUESTIONS}
    complain(lonely(product(), searched))


def test_at_most_a_fifth_of_the_modules_has_one_importer() -> None:
    product = [source for source in modules() if source.path.startswith("src/") and not source.is_package]
    sources = [source for source in product if not source.path.startswith(_DOORS)]
    importers = importers_of(modules())
    few = [source.path for source in sources if len(importers[source.module]) <= 1]
    assert len(few) <= len(sources) / 5, f"{len(few)} of {len(sources)}: {', '.join(few)}"


def test_what_is_wrong_is_seen() -> None:
    (missing,) = unanswered(Question("flow control", "flow_control", "balance/pace.py"))
    assert "does not exist" in missing
    (misnamed,) = unanswered(Question("long polling", "long_polling", "model/queue.py"))
    assert "long_polling" in misnamed
    twice = [Source("src/steelyard/a.py", "class Progress: ..."), Source("src/steelyard/b.py", "class Progress: ...")]
    (complaint,) = defined_twice(twice)
    assert "a.py" in complaint
    assert "b.py" in complaint
    assert not list(defined_twice([twice[0], Source("src/steelyard/b.py", "class _Progress: ...")]))
    alone = [
        Source("src/steelyard/model/a.py", "from steelyard.model.b import B"),
        Source("src/steelyard/model/b.py", "class B: ..."),
    ]
    (complaint,) = lonely(alone, set())
    assert "model/b.py" in complaint
    assert not list(lonely(alone, {"model/b.py"}))


def unanswered(question: Question) -> Iterator[str]:
    """Complain of a question whose file is not there, or has none of the words in its path."""
    if not (SRC / "steelyard" / question.path).is_file():
        yield f"{question.text!r}: {question.path} does not exist: name the file that answers it now"
    elif not any(word in question.path for word in question.words.split()):
        yield f"{question.text!r}: none of {question.words} is in {question.path}: rename the file"


def defined_twice(sources: Iterable[Source]) -> Iterator[str]:
    """Name the public classes that several files define."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.at(node))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"the class {name} is defined in {' and '.join(found)}: give it its owner's name in front"


def lonely(sources: Iterable[Source], searched: set[str]) -> Iterator[str]:
    """Name the small modules that only a neighbour in their folder imports, and that nobody would search for."""
    listed = list(sources)
    importers = importers_of(listed)
    for source in listed:
        found = importers[source.module]
        path = source.path.removeprefix("src/steelyard/")
        if source.is_package or len(found) != 1 or path in searched or source.text.count("\n") > _SMALL:
            continue
        if next(iter(found)).rpartition(".")[0] == source.module.rpartition(".")[0]:
            yield f"{source.path} is imported by {next(iter(found))} alone: merge them, or add the question it answers"


def importers_of(sources: Iterable[Source]) -> dict[str, set[str]]:
    """Return who imports each module."""
    listed = list(sources)
    known = {source.module for source in listed}
    importers: dict[str, set[str]] = defaultdict(set)
    for source in listed:
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    importers[inner if inner in known else node.module].add(source.module)
    return importers
