"""The balance report from a running cluster: what Spark sums up is what was sent, and the rest is what happened."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from steelyard import Admin, ClientConfig, Message, Producer, Queue
from steelyard.errors import ConfigurationError, GroupNotFound, TopicNotFound
from steelyard.pipelines.balance_report import BalanceOptions, run
from tests.live.clusters import Live
from tests.pipelines.test_report_html import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CONNECT = ClientConfig("localhost:1")


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({"top": 0}, "0 keys cannot be listed"),
        ({"watch_s": -1.0, "group": "billing"}, "cannot be watched"),
        ({"watch_s": 5.0}, "without a group"),
        ({"events": (Path("c1.jsonl"),)}, "events are given without a group"),
        ({"since": datetime(2026, 11, 1, tzinfo=UTC), "until": datetime(2026, 10, 1, tzinfo=UTC)}, "not before until"),
        ({"since": datetime(2026, 11, 1, tzinfo=UTC).replace(tzinfo=None)}, "has no zone"),
        ({"to": Path("x.parquet")}, "report and table are both"),
    ],
)
def test_what_cannot_be_done_is_reported_before_anything_is_asked(given: dict[str, Any], output: str) -> None:
    with pytest.raises(ConfigurationError, match=output):
        BalanceOptions(_CONNECT, "orders", **given)


def test_events_that_are_not_there_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none.jsonl cannot be read"):
        run(BalanceOptions(_CONNECT, "orders", "billing", events=(tmp_path / "none.jsonl",)))


def test_a_topic_or_group_that_is_not_there_is_reported_before_spark_starts(cluster: Live, topic: str) -> None:
    with pytest.raises(TopicNotFound):
        run(BalanceOptions(ClientConfig(cluster.namesrv), "no-such-topic"))
    with pytest.raises(GroupNotFound):
        run(BalanceOptions(ClientConfig(cluster.namesrv), topic, "no-such-group"))


@pytest.mark.timeout(180)
def test_a_report_of_a_topic_and_its_group(cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path) -> None:
    with Producer(cluster.namesrv, group="shop") as producer:
        sent = [
            producer.send(Message(topic, b"x" * 10, keys=key), key=key)
            for key in (["customer-7"] * 300 + [f"customer-{each}" for each in range(100, 200)])
        ]
    busiest = sent[0].queue
    in_busiest = sum(each.queue == busiest for each in sent)
    with Admin(cluster.namesrv) as admin:
        admin.groups.create(group := f"group-{topic}")
        queues = [each.queue for each in admin.topics.describe(topic).queues]
    events = tmp_path / "c1.jsonl"
    events.write_text("joined\n" + "\n".join(map(json.dumps, _hand_over(queues))))
    options = BalanceOptions(
        ClientConfig(cluster.namesrv),
        topic,
        group,
        to=tmp_path / "out" / "report.html",
        events=(events,),
        watch_s=0.5,
        top=5,
    )
    report = run(options, spark)

    traffic = report.contents.traffic
    assert {each.queue: each.messages for each in traffic.queues} == {
        queue: sum(each.queue == queue for each in sent) for queue in queues
    }
    assert traffic.body_bytes == 4_000
    assert (traffic.keyed, traffic.distinct_keys) == (400, 101)
    heaviest = traffic.keys[0]
    assert (heaviest.key, heaviest.messages, heaviest.queues, heaviest.mostly_in) == ("customer-7", 300, 1, busiest)
    assert len(traffic.keys) == 5
    assert sum(step.messages for step in traffic.steps) == 400

    output = str(report)
    share = round(100 * 300 / in_busiest)
    assert f"queue {busiest.broker}:{busiest.queue_id} has" in output
    assert f"key customer-7 alone is {share} % of it" in output
    assert f"{len(queues)} queues moved in 2 rebalances, and the minimum is {len(queues)}" in output
    assert "the median hand-over took 150 ms" in output
    assert [(each.member, each.ended_ms - each.acquired_ms) for each in report.contents.history.holdings] == [
        ("c1", 60_000),
        ("c2", 0),
    ] * len(queues)
    assert "1 line of c1.jsonl are no events" in " ".join(report.contents.notes)
    read(report.page.read_text())
    rows = parquet.read_table(report.table).to_pylist()
    subjects = {row["subject"] for row in rows}
    assert subjects == {"topic", "queue", "broker", "key", "step", "look", "holding", "hand-over", "change"}
    assert len(rows) > 100
    assert [path.name for path in sorted(report.page.parent.iterdir())] == ["report.html", "report.parquet"]


@pytest.mark.timeout(180)
def test_a_report_of_a_time_by_a_property(cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path) -> None:
    with Producer(cluster.namesrv, group="shop") as producer:
        producer.send_many(
            [Message(topic, b"x", properties={"region": f"r{each % 3}"} if each < 9 else {}) for each in range(10)]
        )
    now = datetime.now(UTC)
    where = ClientConfig(cluster.namesrv)
    report = run(
        BalanceOptions(where, topic, to=tmp_path / "a.html", since=now - timedelta(hours=1), key="region"), spark
    )
    traffic = report.contents.traffic
    assert [(each.key, each.messages) for each in traffic.keys] == [("r0", 3), ("r1", 3), ("r2", 3)]
    assert (traffic.messages, traffic.keyed, traffic.distinct_keys) == (10, 9, 3)
    assert report.contents.group_view is None
    later = run(BalanceOptions(where, topic, to=tmp_path / "b.html", since=now + timedelta(hours=1), key="keys"), spark)
    assert later.contents.traffic.messages == 0
    assert "got no messages" in str(later)


def _hand_over(queues: list[Queue]) -> list[dict[str, object]]:
    """Return what two members write of whom the second takes all that the first had."""
    at_ms = 1_793_520_000_000
    return [
        {"at_ms": at_ms, "id": "c1", "queues": queues, "why": "c1 came"},
        {"at_ms": at_ms + 60_000, "id": "c1", "queues": [], "why": "it leaves the group"},
        {"at_ms": at_ms + 60_150, "id": "c2", "queues": queues, "why": "c2 came"},
    ]
