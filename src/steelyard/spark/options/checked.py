"""The options of one read or one write as a frozen value: read once, checked together, carried to executors.

What each is called, what it means and its default is in option_table.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from steelyard.client.connect import Connect
from steelyard.client.tls import Tls
from steelyard.errors import ConfigurationError
from steelyard.model import FilterKind, Subscription
from steelyard.spark.options.places import FIRST, LAST, OfGroup, Place, end_of, start_of
from steelyard.spark.options.table import Mode
from steelyard.spark.options.topics import Topics, topics_of
from steelyard.spark.options.values import Given, wrong

__all__ = ["PULL_GROUP", "OnUnreadable", "ReadOptions", "WriteOptions"]

PULL_GROUP = "steelyard-spark"
"""The group that pulls are made under if no other is given; nothing is ever committed for it."""


class OnUnreadable(Enum):
    """What becomes of a message whose body cannot be opened."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"
    """It is a row without a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a topic is read.

    >>> options = ReadOptions.of({"namesrv": "mq:9876", "subscribe": "orders"}, streaming=True)
    >>> options.topics.names, options.start, options.max_partitions
    (('orders',), Edge(is_end=True), 16)
    >>> ReadOptions.of({"subscirbe": "orders"}, streaming=True)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: there is no option 'subscirbe'; did you mean subscribe?
    """

    connect: Connect
    topics: Topics
    start: Place = FIRST
    end: Place = LAST
    group: str | None = None
    """Progress is mirrored to it, and pulls are made under it."""
    wanted: tuple[str, str] | None = None
    """What brokers filter by: ``("TAG", "paid || new")`` or ``("SQL92", "price > 3")``."""
    fail_on_data_loss: bool = True
    on_unreadable: OnUnreadable = OnUnreadable.FAIL
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_partitions: int = 16
    max_records: int = 500_000
    include_properties: bool = True
    offset_poll_ms: int = 50
    pull_depth: int = 16
    pull_messages: int = 1_000

    @property
    def pull_group(self) -> str:
        """The group that pulls are made under."""
        return self.group or PULL_GROUP

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool) -> "ReadOptions":
        """Read the options of a stream or a batch; what is unknown, wrong or contradictory is a ConfigurationError."""
        given = Given(options, Mode.STREAM if streaming else Mode.BATCH)
        topics = topics_of(given)
        start = start_of(given, streaming=streaming)
        end = LAST if streaming else end_of(given)
        group = given.words("group")
        for name, place in (("startingOffsets", start), ("endingOffsets", end)):
            if isinstance(place, OfGroup) and group is None:
                raise ConfigurationError(f"the option {name} is group, and no group is named", next_step="give group")
        found = cls(
            connect=_connect(given),
            topics=topics,
            start=start,
            end=end,
            group=group,
            wanted=_wanted(given),
            fail_on_data_loss=given.switch("failOnDataLoss"),
            on_unreadable=_on_unreadable(given),
            min_partitions=given.count("minPartitions"),
            max_partitions=given.number("maxPartitions"),
            max_records=given.number("maxRecordsPerPartition"),
            include_properties=given.switch("includeProperties"),
            pull_depth=given.number("pullDepth"),
            pull_messages=given.number("pullMessages"),
        )
        return found._limited(given) if streaming else found

    def _limited(self, given: Given) -> "ReadOptions":
        """Return these options with the limits that only streams have."""
        least, most = given.count("minOffsetsPerTrigger"), given.count("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ConfigurationError(
                f"a batch is to have {least} messages at least and {most} at most",
                next_step="give a minOffsetsPerTrigger that is not above maxOffsetsPerTrigger",
            )
        if "maxTriggerDelay" in given and least is None:
            raise ConfigurationError(
                "maxTriggerDelay is given without minOffsetsPerTrigger, so nothing is held back",
                next_step="give minOffsetsPerTrigger too",
            )
        return replace(
            self,
            max_offsets=most,
            min_offsets=least,
            max_trigger_delay_ms=given.span("maxTriggerDelay"),
            max_bytes=given.size("maxBytesPerTrigger"),
            offset_poll_ms=given.span("offsetPollMs"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written.

    >>> WriteOptions.of({"namesrv": "mq:9876", "topic": "orders", "checkpointlocation": "/tmp/x"}).topic
    'orders'
    """

    connect: Connect
    topic: str | None = None
    """Where all rows go, whatever a column says; None leaves it to the column."""
    group: str | None = None
    """The producer's group."""
    send_depth: int = 16
    max_batch_bytes: int = 1 << 20
    max_message_bytes: int = 4 << 20
    send_timeout_ms: int = 10_000
    deterministic_ids: bool = True
    write_id: str | None = None
    """What the ids of a batch write are made of, if it may be done again."""

    def __post_init__(self) -> None:
        if self.max_batch_bytes > self.max_message_bytes:
            raise ConfigurationError(
                f"maxBatchBytes is {self.max_batch_bytes}, more than maxMessageBytes, {self.max_message_bytes}",
                next_step="give less: brokers count a batch as one message",
            )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Read the options of a write; what is unknown or wrong is a ConfigurationError."""
        given = Given(options, Mode.WRITE)
        return cls(
            connect=_connect(given),
            topic=given.words("topic"),
            group=given.words("group"),
            send_depth=given.number("sendDepth"),
            max_batch_bytes=given.size("maxBatchBytes") or 0,
            max_message_bytes=given.size("maxMessageBytes") or 0,
            send_timeout_ms=given.span("sendTimeoutMs"),
            deterministic_ids=given.switch("deterministicIds"),
            write_id=given.words("writeId"),
        )


def _connect(given: Given) -> Connect:
    return Connect(
        given.words("namesrv"),
        access_key=given.words("accessKey"),
        secret_key=given.words("secretKey"),
        token=given.words("securityToken"),
        tls=_tls(given),
        namespace=given.text("namespace") or "",
        name="spark",
    )


def _tls(given: Given) -> "bool | str | Tls":
    wanted = given.words("tls") or ""
    more = [name for name in ("tlsCertificate", "tlsKey", "tlsKeyPassword", "tlsVerify") if name in given]
    is_on = wanted.lower() != "false"
    if more and not is_on:
        raise ConfigurationError(f"{more[0]} is given, and lines are not encrypted", next_step="give tls too: true")
    if not is_on:
        return False
    authorities = None if wanted.lower() == "true" else wanted
    if not more:
        return True if authorities is None else authorities
    return Tls(
        ca=authorities,
        verify=given.switch("tlsVerify"),
        certificate=given.words("tlsCertificate"),
        key=given.words("tlsKey"),
        password=given.words("tlsKeyPassword"),
    )


def _on_unreadable(given: Given) -> OnUnreadable:
    value = (given.words("onUnreadable") or "").lower()
    if value not in [choice.value for choice in OnUnreadable]:
        raise wrong("onUnreadable", value, "give fail, skip or null")
    return OnUnreadable(value)


def _wanted(given: Given) -> tuple[str, str] | None:
    name = given.one_of("tags", "sql")
    if name is None:
        return None
    expression = given.words(name) or ""
    kind = FilterKind.TAG if name == "tags" else FilterKind.SQL92
    # Read here as every consumer reads it, so that a mistake is told before anything is planned.
    found = Subscription("a topic", expression, kind)
    if kind is FilterKind.TAG and not found.tags:
        return None
    return kind.value, found.expression.strip()
