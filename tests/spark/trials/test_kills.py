"""A driver that is killed with kill -9 at random points leaves files that have every message exactly once.

`make test` kills twice; `make chaos` kills 12 times (8 of them in AvailableNow, 4 at a processing time). After each
kill the group's offsets, which every tool sees, must not be ahead of what the query has committed.
"""

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.live.clusters import Live
from tests.spark.trials.drivers import committed_ends, driver, group_offsets, kill_whole
from tests.spark.trials.job import AVAILABLE_NOW

from steelyard import Message, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

_KILLS = int(os.environ.get("STEELYARD_DRIVER_KILLS", "0"))
"""Kills in AvailableNow; half as many at a processing time."""
_MESSAGES = 12_000 if not _KILLS else 60_000
_JOB = "tests.spark.trials.job"


@pytest.mark.parametrize(("trigger", "kills"), [(AVAILABLE_NOW, _KILLS or 1), ("200 milliseconds", _KILLS // 2 or 1)])
def test_files_have_everything_exactly_once_whenever_the_driver_is_killed(
    cluster: Live, topic: str, spark: "SparkSession", tmp_path: Path, trigger: str, kills: int
) -> None:
    with Producer(cluster.namesrv, group=f"of-{topic}") as producer:
        producer.send_many(Message(topic, b"%06d" % number, keys=f"k{number}") for number in range(_MESSAGES))
    group = f"lake-{topic}"
    words = (cluster.namesrv, topic, group, str(tmp_path), trigger, "local[2]")
    landed = 0
    while landed < kills:
        with driver(_JOB, *words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n", (tmp_path / "driver.log").read_text()[-4000:]
            # Not a wait for something: when it dies is what the test is about.
            time.sleep(secrets.randbelow(4_000) / 1000)
            assert process.poll() in (None, 0), (tmp_path / "driver.log").read_text()[-4000:]
            was_running = process.poll() is None
            kill_whole(process)
        _check_not_ahead(cluster, group, topic, tmp_path)
        landed += 1
        if not was_running:
            break  # all is written: there is nothing left to be killed in
    with driver(_JOB, *words) as process:
        assert process.wait(600) == 0, (tmp_path / "driver.log").read_text()[-4000:]
    _check_not_ahead(cluster, group, topic, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "rows")).select("broker", "queue_id", "offset", "body").collect()
    assert len({(row.broker, row.queue_id, row.offset) for row in rows}) == len(rows) == _MESSAGES
    assert sorted(bytes(row.body) for row in rows) == [b"%06d" % number for number in range(_MESSAGES)]


def _check_not_ahead(cluster: Live, group: str, topic: str, directory: Path) -> None:
    written = committed_ends(directory / "checkpoint")
    mirrored = group_offsets(cluster.namesrv, group, topic)
    ahead = {
        queue: (offset, written.get(queue)) for queue, offset in mirrored.items() if offset > written.get(queue, 0)
    }
    assert not ahead, f"the group is ahead of what is written: {ahead}"
