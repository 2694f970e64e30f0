"""What all jobs that read topics as a stream have in common: where from, how far at a time, and what is remembered.

Below ``checkpoint`` lies what Spark keeps of the query, and what we keep of its output. Its files say what it is the
checkpoint of, and another job is refused: it would go on where this one ended.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.client.connect import Connect
from steelyard.errors import ConfigurationError, StoreLocked
from steelyard.pipelines.files import Files, full_path, is_here
from steelyard.pipelines.outlook import Outlook, look_ahead
from steelyard.pipelines.triggers import Trigger
from steelyard.pipelines.where import where_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["StreamOptions", "alone_with"]

_MOST_MESSAGES = 1_000_000
"""In a batch: enough that its overhead does not count, few enough that one ends soon when it is told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How topics are read by a job."""

    connect: Connect
    topics: tuple[str, ...]
    checkpoint: str
    """A directory of its own, wherever Spark can write."""
    start: str = "earliest"
    """Where to begin without a checkpoint: earliest, latest, so long ago as -2h, or a time with its zone."""
    trigger: Trigger = field(default_factory=Trigger)
    group: str | None = None
    """A group that progress is told to, so that every tool shows the lag."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source; they have the last word."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise ConfigurationError("no topic is named", next_step="say which to read: --topic NAME")
        object.__setattr__(self, "checkpoint", full_path(self.checkpoint))

    @property
    def query_checkpoint(self) -> str:
        """Where Spark keeps what it has to remember."""
        return f"{self.checkpoint}/query"

    def source(self) -> dict[str, str]:
        """Return the options of the source."""
        is_edge = self.start in ("earliest", "latest", "group") or self.start.startswith(("-", "{"))
        given = {
            **where_options(self.connect),
            "subscribe": ",".join(self.topics),
            "startingOffsets" if is_edge else "startingTimestamp": self.start,
            "maxOffsetsPerTrigger": str(_MOST_MESSAGES),
        }
        if self.group is not None:
            given["group"] = self.group
        # Spark does not look at the case of a name, so neither of two spellings may be left.
        wanted = {name.lower() for name in self.more}
        return {name: value for name, value in given.items() if name.lower() not in wanted} | dict(self.more)

    def outlook(self) -> Outlook:
        """Ask what there is to read; raises what is wrong with the topics or the options."""
        return look_ahead(self.source(), self.query_checkpoint)

    def read(self, spark: "SparkSession") -> "DataFrame":
        """Return the messages as a stream."""
        return spark.readStream.format("rocketmq").options(**self.source()).load()

    def belongs_to(self, files: Files, job: str) -> None:
        """Make sure that the checkpoint is that of a job, or of nobody yet; ``job`` says what must stay the same."""
        path = f"{self.checkpoint}/job.txt"
        there = files.read(path)
        if there is None:
            files.write(path, job)
        elif there != job:
            raise ConfigurationError(
                f"{self.checkpoint} is the checkpoint of another job ({_told(there)}, and this is {_told(job)})",
                next_step="give another --checkpoint",
            )


def _told(job: str) -> str:
    line = " ".join(job.split())
    return repr(line if len(line) <= 200 else f"{line[:200]}…")


@contextmanager
def alone_with(checkpoint: str) -> Iterator[None]:
    """Make sure that no other process of this machine has a checkpoint; it ends with this one, however that ends."""
    if not is_here(checkpoint):
        yield
        return
    try:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        lock = (Path(checkpoint) / "lock").open("w")
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {checkpoint} cannot be written ({error.strerror})", next_step="give another --checkpoint"
        ) from None
    with lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except OSError:
            raise StoreLocked(f"the checkpoint {checkpoint} is in use by another process") from None
        yield
