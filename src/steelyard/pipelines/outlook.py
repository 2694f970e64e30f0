"""What a stream would read if it began now: asked of the cluster and of the checkpoint, and of nobody else.

It needs no Spark, so a mistake is told before Spark has started, and a dry run takes no longer than a question. Nothing
is written and no group is told anything.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.balance.split import cap_fairly
from steelyard.model import OffsetRange, Queue
from steelyard.pipelines.files import is_here

__all__ = ["Outlook", "look_ahead", "read_places"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What there is to read."""

    ranges: tuple[OffsetRange, ...]
    """One for each queue, in order; some may be empty."""
    most: int
    """How many messages a batch may have."""
    tasks: int
    """In how many pieces the first batch is read."""
    goes_on: bool
    """Whether it begins where a checkpoint ends."""

    @property
    def messages(self) -> int:
        """How many there are to read."""
        return sum(map(len, self.ranges))

    @property
    def batches(self) -> int:
        """How many batches that would be, if nothing came."""
        return -(-self.messages // self.most)

    def __str__(self) -> str:
        """Return it as sentences, one a line."""
        begin = "goes on where its checkpoint ends" if self.goes_on else "begins without a checkpoint"
        return (
            f"it {begin}: {self.messages:,} messages in {len(self.ranges)} queues are there to be read\n"
            f"batches it would take, with up to {self.most:,} each: {self.batches:,}; tasks of the first: {self.tasks}"
        )


def look_ahead(source: Mapping[str, str], checkpoint: str) -> Outlook:
    """Ask what a stream with these options of the source, and this checkpoint of Spark, would read."""
    from steelyard.spark.options.checked import ReadOptions
    from steelyard.spark.planning.asking import Asking
    from steelyard.spark.planning.resolving import resolve_start
    from steelyard.spark.planning.slices import first_look, slices

    options = ReadOptions.of({name.lower(): value for name, value in source.items()}, streaming=True)
    kept = read_places(checkpoint)
    asking = Asking(options)
    try:
        spans = first_look(options, asking)
        if kept is None:
            starts = resolve_start(options.start, spans, asking, fail_on_loss=options.fail_on_data_loss)
        else:
            starts = {queue: kept.get(queue, begin) for queue, (begin, _) in spans.items()}
        ranges = tuple(OffsetRange(queue, start, max(start, spans[queue][1])) for queue, start in starts.items())
        messages = sum(map(len, ranges))
        most = options.max_offsets or max(1, messages)
        first = cap_fairly(ranges, most) if messages > most else ranges
        return Outlook(ranges, most, len(slices(first, options, asking.addresses())), goes_on=kept is not None)
    finally:
        asking.close()


def read_places(checkpoint: str) -> dict[Queue, int] | None:
    """Return up to where the last batch went that a checkpoint has as done; None if there is none.

    A checkpoint elsewhere than on this machine is not looked into.
    """
    if not is_here(checkpoint):
        return None
    from steelyard.spark.planning.offsets import Offsets

    try:
        done = max(int(path.name) for path in (Path(checkpoint) / "commits").iterdir() if path.name.isdigit())
        # A line for the version, one for Spark's own, and then one for each source.
        line = (Path(checkpoint) / "offsets" / str(done)).read_text(encoding="utf-8").splitlines()[2]
        return dict(Offsets.of(json.loads(line)).places)
    except (OSError, ValueError, IndexError):
        return None
