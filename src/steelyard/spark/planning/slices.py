"""The first look at a cluster, and from ranges to tasks: what a batch and a stream have in common.

At the start everything that is wanted has to be there. A broker that does not answer is given some seconds, as it may
be restarting; to begin without its queues would be to read something else than was asked for.
"""

from collections.abc import Iterable, Mapping
from time import sleep

from steelyard.balance.split import SplitOptions, split
from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError, NoRoute, TopicNotFound
from steelyard.model import OffsetRange, Queue
from steelyard.spark.options.checked import ReadOptions
from steelyard.spark.planning.asking import Asking
from steelyard.spark.planning.layout import Layout
from steelyard.spark.planning.spans import Span, Spans
from steelyard.spark.task import Slice

__all__ = ["PAUSES_S", "first_look", "slices"]

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Between asking brokers that did not answer: one that restarts is back in some seconds."""


def first_look(options: ReadOptions, asking: Asking) -> dict[Queue, Span]:
    """Return all queues that are to be read, with their begins and ends; whatever is not there is an error."""
    for pause_s in (*PAUSES_S, None):
        layout = asking.layout()
        wrong = _problem_of_layout(options, layout)
        if wrong is not None:
            raise wrong
        spans = asking.spans(layout.queues)
        away = _problem_of_spans(spans)
        if away is None:
            break
        if pause_s is None:
            raise away
        sleep(pause_s)
    return {queue: spans.found[queue] for queue in layout.queues}


def slices(ranges: Iterable[OffsetRange], options: ReadOptions, addresses: Mapping[str, str]) -> list[Slice]:
    """Cut ranges into even tasks, each with the addresses of its brokers."""
    cut = SplitOptions(
        most_tasks=options.max_partitions,
        least_tasks=options.min_partitions or 1,
        most_records=options.max_records,
    )
    return [
        Slice(task.ranges, {broker: addresses[broker] for broker in task.brokers if broker in addresses})
        for task in split(ranges, cut)
    ]


def _problem_of_layout(options: ReadOptions, layout: Layout) -> TopicNotFound | ConfigurationError | None:
    for error in layout.missing.values():
        return error
    absent = [queue for queue in options.topics.queues or () if queue not in layout.queues]
    if not absent:
        return None
    wrong = min(absent)
    there = sorted(layout.brokers[wrong.topic])
    meant = wrong.broker if wrong.broker in there else nearest(wrong.broker, there)
    return ConfigurationError(
        f"assign names {wrong}, and there is no such queue",
        next_step=f"topic {wrong.topic} is on {', '.join(there)}"
        + (f"; did you mean {meant}?" if meant and meant != wrong.broker else ", with fewer queues"),
    )


def _problem_of_spans(spans: Spans) -> NoRoute | None:
    for broker, error in spans.silent.items():
        return NoRoute(
            f"broker {broker} does not say where its queues begin and end ({error.what})",
            next_step=error.next_step or "see whether it runs",
        )
    for queue in spans.gone:
        return NoRoute(f"broker {queue.broker} does not have topic {queue.topic} any more", next_step="see who has it")
    return None
