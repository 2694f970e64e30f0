"""A program that reads messages whose bodies are large once they are opened, and prints how much memory that took.

Arguments: the name servers, the topic, the group, how many messages to read, and how: `consumer`, `batches`,
`pull_consumer`, `dashboard`, `spark`, `message ls` or `dead-letters ls`.
"""

import io
import resource
import sys
import threading
from contextlib import redirect_stdout

from steelyard import Consumer, PullConsumer, ReceivedMessage
from steelyard.cli.main import main as run_command
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.spark.batch_reader import BatchReader
from steelyard.spark.schema import COLUMNS
from tests.dashboard.http_client import get
from tests.spark.stream_driver import batch_options


def main(namesrv: str, topic: str, group: str, count: int, kind: str) -> None:
    """Read all of it, and print the most memory that was taken, in MiB."""
    done, lock, read = threading.Event(), threading.Lock(), 0

    def record_message(messages: int) -> None:
        nonlocal read
        with lock:
            read += messages
            if read >= count:
                done.set()

    if kind == "pull_consumer":
        with PullConsumer(namesrv, group, start_from="first") as pull_consumer:
            pull_consumer.subscribe(topic)
            while not done.is_set():
                record_message(len(pull_consumer.poll(1)))
    elif kind == "dashboard":
        with Dashboard(namesrv, DashboardOptions(port=0)) as dashboard:
            rows = get(dashboard, f"/api/messages?topic={topic}&by=newest&count={count}")["rows"]
            assert rows
            for row in rows[:40]:
                body = get(dashboard, f"/api/messages/{topic}/{row['broker']}/{row['queue']}/{row['offset']}")["body"]
                assert body["is_truncated"]
    elif kind == "spark":
        reader = BatchReader(batch_options(namesrv, subscribe=topic), COLUMNS)
        for partition in reader.partitions():
            record_message(sum(batch.num_rows for batch in reader.read(partition)))
        assert done.is_set()
    elif kind in ("message ls", "dead-letters ls"):
        name = topic if kind == "message ls" else group
        # Whole bodies are printed for programs, which takes long: few show it.
        for output, shown in (("table", count), ("jsonl", 12), ("json", 12)):
            printed = _CountedOutput()
            with redirect_stdout(printed):
                words = [*kind.split(), name, "--count", str(shown), "--output", output, "--namesrv", namesrv]
                assert run_command(words) == 0
            assert printed.characters
    else:
        consumer = Consumer(namesrv, group=group, start_from="first")

        def take(given: ReceivedMessage | list[ReceivedMessage]) -> None:
            record_message(len(given) if isinstance(given, list) else 1)

        consumer.handles(topic, batch=64 if kind == "batches" else 1)(take)
        with consumer:
            done.wait()
    # Linux counts in kibibytes, macOS in bytes.
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit, flush=True)


class _CountedOutput(io.StringIO):
    """Counts what is printed, and keeps none of it."""

    characters = 0

    def write(self, text: str, /) -> int:
        self.characters += len(text)
        return len(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
