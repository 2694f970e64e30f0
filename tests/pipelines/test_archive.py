"""A topic becomes Parquet by day: each message once, for every reader, also when it is stopped or fails."""

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard import Message
from steelyard.errors import ConfigurationError, JobFailed, StoreLocked
from steelyard.pipelines import archive
from steelyard.pipelines.archive import ArchiveOptions
from steelyard.pipelines.hadoop_files import HadoopFiles
from steelyard.pipelines.parquet_sink import Compaction
from steelyard.pipelines.stream_options import lock_checkpoint
from steelyard.pipelines.stream_runner import BatchProgress, JobControl
from tests.live.clusters import Live
from tests.pipelines.archives import places, rows_of, send, stream_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)


def _options(cluster: Live, topic: str, tmp_path: Path, most: int = 1_000, merge: int = 0) -> ArchiveOptions:
    stream = stream_options(cluster.namesrv, topic, tmp_path / "lake.checkpoint", most)
    return ArchiveOptions(stream, str(tmp_path / "lake"), Compaction(merge))


def test_an_archive_goes_on_where_it_ended_and_merges_small_files(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    options, lake = _options(cluster, topic, tmp_path, most=40, merge=3), tmp_path / "lake"
    sent = send(cluster.namesrv, (Message(topic, b"%d" % number, tags="paid", keys="k") for number in range(100)))
    news: list[BatchProgress] = []
    assert archive.run(spark, options, JobControl(news.append)) == 100
    assert [batch.rows for batch in news] == [40, 40, 20]
    assert [batch.lag for batch in news] == [60, 20, 0]
    (merged,) = lake.rglob("*.parquet")
    assert merged.name == "merged-0000000002-0000.parquet"
    sent += send(cluster.namesrv, (Message(topic, b"%d" % number) for number in range(100, 130)))
    assert options.stream.dry_run().messages == 30
    assert archive.run(spark, options) == 30
    assert places(lake) == sorted(sent)
    assert spark.read.parquet(str(lake)).count() == 130
    row = next(row for row in rows_of(lake) if row["tags"])
    day = next(lake.glob("day=*"))
    assert day.name == f"day={row['stored_at'].astimezone(UTC).date()}"
    assert (row["topic"], row["tags"], row["keys"]) == (topic, "paid", "k")


def test_told_to_end_it_ends_between_two_batches_and_goes_on_later(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    options = _options(cluster, topic, tmp_path, most=20)
    sent = send(cluster.namesrv, (Message(topic, b"%d" % number) for number in range(100)))
    done: list[BatchProgress] = []
    archive.run(spark, options, JobControl(done.append, lambda: bool(done)))
    first = places(tmp_path / "lake")
    assert 20 <= len(first) < 100
    assert len(first) % 20 == 0, "no batch is there in part"
    archive.run(spark, options)
    assert places(tmp_path / "lake") == sorted(sent)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_batch_that_fails_while_it_is_published_is_finished_by_the_next_run(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    options, lake = _options(cluster, topic, tmp_path), tmp_path / "lake"
    sent = send(cluster.namesrv, (Message(topic, b"%d" % number) for number in range(50)))
    moved = 0
    move = HadoopFiles.move

    def fail(self: HadoopFiles, source: str, target: str) -> None:
        nonlocal moved
        moved += "/sealed/" in target or target.startswith(f"{lake}/")
        if moved == fails_at:
            raise JobFailed("the disk is gone", next_step="plug it in")
        move(self, source, target)

    monkeypatch.setattr(HadoopFiles, "move", fail)
    with pytest.raises(JobFailed, match="the disk is gone"):  # sealing, or moving the one file
        archive.run(spark, options)
    assert places(lake) == []
    archive.run(spark, options)
    assert places(lake) == sorted(sent)


def test_another_directory_or_another_process_cannot_have_the_checkpoint(
    spark: "SparkSession", cluster: Live, topic: str, tmp_path: Path
) -> None:
    options = _options(cluster, topic, tmp_path)
    archive.run(spark, options)
    with pytest.raises(ConfigurationError, match="is the checkpoint of another job"):
        archive.run(spark, ArchiveOptions(options.stream, str(tmp_path / "elsewhere")))
    with lock_checkpoint(options.stream.checkpoint), pytest.raises(StoreLocked, match="in use by another process"):
        archive.run(spark, options)


def test_a_checkpoint_inside_of_the_archive_is_refused(tmp_path: Path) -> None:
    stream = stream_options("localhost:9876", "orders", tmp_path / "lake" / "checkpoint")
    with pytest.raises(ConfigurationError, match="put it beside"):
        ArchiveOptions(stream, str(tmp_path / "lake"))
