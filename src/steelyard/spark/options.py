"""The options of one read or write as a frozen value: parsed once, validated together, pickled to executors.

Names, meanings and defaults are in option_table.py.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from steelyard.client.config import ClientConfig
from steelyard.client.tls import Tls
from steelyard.errors import ConfigurationError
from steelyard.model import ExpressionType, Queue, Subscription
from steelyard.spark.offset_spec import (
    EARLIEST_EDGE,
    LATEST_EDGE,
    CommittedOffsets,
    OffsetSpec,
    parse_ending,
    parse_starting,
)
from steelyard.spark.option_table import OptionMode, OptionValues, invalid_option

_ASSIGN_SYNTAX = 'write it as {"orders": {"broker-a": [0, 1]}}'


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Topics by name, by a pattern, or certain queues alone; without a namespace.

    >>> TopicSelection(pattern="orders-.*").matches("orders-eu"), TopicSelection(("orders",)).matches("orders-eu")
    (True, False)
    """

    names: tuple[str, ...] = ()  # all named topics; empty with a pattern
    pattern: str | None = None
    assigned: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Queues by topic and broker, if only those are read."""

    def matches(self, topic: str) -> bool:
        """Say whether a topic is read."""
        return topic in self.names if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    @property
    def queues(self) -> frozenset[Queue] | None:
        """The queues that are read; None for all queues of the topics."""
        if not self.assigned:
            return None
        return frozenset(
            Queue(topic, broker, number)
            for topic, brokers in self.assigned.items()
            for broker, numbers in brokers.items()
            for number in numbers
        )

    def matching(self, queues: Iterable[Queue]) -> list[Queue]:
        """Return the queues that are read."""
        chosen = self.queues
        if chosen is None:
            return [queue for queue in queues if self.matches(queue.topic)]
        return [queue for queue in queues if queue in chosen]

    def __str__(self) -> str:
        return f"topics that match {self.pattern}" if self.pattern else ", ".join(self.names)


def _parse_topics(given: OptionValues) -> TopicSelection:
    """Parse the topics to read."""
    name = given.one_of("subscribe", "subscribePattern", "assign")
    if name is None:
        meant = f"option('subscribe', {given.path!r}) and load()" if given.path else "option('subscribe', 'orders')"
        raise ConfigurationError("no topic is named", next_step=f"give one, as in {meant}; or subscribePattern, assign")
    value = given.required_text(name) or ""
    if name == "subscribe":
        names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        if not names:
            raise invalid_option(name, value, "name topics, with commas between them")
        return TopicSelection(names)
    if name == "subscribePattern":
        try:
            re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            raise invalid_option(name, value, f"give a regular expression ({error})") from None
        return TopicSelection(pattern=value)
    assigned = _parse_assign(given, value)
    return TopicSelection(tuple(assigned), assigned=assigned)


def _parse_assign(given: OptionValues, value: str) -> dict[str, dict[str, tuple[int, ...]]]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    topics = given.json("assign")
    if not isinstance(topics, dict) or not topics:
        raise invalid_option("assign", value, _ASSIGN_SYNTAX)
    for topic, brokers in topics.items():
        if not isinstance(brokers, dict) or not brokers:
            raise invalid_option("assign", value, _ASSIGN_SYNTAX)
        for broker, numbers in brokers.items():
            if not isinstance(numbers, list) or not numbers or not all(map(_is_number, numbers)):
                raise invalid_option("assign", value, _ASSIGN_SYNTAX)
            found.setdefault(topic, {})[broker] = tuple(sorted(set(numbers)))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


DEFAULT_PULL_GROUP = "steelyard-spark"  # the group of pulls if none is given; nothing is ever committed for it


class UnreadableBodyPolicy(Enum):
    """What happens to a message whose body cannot be decompressed."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"  # the row has no body


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a topic is read.

    >>> options = ReadOptions.of({"namesrv": "mq:9876", "subscribe": "orders"}, streaming=True)
    >>> options.topics.names, options.starting, options.max_partitions
    (('orders',), QueueEdge(is_end=True), 16)
    >>> ReadOptions.of({"subscirbe": "orders"}, streaming=True)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: there is no option 'subscirbe'; did you mean subscribe?
    """

    client_config: ClientConfig
    topics: TopicSelection
    starting: OffsetSpec = EARLIEST_EDGE
    ending: OffsetSpec = LATEST_EDGE
    group: str | None = None  # offsets are committed to it, and pulls use it
    message_filter: tuple[str, str] | None = None
    """The filter at brokers: ``("TAG", "paid || new")`` or ``("SQL92", "price > 3")``."""
    fail_on_data_loss: bool = True
    on_unreadable: UnreadableBodyPolicy = UnreadableBodyPolicy.FAIL
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_partitions: int = 16
    max_records_per_partition: int = 500_000
    include_properties: bool = True
    offset_poll_ms: int = 50
    pull_depth: int = 16
    pull_messages: int = 1_000

    @property
    def pull_group(self) -> str:
        """The group of pulls."""
        return self.group or DEFAULT_PULL_GROUP

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool) -> "ReadOptions":
        """Parse the options of a stream or a batch; what is unknown, wrong or contradictory is a ConfigurationError."""
        given = OptionValues(options, OptionMode.STREAM if streaming else OptionMode.BATCH)
        topics = _parse_topics(given)
        start = parse_starting(given, streaming=streaming)
        end = LATEST_EDGE if streaming else parse_ending(given)
        group = given.required_text("group")
        for name, spec in (("startingOffsets", start), ("endingOffsets", end)):
            if isinstance(spec, CommittedOffsets) and group is None:
                raise ConfigurationError(f"the option {name} is group, and no group is named", next_step="give group")
        found = cls(
            client_config=_client_config(given),
            topics=topics,
            starting=start,
            ending=end,
            group=group,
            message_filter=_message_filter(given),
            fail_on_data_loss=given.boolean("failOnDataLoss"),
            on_unreadable=_unreadable_policy(given),
            min_partitions=given.optional_count("minPartitions"),
            max_partitions=given.required_count("maxPartitions"),
            max_records_per_partition=given.required_count("maxRecordsPerPartition"),
            include_properties=given.boolean("includeProperties"),
            pull_depth=given.required_count("pullDepth"),
            pull_messages=given.required_count("pullMessages"),
        )
        return found._with_stream_limits(given) if streaming else found

    def _with_stream_limits(self, given: OptionValues) -> "ReadOptions":
        """Return these options with the limits that only streams have."""
        least, most = given.optional_count("minOffsetsPerTrigger"), given.optional_count("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ConfigurationError(
                f"a batch has {least} messages at least and {most} at most",
                next_step="give a minOffsetsPerTrigger that is not above maxOffsetsPerTrigger",
            )
        if "maxTriggerDelay" in given and least is None:
            raise ConfigurationError(
                "maxTriggerDelay is given without minOffsetsPerTrigger, so nothing is delayed",
                next_step="give minOffsetsPerTrigger too",
            )
        return replace(
            self,
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=given.duration_ms("maxTriggerDelay"),
            max_bytes_per_trigger=given.byte_size("maxBytesPerTrigger"),
            offset_poll_ms=given.duration_ms("offsetPollMs"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written.

    >>> WriteOptions.of({"namesrv": "mq:9876", "topic": "orders", "checkpointlocation": "/tmp/x"}).topic
    'orders'
    """

    client_config: ClientConfig
    topic: str | None = None  # the topic of all rows, whatever the column says; None: the column decides
    group: str | None = None  # the producer group
    send_depth: int = 16
    max_batch_bytes: int = 1 << 20
    max_message_bytes: int = 4 << 20
    send_timeout_ms: int = 10_000
    deterministic_ids: bool = True
    write_id: str | None = None  # the scope of the message ids of a batch write, if it may be repeated

    def __post_init__(self) -> None:
        if self.max_batch_bytes > self.max_message_bytes:
            raise ConfigurationError(
                f"maxBatchBytes is {self.max_batch_bytes}, more than maxMessageBytes, {self.max_message_bytes}",
                next_step="give less: brokers count a batch as one message",
            )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Parse the options of a write; what is unknown or wrong is a ConfigurationError."""
        given = OptionValues(options, OptionMode.WRITE)
        return cls(
            client_config=_client_config(given),
            topic=given.required_text("topic"),
            group=given.required_text("group"),
            send_depth=given.required_count("sendDepth"),
            max_batch_bytes=given.byte_size("maxBatchBytes") or 0,
            max_message_bytes=given.byte_size("maxMessageBytes") or 0,
            send_timeout_ms=given.duration_ms("sendTimeoutMs"),
            deterministic_ids=given.boolean("deterministicIds"),
            write_id=given.required_text("writeId"),
        )


def _client_config(given: OptionValues) -> ClientConfig:
    return ClientConfig(
        given.required_text("namesrv"),
        access_key=given.required_text("accessKey"),
        secret_key=given.required_text("secretKey"),
        token=given.required_text("securityToken"),
        tls=_tls(given),
        namespace=given.text("namespace") or "",
        name="spark",
    )


def _tls(given: OptionValues) -> "bool | str | Tls":
    tls = given.required_text("tls") or ""
    more = [name for name in ("tlsCertificate", "tlsKey", "tlsKeyPassword", "tlsVerify") if name in given]
    is_on = tls.lower() != "false"
    if more and not is_on:
        raise ConfigurationError(f"{more[0]} is given, and connections do not use TLS", next_step="give tls too: true")
    if not is_on:
        return False
    authorities = None if tls.lower() == "true" else tls
    if not more:
        return True if authorities is None else authorities
    return Tls(
        ca=authorities,
        verify=given.boolean("tlsVerify"),
        certificate=given.required_text("tlsCertificate"),
        key=given.required_text("tlsKey"),
        password=given.required_text("tlsKeyPassword"),
    )


def _unreadable_policy(given: OptionValues) -> UnreadableBodyPolicy:
    value = (given.required_text("onUnreadable") or "").lower()
    if value not in [choice.value for choice in UnreadableBodyPolicy]:
        raise invalid_option("onUnreadable", value, "give fail, skip or null")
    return UnreadableBodyPolicy(value)


def _message_filter(given: OptionValues) -> tuple[str, str] | None:
    name = given.one_of("tags", "sql")
    if name is None:
        return None
    expression = given.required_text(name) or ""
    kind = ExpressionType.TAG if name == "tags" else ExpressionType.SQL92
    # Parsed here as every consumer parses it, so that a mistake is an error before anything is planned.
    found = Subscription("a topic", expression, kind)
    if kind is ExpressionType.TAG and not found.tags:
        return None
    return kind.value, found.expression.strip()
