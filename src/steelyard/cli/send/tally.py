"""What became of the messages that `steelyard send` sends: numbers, the first failures, and receipts if wanted."""

import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from steelyard.cli.frame.screen import refuse, visible
from steelyard.cli.message.formats import read_format
from steelyard.model import Message, StoredMessage
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from steelyard.client.producing.sent import Sent

__all__ = ["TOLD", "Receipts", "Tally"]

_UNDER_WAY = 512
"""More than a broker answers in one read; few enough that a pipe is not read ahead of what is sent."""

TOLD = 10
"""Failures that are told one by one."""

_KNOWN = "tbqpokKgisSRh"
"""What is known of a message once it is stored, without reading it again."""


class Receipts:
    """A line for each message that was stored, by a pattern of the user's, in the order in which that happened.

    A thread of their own writes them: whoever reads slowly holds up what is sent next, and no answer of a broker.
    """

    def __init__(self, pattern: str) -> None:
        self._make = read_format(pattern, for_terminal=sys.stdout.isatty(), known=_KNOWN)
        self._out = sys.stdout.buffer
        self._error: OSError | None = None
        self._lines: SimpleQueue[tuple[bytes, Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="steelyard receipts", daemon=True)
        """Started with the first one."""

    def put(self, message: Message, sent: "Sent", then: "Callable[[], None]") -> None:
        """Have one written; ``then`` is called when that is done."""
        own = {TAGS: message.tags or "", KEYS: " ".join(message.keys), UNIQUE_KEY: sent.message_id}
        shown = {**message.properties, **{name: text for name, text in own.items() if text}}
        if not self._thread.is_alive():
            self._thread.start()
        self._lines.put((self._make(StoredMessage(sent.queue, sent.offset, message.body, shown)), then))

    def end(self) -> None:
        """Have all of them seen; an error if they could not be written."""
        if self._thread.is_alive():
            self._lines.put(None)
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while (item := self._lines.get()) is not None:
            line, then = item
            try:
                if self._error is None:
                    self._out.write(line)
                    if self._lines.empty():
                        self._out.flush()
            except OSError as error:
                self._error = error  # what is under way is still sent and counted
            then()


class Tally:
    """What became of the messages. Futures tell it, from another thread."""

    def __init__(self, topic: str, receipts: "Receipts | None" = None) -> None:
        self.topic = topic
        self.receipts = receipts
        self._room = threading.Semaphore(_UNDER_WAY)
        self.begun = self.sent = self.late = self.failed = 0
        self.brokers: Counter[str] = Counter()
        self._last: Sent | None = None
        self._first_failure = ""
        self._lock = threading.Lock()
        self._start = time.monotonic()

    @contextmanager
    def one_more(self, message: Message) -> "Iterator[Callable[[Future[Sent]], None]]":
        """Wait until one more may be under way, and count it as begun; who gets the future tells what became of it."""
        self._room.acquire()
        try:
            yield lambda future: self._note(future, message)
        except BaseException:
            self._room.release()
            raise
        self.begun += 1

    def _note(self, future: "Future[Sent]", message: Message) -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            if future.cancelled() or error is not None:
                self.failed += 1
                why = "it was given up" if error is None else str(error)
                self._first_failure = self._first_failure or why
                if self.failed <= TOLD:
                    refuse(why)
            else:
                self._last = sent = future.result()
                self.sent += 1
                self.late += bool(sent.late)
                self.brokers[sent.queue.broker] += 1
                if self.receipts is not None:
                    self.receipts.put(message, sent, self._room.release)
                    return
        self._room.release()

    def wait(self) -> None:
        """Wait until all that was begun is done; each of them ends by itself."""
        for _ in range(_UNDER_WAY):
            self._room.acquire()
        self._took_s = time.monotonic() - self._start

    def short(self) -> str:
        """Say how far it is."""
        return f"{self.sent} sent, {self.begun - self.sent - self.failed} under way, {self.failed} failed"

    def sentence(self) -> str:
        """Say what came of it."""
        if self.begun == 1 and self._last is not None:
            last = self._last
            late = "; stored, and not on all disks yet" if last.late else ""
            return visible(f"sent to {last.queue} at offset {last.offset}, id {last.message_id}{late}")
        shares = ", ".join(f"{self.brokers[name]} to {name}" for name in sorted(self.brokers))
        per_s = f", {self.sent / self._took_s:.0f} a second" if self._took_s > 0 else ""
        failed = f"{self.failed} failed" if self.failed else "none failed"
        return visible(
            f"sent {self.sent} to {self.topic} in {self._took_s:.2f} s{per_s}; {failed}"
            f"{f' ({shares})' if shares else ''}"
        )

    def as_json(self) -> dict[str, object]:
        """Return what came of it, for programs."""
        last = self._last
        return {
            "topic": self.topic,
            "sent": self.sent,
            "failed": self.failed,
            "late": self.late,
            "took_ms": round(self._took_s * 1000),
            "brokers": dict(sorted(self.brokers.items())),
            "last": None
            if last is None
            else {"queue": list(last.queue), "offset": last.offset, "message_id": last.message_id},
            "error": self._first_failure or None,
        }
