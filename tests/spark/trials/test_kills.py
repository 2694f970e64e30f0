"""A driver that is killed with kill -9 at random points leaves files that have every message exactly once.

It is killed once, or, by STEELYARD_DRIVER_KILLS=8, twelve times: eight in AvailableNow, four at a processing time.
Each kill is within a batch, or between two of them, and all of them are of one query: what one run left in the middle,
the next goes on with, whatever its trigger, and in the end the session that tests share. After each kill the group's
offsets, which every tool sees, must not be ahead of what the query has committed.
"""

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Message, Producer
from tests.live.clusters import Live
from tests.spark.trials.drivers import batches, committed_ends, driver, group_offsets, kill_whole
from tests.spark.trials.job import AVAILABLE_NOW, start_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KILLS = int(os.environ.get("STEELYARD_DRIVER_KILLS", "1"))
"""Kills in AvailableNow; half as many at a processing time."""
_TRIGGERS = [AVAILABLE_NOW] * _KILLS + ["200 milliseconds"] * (_KILLS // 2)
_ROWS_A_BATCH = 200
_MESSAGES = 100 * _ROWS_A_BATCH * len(_TRIGGERS)
"""No run that is to be killed can come to the end of them."""
_JOB = "tests.spark.trials.job"
_MOST_BATCHES_ON = 3
_LONGEST_PAUSE_MS = 1_000
"""Longer than a batch takes on a machine that has nothing else to do."""
_LOOK_S = 0.005

pytestmark = [pytest.mark.process, pytest.mark.timeout(300 + 120 * len(_TRIGGERS))]


def test_files_have_everything_exactly_once_whenever_the_driver_is_killed(
    cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path
) -> None:
    with Producer(cluster.namesrv, group=f"of-{topic}") as producer:
        producer.send_many(Message(topic, b"%06d" % number, keys=f"k{number}") for number in range(_MESSAGES))
    group = f"lake-{topic}"
    words = cluster.namesrv, topic, group, str(tmp_path)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "driver.log"
    for trigger in _TRIGGERS:
        with driver(_JOB, tmp_path, *words, trigger, str(_ROWS_A_BATCH)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n", log.read_text()[-4000:]
            wanted = max(1, batches(checkpoint)[0] + secrets.randbelow(_MOST_BATCHES_ON + 1))
            while batches(checkpoint)[0] < wanted and process.poll() is None:
                time.sleep(_LOOK_S)
            # Not a wait for something: when it dies is what this is about.
            pause_ms = secrets.randbelow(_LONGEST_PAUSE_MS)
            time.sleep(pause_ms / 1000)
            assert process.poll() is None, f"it was not to end by itself: {log.read_text()[-4000:]}"
            kill_whole(process)
        begun, done = batches(checkpoint)
        mirrored = _check_not_ahead(cluster, group, topic, checkpoint)
        sum_done = sum(committed_ends(checkpoint).values())
        print(
            f"{trigger}: killed {pause_ms} ms after batch {wanted}: {begun} begun, {done} done, {mirrored}/{sum_done}"
        )
        assert sum_done < _MESSAGES
    assert start_stream(spark, *words, AVAILABLE_NOW, str(_MESSAGES // 3)).awaitTermination(120)
    assert _check_not_ahead(cluster, group, topic, checkpoint) == _MESSAGES, "the last batch is told, too"
    assert sum(committed_ends(checkpoint).values()) == _MESSAGES
    rows = spark.read.parquet(str(tmp_path / "rows")).select("broker", "queue_id", "offset", "body").collect()
    assert len({(row.broker, row.queue_id, row.offset) for row in rows}) == len(rows) == _MESSAGES
    assert sorted(bytes(row.body) for row in rows) == [b"%06d" % number for number in range(_MESSAGES)]


def _check_not_ahead(cluster: Live, group: str, topic: str, checkpoint: Path) -> int:
    """Compare the group's offsets with what is written, and return how many messages they are."""
    written = committed_ends(checkpoint)
    mirrored = group_offsets(cluster.namesrv, group, topic)
    ahead = {
        queue: (offset, written.get(queue)) for queue, offset in mirrored.items() if offset > written.get(queue, 0)
    }
    assert not ahead, f"the group is ahead of what is written: {ahead}"
    return sum(mirrored.values())
