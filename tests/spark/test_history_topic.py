"""The history of moves is a topic that Spark reads when it is named, and never because of a pattern."""

import json

import pytest

from steelyard import Admin, Consumer
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from steelyard.spark.batch_reader import BatchReader
from steelyard.spark.partition_reader import OffsetRangePartition
from steelyard.spark.schema import COLUMNS
from tests.live.clusters import Live, until
from tests.spark.stream_driver import batch_options


def topics_read(namesrv: str, **given: str) -> set[str]:
    """Plan a batch, and return the topics that it reads."""
    tasks = BatchReader(batch_options(namesrv, **given), COLUMNS).partitions()
    return {part.queue.topic for task in tasks if isinstance(task, OffsetRangePartition) for part in task.ranges}


def test_spark_reads_the_history_of_moves_but_not_by_a_pattern(cluster: Live, topic: str) -> None:
    if not cluster.is_ours:
        pytest.skip("these brokers keep no history of moves")
    group = f"of-{topic}"
    member = Consumer(cluster.namesrv, group=group, start_from="first")
    member.handles(topic)(lambda _: None)
    with member, Admin(cluster.namesrv) as admin:
        until(
            lambda: len({record.broker for record in admin.groups.rebalance_history(group)}) == 2,
            "both brokers wrote something down",
        )
        reader = BatchReader(batch_options(cluster.namesrv, subscribe=REBALANCE_HISTORY_TOPIC), COLUMNS)
        rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
        mine = [json.loads(row["body"]) for row in rows if row["tags"] == group]
        assert {record["group"] for record in mine} == {group}
        assert {move["topic"] for record in mine for move in record["moves"]} >= {topic}
    assert topics_read(cluster.namesrv, subscribe=REBALANCE_HISTORY_TOPIC) == {REBALANCE_HISTORY_TOPIC}
    assert REBALANCE_HISTORY_TOPIC not in topics_read(cluster.namesrv, subscribePattern=".*", failOnDataLoss="false")
