"""What all jobs that read topics as a stream share: options, triggers, checkpoints, and a dry run.

The checkpoint has Spark's state of the query, and ours of its output. It records its job, and another job is refused:
it would resume where this one ended. A dry run asks the cluster and reads the checkpoint without starting Spark, so a
mistake is an error early, and nothing is written or committed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.client.config import ClientConfig
from steelyard.client.tls import Tls
from steelyard.errors import ConfigurationError, StoreLocked, file_error
from steelyard.model import OffsetRange, Queue
from steelyard.model.formatting import pluralize
from steelyard.pipelines.hadoop_files import Files, absolute_path, is_local_path
from steelyard.spark.task_split import cap_fairly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONCE = ("once", "available-now", "available_now", "availablenow")
_SPAN = re.compile(r"(\d{1,6})\s*(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Trigger:
    """``every_ms`` is None for once: then the stream ends with what was available at its start.

    >>> Trigger.of("once"), Trigger.of("10s")
    (Trigger(every_ms=None), Trigger(every_ms=10000))
    >>> Trigger.of("soon")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: 'soon' is no trigger; write once, or how often: 10s, 500ms, 5m
    """

    every_ms: int | None = None

    @classmethod
    def of(cls, text: str) -> "Trigger":
        """Parse a trigger."""
        words = text.strip().lower()
        if words in _ONCE:
            return cls()
        found = _SPAN.fullmatch(words)
        if found is None:
            raise ConfigurationError(f"{text!r} is no trigger", next_step="write once, or how often: 10s, 500ms, 5m")
        return cls(int(found[1]) * _UNITS_MS[found[2]])

    def __str__(self) -> str:
        return (
            "once, over what is available"
            if self.every_ms is None
            else f"every {self.every_ms / 1000:g} s, until stopped"
        )


def connection_options(config: ClientConfig) -> dict[str, str]:
    """Return a client configuration as options of ``format("rocketmq")``.

    >>> connection_options(ClientConfig("mq-1:9876; mq-2:9876", access_key="shop", secret_key="s", namespace="eu"))
    {'namesrv': 'mq-1:9876;mq-2:9876', 'namespace': 'eu', 'accessKey': 'shop', 'secretKey': 's'}
    """
    options = {
        "namesrv": ";".join(config.name_servers),
        "namespace": config.namespace,
        "accessKey": config.access_key,
        "secretKey": config.secret_key,
        "securityToken": config.token,
        **_tls(config),
    }
    return {name: value for name, value in options.items() if value}


def _tls(config: ClientConfig) -> dict[str, str | None]:
    tls = config.tls
    if isinstance(tls, bool):
        return {"tls": "true" if tls else None}
    if isinstance(tls, str | Path):
        return {"tls": str(tls)}
    if isinstance(tls, Tls):
        return {
            "tls": "true" if tls.ca is None else str(tls.ca),
            "tlsVerify": None if tls.verify else "false",
            "tlsCertificate": None if tls.certificate is None else str(tls.certificate),
            "tlsKey": None if tls.key is None else str(tls.key),
            "tlsKeyPassword": tls.password,
        }
    raise ConfigurationError(
        "an SSLContext cannot be passed to Spark's workers",
        next_step="give tls as true, as the path of a CA file, or as Tls",
    )


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a stream would read."""

    ranges: tuple[OffsetRange, ...]  # one for each queue, in order; some may be empty
    max_batch_messages: int  # the maximum number of messages of a batch
    tasks: int  # the number of tasks of the first batch
    resumes: bool  # whether it resumes from a checkpoint

    @property
    def messages(self) -> int:
        """The number of messages to read."""
        return sum(map(len, self.ranges))

    @property
    def batches(self) -> int:
        """The number of batches, if no more messages arrive."""
        return -(-self.messages // self.max_batch_messages)

    def __str__(self) -> str:
        """Return it as text, a sentence a line."""
        start = "resumes from its checkpoint" if self.resumes else "starts without a checkpoint"
        return (
            f"it {start}: {pluralize(self.messages, 'message')} in "
            f"{pluralize(len(self.ranges), 'queue')} to read\n"
            f"batches, with up to {pluralize(self.max_batch_messages, 'message')} each: "
            f"{self.batches:,}; "
            f"tasks of the first: {self.tasks}"
        )


def _plan_dry_run(source: Mapping[str, str], checkpoint: str) -> DryRun:
    """Return what a stream with these source options and this Spark checkpoint would read."""
    from steelyard.spark.cluster_client import ClusterClient
    from steelyard.spark.options import ReadOptions
    from steelyard.spark.planning import discover_queues, make_partitions, resolve_start

    options = ReadOptions.of({name.lower(): value for name, value in source.items()}, streaming=True)
    positions = _read_checkpoint_offsets(checkpoint)
    client = ClusterClient(options)
    try:
        bounds = discover_queues(options, client)
        if positions is None:
            starts = resolve_start(options.starting, bounds, client, fail_on_loss=options.fail_on_data_loss)
        else:
            starts = {queue: positions.get(queue, begin) for queue, (begin, _) in bounds.items()}
        ranges = tuple(OffsetRange(queue, start, max(start, bounds[queue][1])) for queue, start in starts.items())
        messages = sum(map(len, ranges))
        most = options.max_offsets_per_trigger or max(1, messages)
        first = cap_fairly(ranges, most) if messages > most else ranges
        tasks = len(make_partitions(first, options, client.broker_addresses()))
        return DryRun(ranges, most, tasks, resumes=positions is not None)
    finally:
        client.close()


def _read_checkpoint_offsets(checkpoint: str) -> dict[Queue, int] | None:
    """Return the positions after the last committed batch of a checkpoint; None if there is none.

    A checkpoint that is not on this machine is not read.
    """
    if not is_local_path(checkpoint):
        return None
    from steelyard.spark.stream_offset import StreamOffset

    try:
        done = max(int(path.name) for path in (Path(checkpoint) / "commits").iterdir() if path.name.isdigit())
        # One line for the version, one for Spark's own state, and then one for each source.
        line = (Path(checkpoint) / "offsets" / str(done)).read_text(encoding="utf-8").splitlines()[2]
        return dict(StreamOffset.decode(json.loads(line)).positions)
    except (OSError, ValueError, IndexError):
        return None


_MAX_BATCH_MESSAGES = 1_000_000
"""Of a batch: enough to amortise its overhead, few enough to end soon when the job is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a job reads topics."""

    client_config: ClientConfig
    topics: tuple[str, ...]
    checkpoint: str  # a directory of its own, on any file system of Spark
    start: str = "earliest"
    """Where to start without a checkpoint: earliest, latest, a relative time such as -2h, or a time with its zone."""
    trigger: Trigger = field(default_factory=Trigger)
    group: str | None = None  # a group that offsets are committed to, so that every tool shows the lag
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source, which override the others."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise ConfigurationError("no topic is named", next_step="say which to read: --topic NAME")
        object.__setattr__(self, "checkpoint", absolute_path(self.checkpoint))

    @property
    def query_checkpoint(self) -> str:
        """The checkpoint of the Spark query."""
        return f"{self.checkpoint}/query"

    def source(self) -> dict[str, str]:
        """Return the options of the source."""
        is_edge = self.start in ("earliest", "latest", "group") or self.start.startswith(("-", "{"))
        given = {
            **connection_options(self.client_config),
            "subscribe": ",".join(self.topics),
            "startingOffsets" if is_edge else "startingTimestamp": self.start,
            "maxOffsetsPerTrigger": str(_MAX_BATCH_MESSAGES),
        }
        if self.group is not None:
            given["group"] = self.group
        # Option names are case-insensitive, so two spellings must not both be set.
        wanted = {name.lower() for name in self.source_options}
        return {name: value for name, value in given.items() if name.lower() not in wanted} | dict(self.source_options)

    def dry_run(self) -> DryRun:
        """Return what there is to read; raises if topics or options are wrong."""
        return _plan_dry_run(self.source(), self.query_checkpoint)

    def read(self, spark: "SparkSession") -> "DataFrame":
        """Return the messages as a stream."""
        return spark.readStream.format("rocketmq").options(**self.source()).load()

    def claim_checkpoint(self, files: Files, job: str) -> None:
        """Check that the checkpoint belongs to this job, or is new; ``job`` describes what must stay the same."""
        path = f"{self.checkpoint}/job.txt"
        owner = files.read(path)
        if owner is None:
            files.write(path, job)
        elif owner != job:
            raise ConfigurationError(
                f"{self.checkpoint} is the checkpoint of another job ({_quoted(owner)}, and this is {_quoted(job)})",
                next_step="give another --checkpoint",
            )


def _quoted(job: str) -> str:
    line = " ".join(job.split())
    return repr(line if len(line) <= 200 else f"{line[:200]}…")


@contextmanager
def lock_checkpoint(checkpoint: str) -> Iterator[None]:
    """Lock a checkpoint against other processes of this machine; the lock ends with the process."""
    if not is_local_path(checkpoint):
        yield
        return
    try:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        lock = (Path(checkpoint) / "lock").open("w")
    except OSError as error:
        raise file_error(f"the checkpoint {checkpoint} cannot be written", error, "give another --checkpoint") from None
    with lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except OSError:
            raise StoreLocked(f"the checkpoint {checkpoint} is in use by another process") from None
        yield
