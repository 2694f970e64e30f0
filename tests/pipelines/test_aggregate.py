"""SQL over windows gives what can be worked out by hand, wherever the answer goes."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Admin, Message, PullConsumer, StoredMessage
from steelyard.errors import ConfigurationError
from steelyard.pipelines import aggregate
from steelyard.pipelines.aggregate import AggregateOptions, query_result
from tests.live.clusters import Live
from tests.pipelines.archives import rows_of, send, stream_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)

_TIME = "timestamp_seconds(bigint(get_json_object(text, '$.at')))"
_WINDOWED = """
SELECT unix_seconds(window.start) AS begin, tags, count(*) AS orders,
       sum(int(get_json_object(text, '$.euros'))) AS euros
FROM messages GROUP BY window(event_time, '1 minute'), tags
"""


def _orders(topic: str, count: int = 120, begin: int = 1_800_000_000) -> list[Message]:
    return [
        Message(topic, json.dumps({"at": begin + 5 * number, "euros": number}).encode(), tags=f"t{number % 2}")
        for number in range(count)
    ]


def _expected(orders: list[Message], upto: int) -> Counter[tuple[int, str, int]]:
    """Work out the windows that are over when the watermark is somewhere: begin, tag, and how many euros."""
    totals_by_key: Counter[tuple[int, str]] = Counter()
    for order in orders:
        read = json.loads(order.body)
        totals_by_key[read["at"] // 60 * 60, str(order.tags)] += read["euros"]
    return Counter((begin, tag, euros) for (begin, tag), euros in totals_by_key.items() if begin + 60 <= upto)


def _reported(rows: list[dict[str, object]]) -> Counter[tuple[object, object, object]]:
    return Counter((row["begin"], row["tags"], row["euros"]) for row in rows)


def test_windows_that_are_over_go_to_a_topic_as_json(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    totals = f"{topic}-totals"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(totals, 2)
    orders = _orders(topic)
    send(cluster.namesrv, orders)
    stream = stream_options(cluster.namesrv, topic, tmp_path / "checkpoint")
    options = AggregateOptions(stream, _WINDOWED, totals, event_time=_TIME, watermark_ms=30_000)
    assert aggregate.run(spark, options) == 120
    with PullConsumer(cluster.namesrv, "tests", auto_commit=False) as consumer:
        queues = consumer.queues(totals)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, "first")
        wanted = sum(consumer.ends(queues).values())
        found: list[StoredMessage] = []
        while len(found) < wanted:
            found += consumer.poll(timeout_s=1.0)
    last = 1_800_000_000 + 5 * 119
    assert _reported([json.loads(each.body) for each in found]) == _expected(orders, last - 30)
    assert {each.tags for each in found} == {"t0", "t1"}
    assert aggregate.run(spark, options) == 0, "it goes on, and a window is told once"


def test_windows_go_to_parquet_once_and_the_rest_when_their_time_comes(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    stream = stream_options(cluster.namesrv, topic, tmp_path / "checkpoint", most=50)
    options = AggregateOptions(stream, _WINDOWED, to=str(tmp_path / "lake"), event_time=_TIME, watermark_ms=0)
    orders = _orders(topic)
    for part in (orders[:60], orders[60:]):
        send(cluster.namesrv, part)
        aggregate.run(spark, options)
    assert _reported(rows_of(tmp_path / "lake")) == _expected(orders, 1_800_000_000 + 5 * 119)
    changed = AggregateOptions(stream, "SELECT 1 FROM messages", to=options.to)
    with pytest.raises(ConfigurationError, match="is the checkpoint of another job"):
        aggregate.run(spark, changed)


def test_rows_are_shown_as_json_and_in_the_mode_update_windows_that_are_not_over(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    send(cluster.namesrv, _orders(topic, 10))
    stream = stream_options(cluster.namesrv, topic, tmp_path / "checkpoint")
    shown: list[str] = []
    sql = "SELECT tags, count(*) AS orders FROM messages GROUP BY tags"
    aggregate.run(spark, AggregateOptions(stream, sql, mode="update"), show=shown.append)
    assert sorted(json.loads(line)["orders"] for line in shown) == [5, 5]


def test_a_query_that_cannot_be_run_gives_the_reason(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    stream = stream_options(cluster.namesrv, topic, tmp_path / "checkpoint")

    def why(sql: str, event_time: str = "stored_at", to_topic: str | None = None) -> str:
        options = AggregateOptions(stream, sql, to_topic, event_time=event_time)
        with pytest.raises(ConfigurationError) as raised:
            query_result(spark, options)
        return str(raised.value)

    assert "the query cannot be run: [PARSE_SYNTAX_ERROR]" in why("SELEC 1")
    assert "tgas" in why("SELECT tgas FROM messages")
    assert "the event time 'text' cannot be run" in why("SELECT 1 FROM messages", event_time="text")
    assert "reads nothing of messages" in why("SELECT 1")
    assert "a message has no column 'amount'" in why("SELECT body, 1 AS amount FROM messages", to_topic="totals")


def test_wishes_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    stream = stream_options("localhost:9876", "orders", tmp_path / "checkpoint")
    with pytest.raises(ConfigurationError, match="to a topic and to files"):
        AggregateOptions(stream, "SELECT 1", "totals", "lake")
    with pytest.raises(ConfigurationError, match="use the mode append"):
        AggregateOptions(stream, "SELECT 1", to="lake", mode="update")
    with pytest.raises(ConfigurationError, match="give append or update"):
        AggregateOptions(stream, "SELECT 1", mode="complete")
