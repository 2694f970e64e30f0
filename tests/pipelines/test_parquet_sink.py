"""Whatever is killed when: no reader ever sees a row twice or half of a file, and at the end each row is there once."""

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, JobFailed
from steelyard.pipelines.parquet_sink import Compaction, ParquetSink, compact
from tests.pipelines.crashing_files import CrashingFiles, Killed, rows_below

_LAKE, _STATE = "/lake/orders", "/lake/orders.checkpoint/output"
_BATCHES = 7
_MERGE = Compaction(3, small_bytes=100)


def _sees_each_row_once_at_most(texts: dict[str, str]) -> None:
    rows = rows_below(texts, _LAKE)
    assert len(rows) == len(set(rows)), "a reader sees a row twice"
    assert "" not in rows, "a reader sees half of a file"


class _Job:
    """An archive as Spark would run it: a batch that is not committed is run again, with the same rows."""

    def __init__(self) -> None:
        self.files = CrashingFiles(_sees_each_row_once_at_most)
        self.committed = 0
        self.written: list[int] = []

    def rows(self, number: int) -> dict[str, list[str]]:
        days = {"day=1": [f"{number}-{row}" for row in range(3)], "day=2": [f"{number}-late"]}
        return days if number % 3 else {"day=1": days["day=1"]}

    def run(self) -> None:
        publishing = ParquetSink(self.files, _LAKE, _STATE)
        publishing.claim()
        while self.committed < _BATCHES:
            number = self.committed
            touched = publishing.publish(number, partial(self._write, number))
            compact(publishing, touched, number, _MERGE, self._merge)
            self.committed += 1

    def _write(self, number: int, staged: str) -> None:
        self.written.append(number)
        for day, rows in self.rows(number).items():
            self.files.put_rows(f"{staged}/{day}/part-0.snappy.parquet", rows)
        self.files.put(f"{staged}/_SUCCESS", "")

    def _merge(self, paths: Sequence[str], staged: str) -> None:
        rows = [row for path in paths for row in self.files.texts[path].split("\n")]
        self.files.put_rows(f"{staged}/part-0.snappy.parquet", sorted(rows))
        self.files.put(f"{staged}/_SUCCESS", "")

    def all_rows(self) -> list[str]:
        return sorted(row for number in range(_BATCHES) for rows in self.rows(number).values() for row in rows)


def _steps() -> int:
    job = _Job()
    job.run()
    assert sorted(job.files.rows(_LAKE)) == job.all_rows()
    return job.files.steps


_STEPS = _steps()


def _run_killed_at(job: _Job, *steps: int) -> None:
    for step in steps:
        job.files.steps, job.files.crash_at = 0, step
        try:
            job.run()
        except Killed:
            continue
    job.files.crash_at = None
    job.run()
    assert sorted(job.files.rows(_LAKE)) == job.all_rows()


@pytest.mark.parametrize("step", range(1, _STEPS + 1))
def test_killed_at_any_step_each_row_is_there_once(step: int) -> None:
    _run_killed_at(_Job(), step)


@settings(max_examples=300)
@given(st.lists(st.integers(1, _STEPS), min_size=2, max_size=5))
def test_killed_again_and_again_each_row_is_there_once(steps: list[int]) -> None:
    _run_killed_at(_Job(), *steps)


def test_a_batch_that_was_published_and_merged_is_not_written_again() -> None:
    job = _Job()
    job.run()
    job.committed = _BATCHES - 1  # as if it had been killed before Spark took note of the last one
    job.run()
    assert job.written == list(range(_BATCHES))
    assert sorted(job.files.rows(_LAKE)) == job.all_rows()


def test_what_a_killed_run_still_writes_is_not_taken_for_the_next_ones() -> None:
    files, places = CrashingFiles(), list[str]()

    def killed(staged: str) -> None:
        places.append(staged)
        raise Killed

    def again(staged: str) -> None:
        files.put_rows(f"{places[0]}/part-old.parquet", ["a row"])  # Java may outlive Python by a moment
        files.put_rows(f"{staged}/part-new.parquet", ["a row"])

    with pytest.raises(Killed):
        ParquetSink(files, _LAKE, _STATE).publish(0, killed)
    publishing = ParquetSink(files, _LAKE, _STATE)
    publishing.claim()
    publishing.publish(0, again)
    assert files.rows(_LAKE) == ["a row"]
    ParquetSink(files, _LAKE, _STATE).claim()
    assert not files.sizes(f"{_STATE}/staged")


def test_little_is_kept_of_what_is_done() -> None:
    job = _Job()
    job.run()
    kept = job.files.sizes("/lake/orders.checkpoint")
    assert sorted(kept) == ["output/directory.txt", *(f"output/sealed/batch-{n:010}.json" for n in (5, 6))]


def test_a_directory_with_files_of_others_is_refused() -> None:
    files = CrashingFiles()
    files.texts[f"{_LAKE}/day=1/old.parquet"] = "a row"
    with pytest.raises(ConfigurationError, match="has Parquet files already"):
        ParquetSink(files, _LAKE, _STATE).claim()


def test_a_directory_that_another_job_has_begun_with_is_refused_before_there_is_a_file_in_it() -> None:
    files = CrashingFiles()
    ParquetSink(files, _LAKE, _STATE).claim()
    with pytest.raises(ConfigurationError, match=f"belongs to another job, whose checkpoint is {_STATE}"):
        ParquetSink(files, _LAKE, "/elsewhere/output").claim()
    ParquetSink(files, _LAKE, _STATE).claim()
    assert not files.sizes("/elsewhere")


def test_a_checkpoint_of_another_directory_is_refused() -> None:
    files = CrashingFiles()
    ParquetSink(files, _LAKE, _STATE).claim()
    with pytest.raises(ConfigurationError, match=r"is the checkpoint of /lake/orders, and not of /lake/others"):
        ParquetSink(files, "/lake/others", _STATE).claim()


def test_a_seal_that_is_damaged_is_reported() -> None:
    files = CrashingFiles()
    files.texts |= {f"{_STATE}/sealed/batch-0000000000.json": "{", f"{_STATE}/directory.txt": _LAKE}
    with pytest.raises(JobFailed, match="is damaged"):
        ParquetSink(files, _LAKE, _STATE).claim()
