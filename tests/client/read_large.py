"""A program that reads messages whose bodies are large once they are opened, and prints how much memory that took.

Arguments: the name servers, the topic, the group, how many messages to read, and how: `consumer`, `batches` or
`pull consumer`.
"""

import resource
import sys
import threading

from steelyard import Consumer, PullConsumer, ReceivedMessage


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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
