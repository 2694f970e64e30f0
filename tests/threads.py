"""Threads that one test started, and no other: clusters that tests share start theirs when they need them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def started_threads() -> Iterator[list[threading.Thread]]:
    """List the threads that this one starts meanwhile, and those that they start."""
    started: list[threading.Thread] = []
    us, start = threading.current_thread(), threading.Thread.start

    def record(thread: threading.Thread) -> None:
        if threading.current_thread() in (us, *started):
            started.append(thread)
        start(thread)

    with mock.patch.object(threading.Thread, "start", record):
        yield started
