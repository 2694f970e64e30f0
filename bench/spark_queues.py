"""Ten thousand queues: how long it takes to plan their reading, and in how many tasks they are read."""

from collections.abc import Iterator
from time import perf_counter

from bench.spark_rows import make_rows, wait_for_rows
from bench.spark_sides import OurSide
from bench.table import Row
from steelyard.spark.source import RocketMQSource

_ROWS = 100_000
_PLAN_S = 2.0
_MOST_TASKS = 16
_TRIES = 3


def many_queues(side: OurSide, queues: int) -> Iterator[Row]:
    """Make a topic with so many queues, plan it, and read it."""
    topic = f"queues-{queues}"
    side.make_topic(topic, queues)
    side.write(make_rows(side.spark, _ROWS, 100), topic)
    wait_for_rows(side, topic, _ROWS)
    source = RocketMQSource(side.options(topic))
    took = []
    for _ in range(_TRIES):
        start = perf_counter()
        source.reader(source.schema()).partitions()
        took.append(perf_counter() - start)
    what = f"{queues:,} queues, {side.name}"
    yield Row(f"{what}: plan", f"{min(took):.2f} s", "", "", f"≤ {_PLAN_S:g} s", min(took) <= _PLAN_S)
    start = perf_counter()
    tasks, rows = _tasks_of_a_read(side, topic)
    reported = f"{tasks} tasks, {perf_counter() - start:.1f} s, {rows:,} rows of {_ROWS:,}"
    yield Row(f"{what}: read", reported, "", "", f"≤ {_MOST_TASKS} tasks", tasks <= _MOST_TASKS and rows == _ROWS)


def _tasks_of_a_read(side: OurSide, topic: str) -> tuple[int, int]:
    context, group = side.spark.sparkContext, f"read {topic} of {side.name}"
    context.setJobGroup(group, group)
    rows = len(side.read(topic).select("offset").collect())
    tracker, tasks = context.statusTracker(), 0
    for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)):
        stages = [] if job is None else [tracker.getStageInfo(stage) for stage in job.stageIds]
        tasks += sum(stage.numTasks for stage in stages if stage is not None)
    return tasks, rows
