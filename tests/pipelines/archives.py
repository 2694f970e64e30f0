"""What tests of jobs on topics do again and again: send, read Parquet as others read it, and look at places."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from steelyard import ClientConfig, Message, Producer
from steelyard.pipelines.stream_options import StreamOptions

Place = tuple[str, int, int]
"""Broker, queue and offset: no two messages of a topic have the same."""


def send(namesrv: str, messages: Iterable[Message]) -> list[Place]:
    """Send messages, and return where they lie."""
    with Producer(namesrv, "tests") as producer:
        sent = producer.send_many(list(messages))
    return [(each.queue.broker, each.queue.queue_id, each.offset) for each in sent]


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """Read all Parquet files below a directory one by one, as a reader does who knows nothing of Spark."""
    return [row for path in sorted(directory.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def places(directory: Path) -> list[Place]:
    """Return where the messages lay that an archive holds, in order."""
    return sorted((row["broker"], row["queue_id"], row["offset"]) for row in rows_of(directory))


def stream_options(namesrv: str, topic: str, checkpoint: Path, most: int = 1_000, **more: Any) -> StreamOptions:
    """Return options of a stream whose batches have so many messages at most."""
    limit = {"maxOffsetsPerTrigger": str(most)}
    return StreamOptions(
        client_config=ClientConfig(namesrv), topics=(topic,), checkpoint=str(checkpoint), source_options=limit, **more
    )
