"""Paths mean the same wherever they are read, and files are moved only where that is done at once."""

from pathlib import Path

import pytest

from steelyard.errors import ConfigurationError
from steelyard.pipelines.hadoop_files import absolute_path, is_same_filesystem
from steelyard.pipelines.parquet_sink import check_checkpoint_location


@pytest.mark.parametrize("path", ["/lake/orders", "file:/lake/orders", "file:///lake/orders", "/lake/x/../orders/"])
def test_one_directory_has_one_path_however_it_is_written(path: str) -> None:
    assert absolute_path(path) == "/lake/orders"


def test_two_disks_are_told_apart_also_where_nothing_is_yet(tmp_path: Path) -> None:
    assert is_same_filesystem(str(tmp_path / "a" / "b"), str(tmp_path / "c"))
    assert not is_same_filesystem(str(tmp_path / "a"), "/proc/lake")
    assert not is_same_filesystem("s3a://lake/a", "s3a://state/a")


def test_a_checkpoint_that_files_cannot_be_moved_from_at_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is on another disk than"):
        check_checkpoint_location(str(tmp_path), "/proc/checkpoint")
    with pytest.raises(ConfigurationError, match="is inside of"):
        check_checkpoint_location("/lake", "/lake/checkpoint")
    check_checkpoint_location("/lake", "/lake.checkpoint")
