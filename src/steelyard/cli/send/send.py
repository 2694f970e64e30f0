"""`steelyard send`: messages from the command line or from a pipe, many under way at the same time.

What is read is sent at once, and what could not be sent is told, message by message up to a point, on stderr. Ctrl-C
stops reading; what is under way is still waited for. Exit codes: 0 all were stored, 1 some were not, and the others of
`cli/frame/exits.py` if it could not begin.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.cli.frame.screen import Progress, refuse, visible
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.send.source import Outgoing, Pattern, from_body, from_json, from_lines, from_stdin
from steelyard.errors import ConfigurationError, SteelyardError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from steelyard.client.blocking.producer import Producer
    from steelyard.client.producing.sent import Sent

__all__ = ["send"]

_UNDER_WAY = 512
"""More than a broker answers in one read; few enough that a pipe is not read ahead of what is sent."""

_TOLD = 10
"""Failures that are told one by one."""


@at_cluster
def send(
    where: Where,
    topic: Annotated[str, typer.Argument(help="Where to.", show_default=False)],
    source: Annotated[
        str | None, typer.Argument(metavar="[-]", help="-: all of stdin is one body.", show_default=False)
    ] = None,
    body: Annotated[str | None, typer.Option(help="The body, as text.", show_default=False)] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of stdin is a message.")] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Each line of stdin is a JSON object, as `steelyard consume --json` prints it."),
    ] = False,
    tags: Annotated[str | None, typer.Option(help="The tag.", show_default=False)] = None,
    keys: Annotated[
        list[str] | None, typer.Option(help="A key to find it by; several by repeating it.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Messages of one key go to one queue, in order.", show_default=False)
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Deliver it only after 30s, 2h …", show_default=False)
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=0, help="Send --body so many times; of lines, no more than so many.", show_default="1, or all lines"
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="No more than so many a second.", show_default=False)
    ] = None,
    group: Annotated[str, typer.Option(help="The name of the group that sends.")] = "DEFAULT_PRODUCER",
    output: Annotated[str, typer.Option(help="How to tell the result: text or json.")] = "text",
) -> None:
    """Send messages: one, many, or as they come through a pipe."""
    if output not in ("text", "json"):
        raise ConfigurationError(f"--output is {output!r}", next_step="give text or json")
    if source not in (None, "-"):
        raise ConfigurationError(f"{source!r} is not expected here", next_step=f"to send it, write: --body {source!r}")
    ways = [body is not None, lines, as_json, source == "-"]
    if sum(ways) != 1:
        what = "there is nothing to send" if not any(ways) else "only one source can be sent at a time"
        raise ConfigurationError(what, next_step="give one of --body TEXT, --lines, --json and -")
    delay_s = None if delay is None else seconds(delay)
    pattern = Pattern(topic, tags, tuple(keys or ()), key, delay_s)
    if body is not None:
        messages = from_body(pattern, body, 1 if count is None else count)
    elif source == "-":
        messages = from_stdin(pattern)
    else:
        messages = (from_json if as_json else from_lines)(pattern, count)

    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.client.blocking.producer import Producer

    # Not in batches: those are quicker, but all messages of one go to one queue, and some member would have them all.
    with log_on_stderr(), Producer(where.connect(), group) as producer:
        tally = _Tally(topic)
        raise typer.Exit(_send_all(producer, messages, tally, rate, output))


def _send_all(
    producer: "Producer", messages: Iterator[Outgoing], tally: "_Tally", rate: float | None, output: str
) -> int:
    progress = Progress()
    failure = None
    try:
        for each in messages if rate is None else _paced(messages, rate):
            with tally.one_more() as note:
                producer.submit(each.message, key=each.key, delay_s=each.delay_s).add_done_callback(note)
            progress.tell(tally.short)
    except SteelyardError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # what was begun is told below, as ever
    tally.wait()
    progress.clear()
    if failure is not None:
        refuse(str(failure))
    if tally.failed > _TOLD:
        print(f"steelyard: {tally.failed - _TOLD} more failed", file=sys.stderr)
    if output == "json":
        typer.echo(msgspec.json.encode(tally.as_json()))
    elif tally.begun or failure is None:
        typer.echo(tally.sentence())
    if failure is not None and not tally.begun:
        return exit_for(failure)
    return Exit.FAILED if tally.failed or failure is not None else Exit.DONE


def _paced(messages: Iterator[Outgoing], rate: float) -> Iterator[Outgoing]:
    start = time.monotonic()
    for number, each in enumerate(messages):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        yield each


class _Tally:
    """What became of the messages. Futures tell it, from another thread."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._room = threading.Semaphore(_UNDER_WAY)
        self.begun = self.sent = self.late = self.failed = 0
        self.brokers: Counter[str] = Counter()
        self._last: Sent | None = None
        self._first_failure = ""
        self._lock = threading.Lock()
        self._start = time.monotonic()

    @contextmanager
    def one_more(self) -> "Iterator[Callable[[Future[Sent]], None]]":
        """Wait until one more may be under way, and count it as begun; who gets the future tells what became of it."""
        self._room.acquire()
        try:
            yield self._note
        except BaseException:
            self._room.release()
            raise
        self.begun += 1

    def _note(self, future: "Future[Sent]") -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            if future.cancelled() or error is not None:
                self.failed += 1
                why = "it was given up" if error is None else str(error)
                self._first_failure = self._first_failure or why
                if self.failed <= _TOLD:
                    refuse(why)
            else:
                self._last = sent = future.result()
                self.sent += 1
                self.late += bool(sent.late)
                self.brokers[sent.queue.broker] += 1
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
