"""An archive is sent again: all of it, in the order per key, at a rate, and on from where it was stopped."""

import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import Admin, ClientConfig, Message, OffsetRange, Producer, PullConsumer, Queue, StoredMessage
from steelyard.errors import ConfigurationError, JobFailed
from steelyard.pipelines import archive, replay
from steelyard.pipelines.archive import ArchiveOptions
from steelyard.pipelines.hadoop_files import HadoopFiles
from steelyard.pipelines.replay import RateLimiter, ReplayCheckpoint, ReplayOptions, ReplayPlan, parse_rate
from steelyard.pipelines.stream_runner import BatchProgress, JobControl
from tests.live.clusters import Live
from tests.pipelines.archives import stream_options
from tests.pipelines.crashing_files import CrashingFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _read_all(namesrv: str, topic: str) -> list[StoredMessage]:
    """Read a topic, queue by queue in their order."""
    with PullConsumer(namesrv, "tests", auto_commit=False) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, "first")
        wanted, found = sum(consumer.ends(queues).values()), list[StoredMessage]()
        while len(found) < wanted:
            found += consumer.poll(timeout_s=1.0)
    return sorted(found, key=lambda each: (each.queue, each.offset))


@pytest.mark.timeout(240)
def test_a_replay_keeps_messages_and_the_order_per_key_and_goes_on(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    again = f"{topic}-again"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(again, 3)
    messages = [
        Message(topic, b"%d" % number, keys=f"k{number % 11}", tags="t", properties={"region": "eu"})
        for number in range(2_000)
    ]
    with Producer(cluster.namesrv, "tests") as producer:
        producer.send_many(messages, key=lambda message: " ".join(message.keys))
    stream = stream_options(cluster.namesrv, topic, tmp_path / "lake.checkpoint", most=700)
    archive.run(spark, ArchiveOptions(stream, str(tmp_path / "lake")))

    connect = ClientConfig(cluster.namesrv)
    options = ReplayOptions(
        connect, str(tmp_path / "lake"), again, rate=500, checkpoint=str(tmp_path / "replay"), condition="offset >= 0"
    )
    plan, done = replay.plan_replay(spark, options)
    assert (plan.rows, plan.steps, done) == (2_000, 4, 0)
    assert not (tmp_path / "replay").exists(), "a plan writes nothing"
    # As if a machine with one core had begun: ids have the task in them, so there may not be more of them now.
    ReplayCheckpoint(HadoopFiles(spark), options.checkpoint).write_plan(replace(plan, tasks=1))
    news: list[BatchProgress] = []
    first = replay.run(spark, options, JobControl(news.append, lambda: len(news) == 2))
    assert first == sum(batch.rows for batch in news) < 2_000
    assert replay.plan_replay(spark, options)[1] == 2
    assert replay.run(spark, options) == 2_000 - first

    found = _read_all(cluster.namesrv, again)
    by_key: dict[str, list[int]] = defaultdict(list)
    queues: dict[str, set[Queue]] = defaultdict(set)
    for each in found:
        by_key[each.keys[0]].append(int(each.body))
        queues[each.keys[0]].add(each.queue)
        assert (each.tags, each.properties["region"]) == ("t", "eu")
    assert len({each.message_id for each in found}) == 2_000
    assert replay.plan_replay(spark, options)[0].tasks == 1, "one task for each step, as it was begun"
    assert by_key == {f"k{key}": list(range(key, 2_000, 11)) for key in range(11)}
    assert all(len(each) == 1 for each in queues.values()), "one key, one queue"
    with pytest.raises(ConfigurationError, match="is the checkpoint of another job"):
        replay.run(spark, ReplayOptions(connect, options.source, topic, checkpoint=options.checkpoint))


@pytest.mark.timeout(240)
def test_what_is_no_archive_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "numbers"))
    connect = ClientConfig("localhost:9876")
    with pytest.raises(ConfigurationError, match="has no column 'topic', so it is not an archive"):
        replay.plan_replay(spark, ReplayOptions(connect, str(tmp_path / "numbers"), "orders"))
    with pytest.raises(ConfigurationError, match="PATH_NOT_FOUND"):
        replay.plan_replay(spark, ReplayOptions(connect, str(tmp_path / "nowhere"), "orders"))


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(1, 1_000)), min_size=1, max_size=6), st.integers(1, 700))
def test_steps_cover_every_queue_once_in_order(spans: list[tuple[int, int]], most: int) -> None:
    queues = [
        OffsetRange(Queue("orders", "a", number), start, start + size) for number, (start, size) in enumerate(spans)
    ]
    plan = ReplayPlan.create("a job", sum(map(len, queues)), most, queues, tasks=3)
    sent: dict[Queue, list[int]] = defaultdict(list)
    for number in range(plan.steps):
        for part in plan.ranges_of_step(number):
            sent[part.queue] += range(part.start, part.end)
    assert sent == {each.queue: list(range(each.start, each.end)) for each in queues}
    assert ReplayPlan.decode(plan.encode(), "plan.json") == plan


def test_what_is_done_is_kept_and_another_job_is_refused() -> None:
    files = CrashingFiles()
    steps, plan = ReplayCheckpoint(files, "/kept"), ReplayPlan("a job", "id", 10, 12, ())
    assert steps.read_plan("a job") is None
    steps.write_plan(plan)
    for number in range(1, 12):
        steps.record_completed(number)
    assert (steps.read_plan("a job"), steps.completed_steps()) == (plan, 11)
    assert sorted(files.texts) == ["/kept/done/11", "/kept/plan.json"]
    with pytest.raises(ConfigurationError, match="another job"):
        steps.read_plan("another one")
    files.texts["/kept/plan.json"] = '{"job": 1}'
    with pytest.raises(JobFailed, match="is damaged"):
        steps.read_plan("a job")


@given(st.floats(1, 1e6), st.lists(st.tuples(st.integers(1, 10_000), st.floats(0, 5)), min_size=2, max_size=20))
def test_a_pace_is_never_faster_than_the_rate(rate: float, pieces: list[tuple[int, float]]) -> None:
    limiter, now_s = RateLimiter(rate), 100.0
    begun: list[tuple[float, int]] = []
    for count, took_s in pieces:
        known = count // 2  # of the rest it is known afterwards
        now_s += limiter.wait_s(known, now_s=now_s)
        begun.append((now_s, count))
        now_s += took_s
        limiter.add(count - known)
    for (start_s, count), (next_s, _) in pairwise(begun):
        assert next_s - start_s >= count / rate - 1e-5


@pytest.mark.parametrize("text", ["", "fast", "0/s", "-5", "10k/day", "1e9"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("write one such as 500/s")):
        parse_rate(text)
