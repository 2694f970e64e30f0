"""The topics of a broker: their settings, those that are there from the start, those that a send makes.

A topic is never lost while its messages are in the log: one that the saved table misses is made again from its queues.
Left out: static topics, whose queues wander between brokers.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs

from steelyard.broker.names import check_topic
from steelyard.broker.options import DEFAULT_TOPIC_QUEUES, MOST_QUEUES, BrokerOptions
from steelyard.broker.refusals import refusal
from steelyard.broker.room import Room
from steelyard.broker.versions import next_version
from steelyard.model.names import (
    DEAD,
    DEFAULT_TOPIC,
    HALF_TOPIC,
    MOVES_TOPIC,
    OP_TOPIC,
    RETRY,
    TIMER_TOPIC,
    TRACE_TOPIC,
    UNRESOLVED_TOPIC,
)
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.bodies.topics import TopicSettings, TopicTable
from steelyard.wire.codes import ResponseCode

__all__ = ["INHERIT", "READ", "WRITE", "Topic", "Topics"]

INHERIT, WRITE, READ = 1, 2, 4
"""Bits of a topic's permission; a topic with the first one is a pattern for others."""

_MADE_QUEUES = 4
"""What a topic has that its first send made, unless its sender asked for something else."""


class Topic(Struct, frozen=True, gc=False):
    """A topic as the hot paths want it: its settings, its name as records have it, and what they ask most often."""

    name: str
    key: bytes
    settings: TopicSettings
    queues: int
    """A queue's number is below this."""
    read_queues: int
    write_queues: int
    is_readable: bool
    is_writable: bool

    @classmethod
    def of(cls, settings: TopicSettings) -> "Topic":
        """Make a topic of its settings."""
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


class Topics:
    """The table of topics. ``changes`` grows with each change: who saved or told it compares the number."""

    def __init__(
        self,
        options: BrokerOptions,
        saved: TopicTable | None,
        stored: Iterable[tuple[bytes, int]],
        now_ms: int,
        count: Callable[[int], None] = lambda _now_ms: None,
    ) -> None:
        self._options, self._count = options, count
        self._topics: dict[str, Topic] = {}
        self.version = next_version(None if saved is None else saved.version, now_ms)
        self.changes = 0
        for settings in () if saved is None else saved.topics.values():
            self._topics[settings.name] = Topic.of(settings)
        for settings in _at_boot(options):
            if settings.name not in self._topics:
                self._topics[settings.name] = Topic.of(settings)
        if options.auto_create_topics and options.default_topic_queues is not None:
            self._topics[DEFAULT_TOPIC] = Topic.of(_default_topic(options))
        self._adopt(stored)
        if not options.auto_create_topics:
            self._topics.pop(DEFAULT_TOPIC, None)
        self._room = Room("topics")
        for name, topic in self._topics.items():
            self._room.take(name, topic.settings, is_saved=True)

    def _adopt(self, stored: Iterable[tuple[bytes, int]]) -> None:
        """Make topics of queues that the log has and the table has not, with no fewer queues than a send makes."""
        known = frozenset(self._topics)
        for key, queue_id in stored:
            name = key.decode(errors="replace")
            if name in known:
                continue
            least = 1 if name.startswith((RETRY, DEAD)) else _MADE_QUEUES
            count = max(queue_id + 1, self._topics[name].queues if name in self._topics else least)
            self._topics[name] = Topic.of(_settings(name, count))

    def get(self, name: str) -> Topic | None:
        """Return a topic, or None."""
        return self._topics.get(name)

    def __getitem__(self, name: str) -> Topic:
        """Return a topic that must be there; refuse the request if it is not (17)."""
        topic = self._topics.get(name)
        if topic is None:
            raise refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name[:255]}] not exist, apply first please: create it, or send to it",
            )
        return topic

    def __iter__(self) -> Iterator[Topic]:
        """Go through all topics, by name."""
        return iter([self._topics[name] for name in sorted(self._topics)])

    def __len__(self) -> int:
        """Count the topics."""
        return len(self._topics)

    def put(self, settings: TopicSettings, now_ms: int) -> Topic:
        """Make a topic or change it; the same settings again change nothing."""
        check_topic(settings.name)
        known = self._topics.get(settings.name)
        if known is not None and known.settings == settings:
            return known
        if known is None and len(self._topics) >= self._options.max_topics:
            raise refusal(
                ResponseCode.SYSTEM_ERROR, f"this broker has {len(self._topics)} topics and takes no more: delete some"
            )
        for count in (settings.read_queues, settings.write_queues):
            if not 0 <= count <= MOST_QUEUES:
                raise refusal(
                    ResponseCode.INVALID_PARAMETER, f"{count} queues cannot be: give 1 to {MOST_QUEUES} of each kind"
                )
        if known is None:
            self._count(now_ms)
        self._room.take(settings.name, settings)
        topic = self._topics[settings.name] = Topic.of(settings)
        self._changed(now_ms)
        return topic

    def remove(self, name: str, now_ms: int) -> bool:
        """Forget a topic; say whether it was there."""
        if self._topics.pop(name, None) is None:
            return False
        self._room.give_back(name)
        self._changed(now_ms)
        return True

    def for_send(self, name: str, default: str, wanted: int, now_ms: int) -> Topic:
        """Return the topic of a send, made after the pattern of the default topic if it is not there."""
        return self._topics.get(name) or self.put(self.planned(name, default, wanted), now_ms)

    def planned(self, name: str, default: str, wanted: int) -> TopicSettings:
        """Return the settings that a send would give a topic which is not there; refuse it if it may make none (17)."""
        check_topic(name)
        pattern = self._topics.get(default)
        if pattern is not None and pattern.settings.permission & INHERIT:
            count = max(1, min(wanted, pattern.write_queues))
            return _settings(name, count, pattern.settings.permission & ~INHERIT, pattern.settings.filter_type)
        if name.startswith((RETRY, DEAD)):
            return _settings(name, 1)
        return self[name].settings  # refuses

    def retry_topic(self, group: str, queues: int, now_ms: int) -> Topic:
        """Return the topic where a group's failed messages come again, made if it is not there."""
        return self._own(f"{RETRY}{group}", queues, now_ms)

    def dead_letters(self, group: str, now_ms: int) -> Topic:
        """Return the topic where a group's given up messages lie, made if it is not there."""
        return self._own(f"{DEAD}{group}", 1, now_ms)

    def own(self, name: str, now_ms: int) -> Topic:
        """Return a topic of the broker's own with one queue, made if it is not there."""
        return self._own(name, 1, now_ms)

    def _own(self, name: str, queues: int, now_ms: int) -> Topic:
        return self._topics.get(name) or self.put(_settings(name, max(1, queues)), now_ms)

    def follow(self, options: BrokerOptions, now_ms: int) -> None:
        """Go by other options from now on; whether a send may make topics, and who may write, counts at once."""
        if options.permission != self._options.permission:
            self._changed(now_ms)  # name servers have to be told of all topics
        self._options = options
        if not options.auto_create_topics:
            self.remove(DEFAULT_TOPIC, now_ms)
        elif DEFAULT_TOPIC not in self._topics:
            self.put(_default_topic(options), now_ms)

    def set_permission(self, name: str, permission: int, now_ms: int) -> Topic:
        """Change what may be done with a topic."""
        return self.put(structs.replace(self[name].settings, permission=permission), now_ms)

    def _changed(self, now_ms: int) -> None:
        self.version = next_version(self.version, now_ms)
        self.changes += 1

    def table(self) -> TopicTable:
        """Return the table as it is saved."""
        return TopicTable(
            version=self.version,
            mapping_version=TableVersion(state_version=0),
            topics={name: topic.settings for name, topic in sorted(self._topics.items())},
            mapping_details={},
            mappings={},
        )

    def announced(self) -> TopicTable:
        """Return the table as name servers are told it: of a broker that is only read from, no topic can be written."""
        table, allowed = self.table(), self._options.permission
        if self._options.is_writable:
            return table
        told = {
            name: structs.replace(settings, permission=settings.permission & allowed)
            for name, settings in table.topics.items()
        }
        return structs.replace(table, topics=told)


def _settings(name: str, queues: int, permission: int = READ | WRITE, filter_type: str = "SINGLE_TAG") -> TopicSettings:
    return TopicSettings(
        name=name,
        read_queues=queues,
        write_queues=queues,
        permission=permission,
        filter_type=filter_type,
        attributes={},
    )


def _default_topic(options: BrokerOptions) -> TopicSettings:
    return _settings(DEFAULT_TOPIC, options.default_topic_queues or DEFAULT_TOPIC_QUEUES, READ | WRITE | INHERIT)


def _at_boot(options: BrokerOptions) -> list[TopicSettings]:
    """List the topics that every broker has."""
    anything, pattern = READ | WRITE, READ | WRITE | INHERIT
    found = [
        _settings("SELF_TEST_TOPIC", 1),
        _settings("BenchmarkTest", 1024),
        _settings(options.cluster, 16, pattern),
        _settings(options.name, 1, pattern),
        _settings("OFFSET_MOVED_EVENT", 1),
        _settings("SCHEDULE_TOPIC_XXXX", 18),
        _settings(f"{options.cluster}_REPLY_TOPIC", 1),
        _settings(HALF_TOPIC, 1),
        _settings(OP_TOPIC, 1),
        _settings(UNRESOLVED_TOPIC, 1),
        _settings(TIMER_TOPIC, 1),
        _settings(f"rmq_sys_SYNC_BROKER_MEMBER_{options.name}", 1, INHERIT),
    ]
    if options.auto_create_topics:
        found.append(_default_topic(options))
    if options.trace_topic:
        found.append(_settings(TRACE_TOPIC, 1, anything))
    if options.keep_moves:
        found.append(_settings(MOVES_TOPIC, 1, READ))
    return found
