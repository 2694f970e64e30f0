"""The servers behind the sides, and the session that all of them share: two cores, no page, the connector's jars.

Apache's broker hands out 32 messages a pull as it comes. What it hands out is set while it runs, so that one and the
same broker, with the same messages, is measured both ways.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from bench.brokers import APACHE, OURS, Broker, running, running_ours
from bench.kafka import connector_jars, running_kafka
from bench.spark_sides import KafkaSide, OurSide, Side
from steelyard.spark.spark_session import session
from steelyard.wire.codes import RequestCode

RAISED, STOCK = (1_000, 4 << 20), (32, 256 << 10)
"""How many messages and bytes Apache's broker hands out at a time: raised, and as it comes."""

_SHORT_WAIT = {"kafka.fetch.max.wait.ms": "5"}
_LINGERING = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10)}
_CONF = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True, slots=True)
class Stage:
    """Everybody who is measured."""

    spark: SparkSession
    kafka: Side
    """The connector as it comes."""
    short_wait: Side
    lingering: Side
    apache: OurSide
    ours: OurSide

    @property
    def servers(self) -> Sequence[Side]:
        """One side for each server, with the settings that write fast."""
        return self.lingering, self.apache, self.ours


@contextmanager
def on_stage() -> Iterator[Stage]:
    """Start everything, and end it."""
    with ExitStack() as stack:
        kafka = stack.enter_context(running_kafka())
        apache = stack.enter_context(running(APACHE, is_sync=False))
        set_pull_limits(apache, *RAISED)
        ours = stack.enter_context(running_ours())
        jars = ",".join(map(str, connector_jars()))
        spark = session("steelyard bench", master="local[2]", conf=_CONF | {"spark.jars": jars})
        # A stream that is stopped in the middle of a batch is told as an error; what fails here is raised.
        spark.sparkContext.setLogLevel("OFF")
        stack.callback(spark.stop)
        yield Stage(
            spark,
            KafkaSide("Kafka as it comes", spark, kafka),
            KafkaSide("Kafka, short wait", spark, kafka, _SHORT_WAIT),
            KafkaSide("Kafka, lingering", spark, kafka, _LINGERING),
            OurSide(APACHE, spark, apache),
            OurSide(OURS, spark, ours),
        )


def set_pull_limits(broker: Broker, messages: int, size_bytes: int) -> None:
    """Tell Apache's broker how much to hand out at a time of what is in memory."""
    limits = {"maxTransferCountOnMessageInMemory": messages, "maxTransferBytesOnMessageInMemory": size_bytes}
    body = "".join(f"{name}={value}\n" for name, value in limits.items()).encode()
    with broker.connection() as connection:
        answer = connection.ask(RequestCode.UPDATE_BROKER_CONFIG, {}, body)
    if answer.code != 0:
        raise RuntimeError(f"{broker.name} does not take {limits}: {answer.remark}")
