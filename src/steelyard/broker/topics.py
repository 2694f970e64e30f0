"""Topics of a broker: their settings, system topics, and topics created by a send.

A topic is never lost while its messages are in the log: one that is missing in the saved table is restored from its
queues. Left out: static topics, whose queues move between brokers.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, structs

from steelyard.broker.options import DEFAULT_TOPIC_QUEUES, MAX_QUEUES, BrokerOptions
from steelyard.broker.request_errors import invalid_parameter, request_error, system_error
from steelyard.broker.table_limits import SavedTable
from steelyard.broker.validation import check_topic
from steelyard.model.reserved_names import (
    DEFAULT_TOPIC,
    DLQ_PREFIX,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    REBALANCE_HISTORY_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
    TRACE_TOPIC,
    UNRESOLVED_TRANSACTIONS_TOPIC,
)
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.codes import ResponseCode

INHERIT, WRITE, READ = 1, 2, 4
"""Bits of a topic's permission; a topic with the first one is a template for others."""

_AUTO_CREATED_QUEUES = 4
"""Queues of a topic that was created by a send, unless the sender requested another number."""


class BrokerTopic(Struct, frozen=True, gc=False):
    """A topic's settings, its encoded name, and the values that hot paths need most."""

    name: str
    name_bytes: bytes
    settings: TopicConfig
    queues: int
    """Queue ids are below this."""
    read_queues: int
    write_queues: int
    is_readable: bool
    is_writable: bool

    @classmethod
    def from_settings(cls, settings: TopicConfig) -> "BrokerTopic":
        """Build a topic from its settings."""
        read, write, permission = settings.read_queues, settings.write_queues, settings.permission
        return cls(
            settings.name,
            settings.name.encode(),
            settings,
            max(read, write),
            read,
            write,
            permission & READ != 0,
            permission & WRITE != 0,
        )


class BrokerTopics(SavedTable[BrokerTopic]):
    """The table of topics."""

    def __init__(
        self,
        options: BrokerOptions,
        saved: TopicConfigTable | None,
        stored: Iterable[tuple[bytes, int]],
        now_ms: int,
        count_creation: Callable[[int], None] = lambda _now_ms: None,
    ) -> None:
        self._options, self._count_creation = options, count_creation
        super().__init__("topics", None if saved is None else saved.version, now_ms)
        for settings in () if saved is None else saved.topics.values():
            self._entries[settings.name] = BrokerTopic.from_settings(settings)
        for settings in _system_topics(options):
            if settings.name not in self._entries:
                self._entries[settings.name] = BrokerTopic.from_settings(settings)
        if options.auto_create_topics and options.default_topic_queues is not None:
            self._entries[DEFAULT_TOPIC] = BrokerTopic.from_settings(_default_topic(options))
        self._restore_from_log(stored)
        if not options.auto_create_topics:
            self._entries.pop(DEFAULT_TOPIC, None)
        for name, topic in self._entries.items():
            self._size_limit.add(name, topic.settings, is_saved=True)

    def _restore_from_log(self, stored: Iterable[tuple[bytes, int]]) -> None:
        """Restore topics that are in the log but not in the table, with no fewer queues than a send creates."""
        known = frozenset(self._entries)
        for key, queue_id in stored:
            name = key.decode(errors="replace")
            if name in known:
                continue
            least = 1 if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else _AUTO_CREATED_QUEUES
            count = max(queue_id + 1, self._entries[name].queues if name in self._entries else least)
            self._entries[name] = BrokerTopic.from_settings(_settings(name, count))

    def __getitem__(self, name: str) -> BrokerTopic:
        """Return a topic that must exist; refuse the request if it does not (17)."""
        topic = self._entries.get(name)
        if topic is None:
            raise request_error(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name[:255]}] not exist, apply first please: create it, or send to it",
            )
        return topic

    def put(self, settings: TopicConfig, now_ms: int) -> BrokerTopic:
        """Create or change a topic; equal settings change nothing."""
        check_topic(settings.name)
        known = self._entries.get(settings.name)
        if known is not None and known.settings == settings:
            return known
        if known is None and len(self._entries) >= self._options.max_topics:
            raise system_error(f"this broker has {len(self._entries)} topics and accepts no more: delete some")
        for count in (settings.read_queues, settings.write_queues):
            if not 0 <= count <= MAX_QUEUES:
                raise invalid_parameter(f"{count} queues are not possible: give 1 to {MAX_QUEUES} of each kind")
        if known is None:
            self._count_creation(now_ms)
        self._size_limit.add(settings.name, settings)
        topic = self._entries[settings.name] = BrokerTopic.from_settings(settings)
        self._record_change(now_ms)
        return topic

    def get_or_create_for_send(self, name: str, default: str, wanted: int, now_ms: int) -> BrokerTopic:
        """Return the topic of a send, created from the default topic if it does not exist."""
        return self._entries.get(name) or self.put(self.plan_auto_created(name, default, wanted), now_ms)

    def plan_auto_created(self, name: str, default: str, wanted: int) -> TopicConfig:
        """Return the settings of a topic that a send would create; refuse the send if it may not (17)."""
        check_topic(name)
        template = self._entries.get(default)
        if template is not None and template.settings.permission & INHERIT:
            count = max(1, min(wanted, template.write_queues))
            return _settings(name, count, template.settings.permission & ~INHERIT, template.settings.filter_type)
        if name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return _settings(name, 1)
        return self[name].settings  # refuses

    def get_or_create_retry(self, group: str, queues: int, now_ms: int) -> BrokerTopic:
        """Return a group's retry topic, created if it does not exist."""
        return self.get_or_create(f"{RETRY_PREFIX}{group}", queues, now_ms)

    def get_or_create_dead_letters(self, group: str, now_ms: int) -> BrokerTopic:
        """Return a group's dead letter topic, created if it does not exist."""
        return self.get_or_create(f"{DLQ_PREFIX}{group}", 1, now_ms)

    def get_or_create(self, name: str, queues: int, now_ms: int) -> BrokerTopic:
        """Return a topic of the broker's own, created if it does not exist."""
        return self._entries.get(name) or self.put(_settings(name, max(1, queues)), now_ms)

    def apply_options(self, options: BrokerOptions, now_ms: int) -> None:
        """Apply changed options: whether a send may create topics, and whether clients may write."""
        if options.permission != self._options.permission:
            self._record_change(now_ms)  # name servers need all topics again
        self._options = options
        if not options.auto_create_topics:
            self.remove(DEFAULT_TOPIC, now_ms)
        elif DEFAULT_TOPIC not in self._entries:
            self.put(_default_topic(options), now_ms)

    def table(self) -> TopicConfigTable:
        """Return the table as it is saved."""
        return TopicConfigTable(
            version=self.version,
            mapping_version=TableVersion(state_version=0),
            topics={name: topic.settings for name, topic in sorted(self._entries.items())},
            mapping_details={},
            mappings={},
        )

    def registration_table(self) -> TopicConfigTable:
        """Return the table for name servers: on a read-only broker no topic can be written."""
        table, allowed = self.table(), self._options.permission
        if self._options.is_writable:
            return table
        topics = {
            name: structs.replace(settings, permission=settings.permission & allowed)
            for name, settings in table.topics.items()
        }
        return structs.replace(table, topics=topics)


def _settings(name: str, queues: int, permission: int = READ | WRITE, filter_type: str = "SINGLE_TAG") -> TopicConfig:
    return TopicConfig(
        name=name,
        read_queues=queues,
        write_queues=queues,
        permission=permission,
        filter_type=filter_type,
        attributes={},
    )


def _default_topic(options: BrokerOptions) -> TopicConfig:
    return _settings(DEFAULT_TOPIC, options.default_topic_queues or DEFAULT_TOPIC_QUEUES, READ | WRITE | INHERIT)


def _system_topics(options: BrokerOptions) -> list[TopicConfig]:
    """List the topics of every broker."""
    template = READ | WRITE | INHERIT
    found = [
        _settings("SELF_TEST_TOPIC", 1),
        _settings("BenchmarkTest", 1024),
        _settings(options.cluster, 16, template),
        _settings(options.name, 1, template),
        _settings("OFFSET_MOVED_EVENT", 1),
        _settings("SCHEDULE_TOPIC_XXXX", 18),
        _settings(f"{options.cluster}_REPLY_TOPIC", 1),
        _settings(HALF_TOPIC, 1),
        _settings(HALF_OP_TOPIC, 1),
        _settings(UNRESOLVED_TRANSACTIONS_TOPIC, 1),
        _settings(TIMER_TOPIC, 1),
        _settings(f"rmq_sys_SYNC_BROKER_MEMBER_{options.name}", 1, INHERIT),
    ]
    if options.auto_create_topics:
        found.append(_default_topic(options))
    if options.trace_topic:
        found.append(_settings(TRACE_TOPIC, 1))
    if options.keep_rebalance_history:
        found.append(_settings(REBALANCE_HISTORY_TOPIC, 1, READ))
    return found
