"""Who is measured on Spark: our source and sink on a broker, Spark's own connector on Kafka, and a file of Parquet.

All do the same with the same rows, by the options that a user would write; a side differs from its neighbour in its
settings alone. Kafka's client that makes topics and sends single messages is the connector's own, in Spark's JVM.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.brokers import Broker
from bench.kafka import Kafka
from steelyard import Message, Producer

HEADERS = 5
"""How many headers a row has where it has any."""

# What the connector has without headers, in our words: key, value, topic, partition, offset, timestamp and a number.
_LIKE_SEVEN = (
    "keys string, body binary, topic string, queue_id int, offset long, stored_at timestamp, reconsume_times int"
)

Send = Callable[[bytes], None]
"""Sends one message, and returns once it is stored."""


class Side(Protocol):
    """One way to read and to write topics on Spark."""

    @property
    def name(self) -> str:
        """How the table calls it."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The server's processes."""

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic."""

    def read(self, topic: str, *, has_headers: bool = False) -> DataFrame:
        """Return all rows that a topic has now."""

    def stream(self, topic: str, most: int | None = None, *, is_late: bool = False) -> DataFrame:
        """Return the rows of a topic as a stream, so many at a time at most: all, or those that come from now on."""

    def write(self, rows: DataFrame, topic: str) -> None:
        """Append rows that have a key, a value and perhaps headers."""

    def sending(self, topic: str) -> AbstractContextManager[Send]:
        """Open a sender of single messages."""

    def value(self) -> str:
        """Return the name of the column that has what was sent."""


@dataclass(frozen=True, slots=True)
class KafkaSide:
    """Spark's connector on a node of Kafka."""

    name: str
    spark: SparkSession
    kafka: Kafka
    settings: Mapping[str, str] = field(default_factory=dict)
    """Options, in reading as in writing."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The node."""
        return (self.kafka.pid,)

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic with so many partitions."""
        java = _java(self.spark)
        admin = java.org.apache.kafka.clients.admin.AdminClient.create(self._properties())
        try:
            topics = java.java.util.ArrayList()
            topics.add(java.org.apache.kafka.clients.admin.NewTopic(topic, queues, 1))
            admin.createTopics(topics).all().get()
        finally:
            admin.close()

    def read(self, topic: str, *, has_headers: bool = False) -> DataFrame:
        """Return all rows, of seven columns, or eight with headers."""
        words = self._options() | {"subscribe": topic, "includeHeaders": str(has_headers).lower()}
        return self.spark.read.format("kafka").options(**words).load()

    def stream(self, topic: str, most: int | None = None, *, is_late: bool = False) -> DataFrame:
        """Return the rows as a stream, of seven columns."""
        words = self._options() | {"subscribe": topic, "startingOffsets": "latest" if is_late else "earliest"}
        words |= {} if most is None else {"maxOffsetsPerTrigger": str(most)}
        return self.spark.readStream.format("kafka").options(**words).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        """Append rows; without headers they need none."""
        words = self._options() | {"topic": topic, "includeHeaders": str("headers" in rows.columns).lower()}
        rows.write.format("kafka").options(**words).mode("append").save()

    @contextmanager
    def sending(self, topic: str) -> Iterator[Send]:
        """Open Java's producer, which sends at once."""
        java, properties = _java(self.spark), self._properties()
        for what in ("key", "value"):
            properties.setProperty(f"{what}.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")
        producer = java.org.apache.kafka.clients.producer.KafkaProducer(properties)
        record = java.org.apache.kafka.clients.producer.ProducerRecord
        try:
            yield lambda body: producer.send(record(topic, body)).get()
        finally:
            producer.close()

    def value(self) -> str:
        """Return the column of what was sent."""
        return "value"

    def _properties(self) -> Any:
        properties = _java(self.spark).java.util.Properties()
        properties.setProperty("bootstrap.servers", self.kafka.bootstrap)
        return properties

    def _options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.kafka.bootstrap, **self.settings}


@dataclass(frozen=True, slots=True)
class OurSide:
    """Our source and sink on a broker, which may be Apache's."""

    name: str
    spark: SparkSession
    broker: Broker
    settings: Mapping[str, str] = field(default_factory=dict)
    """Options, in reading alone."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The broker."""
        return (self.broker.pid,)

    def make_topic(self, topic: str, queues: int) -> None:
        """Make a topic with so many queues."""
        self.broker.make_topic(topic, queues)

    def read(self, topic: str, *, has_headers: bool = False) -> DataFrame:
        """Return all rows: of all twelve columns, or of the seven that the connector has without headers."""
        reader = self.spark.read.format("rocketmq").options(**self.options(topic))
        return (reader if has_headers else reader.schema(_LIKE_SEVEN)).load()

    def stream(self, topic: str, most: int | None = None, *, is_late: bool = False) -> DataFrame:
        """Return the rows as a stream, of the same seven."""
        words = self.options(topic) | {"startingOffsets": "latest" if is_late else "earliest"}
        words |= {} if most is None else {"maxOffsetsPerTrigger": str(most)}
        return self.spark.readStream.format("rocketmq").schema(_LIKE_SEVEN).options(**words).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        """Append rows; headers become properties."""
        columns = [f.col("key").alias("keys"), f.col("value").alias("body")]
        if "headers" in rows.columns:
            columns.append(f.map_from_entries(f.transform("headers", _as_text)).alias("properties"))
        words = {"namesrv": self.broker.name_server, "topic": topic}
        rows.select(*columns).write.format("rocketmq").options(**words).mode("append").save()

    @contextmanager
    def sending(self, topic: str) -> Iterator[Send]:
        """Open a producer of ours."""
        with Producer(self.broker.name_server, group="trickle") as producer:

            def send(body: bytes) -> None:
                producer.send(Message(topic, body))

            yield send

    def value(self) -> str:
        """Return the column of what was sent."""
        return "body"

    def options(self, topic: str) -> dict[str, str]:
        """Return how to read a topic."""
        return {"namesrv": self.broker.name_server, "subscribe": topic, **self.settings}


def _as_text(header: Any) -> Any:
    return f.struct(header["key"].alias("key"), header["value"].cast("string").alias("value"))


def _java(spark: SparkSession) -> Any:
    """Return the door to Java, which is not part of Spark's types."""
    return spark.sparkContext._jvm
