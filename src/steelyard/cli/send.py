"""`steelyard send`: send messages from the command line, files or a pipe, many in flight at a time.

What is read is sent at once, and no more is read than is being sent, so an endless pipe is fine. Failures are printed
on stderr, the first few one by one. Ctrl-C stops reading; messages in flight are still waited for. Exit codes: 0 all
were stored, 1 some were not, and others of `cli/shared/exit_codes.py` if sending could not begin.
"""

import binascii
import sys
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import msgspec
from click.exceptions import Exit

from steelyard.cli.shared.commands import command
from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for
from steelyard.cli.shared.message_output import parse_escapes, parse_format
from steelyard.cli.shared.options import ClientOptions, TopicArgument, parse_pairs, parse_queue
from steelyard.cli.shared.output import Output, OutputFormat, fields_of
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import ProgressLine, print_error, stderr_warnings
from steelyard.errors import ConfigurationError, SteelyardError, file_error
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.formatting import printable
from steelyard.model.message import KEYS, RESERVED_PROPERTIES, TAGS, UNIQUE_KEY
from steelyard.model.time_text import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from steelyard.client.producer.send_result import SendResult
    from steelyard.client.sync.producer import Producer

_MAX_MESSAGE_BYTES = 4 << 20
"""Brokers accept no more either."""

_READ_BYTES = 1 << 16
_EXAMPLE = '{"body": "hello", "tags": "paid", "keys": ["order-1"]}'


class _ByteStream(Protocol):
    """A buffered binary stream such as stdin."""

    def read(self, most: int, /) -> bytes:
        """Read up to the end, at most so much."""

    def read1(self, most: int, /) -> bytes:
        """Read what is available, at least one byte."""

    def readline(self, most: int, /) -> bytes:
        """Read up to the end of a line."""


class _MessageToSend(msgspec.Struct, frozen=True):
    """A message with its sharding key, delay and queue."""

    message: Message
    key: str | None = None
    delay_s: float | None = None
    queue: Queue | None = None


class MessageTemplate(msgspec.Struct, frozen=True):
    """The options that all messages of one command share."""

    topic: str
    tags: str | None = None
    keys: tuple[str, ...] = ()
    key: str | None = None
    delay_s: float | None = None
    properties: Mapping[str, str] = {}
    queue: Queue | None = None

    def make(self, body: bytes, key: str | None = None) -> _MessageToSend:
        """Return a message with this body, and with a key of its own."""
        keys = self.keys if key is None else (*self.keys, key)
        message = Message(self.topic, body, self.tags, keys, self.properties)
        return _MessageToSend(message, key or self.key, self.delay_s, self.queue)


class LineFormat(msgspec.Struct, frozen=True):
    """What ends a line, and what ends the key that it begins with, if it has one."""

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None


_PLAIN_LINES = LineFormat()


class _JsonMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A line of JSON: the fields that are sent, then those that `steelyard consume --json` prints and are ignored."""

    body: str
    body_encoding: str = "utf-8"
    tags: str | None = None
    keys: str | list[str] = []
    properties: dict[str, str] = {}
    flag: int = 0
    key: str | None = None
    delay_s: float | None = None
    topic: Any = None
    broker: Any = None
    queue_id: Any = None
    offset: Any = None
    position: Any = None
    born_ms: Any = None
    stored_ms: Any = None
    born_host: Any = None
    store_host: Any = None
    message_id: Any = None
    offset_id: Any = None
    sys_flag: Any = None
    reconsume_times: Any = None


def from_bodies(template: MessageTemplate, texts: Iterable[str], count: int) -> Iterator[_MessageToSend]:
    """Yield a message for each text, and all of them again, ``count`` times in all."""
    # Bytes that are not UTF-8 reach Python as surrogates: this restores them.
    made = [template.make(text.encode(errors="surrogateescape")) for text in texts]
    return chain.from_iterable(repeat(made, count))


def from_stdin(template: MessageTemplate) -> Iterator[_MessageToSend]:
    """Yield all of stdin as one message."""
    body = _stdin().read(_MAX_MESSAGE_BYTES + 1)
    if len(body) > _MAX_MESSAGE_BYTES:
        raise ConfigurationError(
            f"stdin has more than {_MAX_MESSAGE_BYTES} bytes", next_step="a message cannot; send --lines, or less"
        )
    yield template.make(body)


def _from_files(template: MessageTemplate, paths: Iterable[Path]) -> Iterator[_MessageToSend]:
    """Yield the content of each file."""
    for path in paths:
        try:
            with path.open("rb") as file:
                body = file.read(_MAX_MESSAGE_BYTES + 1)
        except OSError as error:
            raise file_error(f"the file {path} cannot be read", error, "give one that can") from None
        if len(body) > _MAX_MESSAGE_BYTES:
            raise ConfigurationError(
                f"the file {path} has more than {_MAX_MESSAGE_BYTES} bytes", next_step="a message cannot; send less"
            )
        yield template.make(body)


def from_lines(
    template: MessageTemplate, max_lines: int | None, line_format: LineFormat = _PLAIN_LINES
) -> Iterator[_MessageToSend]:
    """Yield each line of stdin without its end; empty lines are left out."""
    for number, line in _read_lines(max_lines, line_format.delimiter):
        if (delimiter := line_format.key_delimiter) is None:
            yield template.make(line)
            continue
        key, found, body = line.partition(delimiter)
        if not found or not key:
            raise ConfigurationError(
                f"line {number} of stdin has no key before {delimiter.decode(errors='backslashreplace')!r}",
                next_step="give each line one, or leave --key-delimiter out",
            )
        yield template.make(body, key.decode(errors="replace"))


def from_json(template: MessageTemplate, max_lines: int | None) -> Iterator[_MessageToSend]:
    """Yield a message for each line of JSON; the command's options apply where a line leaves a field out."""
    read = msgspec.json.Decoder(_JsonMessage)
    for number, text in _read_lines(max_lines, _PLAIN_LINES.delimiter):
        try:
            yield _from_json_line(template, read.decode(text))
        except (msgspec.DecodeError, binascii.Error, ConfigurationError) as error:
            what = error.what if isinstance(error, ConfigurationError) else str(error)
            raise ConfigurationError(
                f"line {number} of stdin is no message: {what}", next_step=f"it looks like {_EXAMPLE}"
            ) from None


def _from_json_line(template: MessageTemplate, line: _JsonMessage) -> _MessageToSend:
    if line.body_encoding not in ("utf-8", "base64"):
        raise ConfigurationError(f"body_encoding is {line.body_encoding!r}", next_step="give utf-8 or base64")
    body = b64decode(line.body, validate=True) if line.body_encoding == "base64" else line.body.encode()
    theirs = {name: text for name, text in line.properties.items() if name not in RESERVED_PROPERTIES}
    own = {**template.properties, **theirs}
    message = Message(template.topic, body, line.tags or template.tags, line.keys or template.keys, own, line.flag)
    delay_s = template.delay_s if line.delay_s is None else line.delay_s
    return _MessageToSend(message, line.key or template.key, delay_s, template.queue)


def _read_lines(max_lines: int | None, end: bytes) -> Iterator[tuple[int, bytes]]:
    cut = (
        (line.rstrip(b"\r\n") for line in _split_lines(_stdin()))
        if end == b"\n"
        else _split_by_delimiter(_stdin(), end)
    )
    filled = ((number, line) for number, line in enumerate(cut, 1) if line)
    return islice(filled, max_lines)


def _split_lines(stdin: _ByteStream) -> Iterator[bytes]:
    while line := stdin.readline(_MAX_MESSAGE_BYTES + 1):
        yield _check_length(line)


def _split_by_delimiter(stdin: _ByteStream, end: bytes) -> Iterator[bytes]:
    left = b""
    # One read at a time: what has arrived is sent before more arrives.
    while chunk := stdin.read1(_READ_BYTES):
        *whole, left = (left + chunk).split(end)
        yield from map(_check_length, whole)
        _check_length(left)
    yield left


def _check_length(line: bytes) -> bytes:
    if len(line) > _MAX_MESSAGE_BYTES:
        raise ConfigurationError(
            f"a line of stdin has more than {_MAX_MESSAGE_BYTES} bytes", next_step="a message cannot; send less"
        )
    return line


def _stdin() -> _ByteStream:
    if sys.stdin is None:
        raise ConfigurationError("stdin is closed", next_step="give --body, or write to stdin")
    return cast("_ByteStream", sys.stdin.buffer)


_MAX_IN_FLIGHT = 512
"""Enough to keep a broker busy, few enough that a pipe is not read far ahead of what is sent."""

_MAX_PRINTED_FAILURES = 10
"""Failures that are printed one by one."""

_RECEIPT_DIRECTIVES = "tbqpokKgisSRh"
"""The directives of --format that need nothing but the send result."""


class _ReceiptWriter:
    """Writes a line for each stored message, by a pattern, in the order in which they were stored.

    It has its own thread: a slow reader delays the next sends, but not the responses of brokers.
    """

    def __init__(self, pattern: str) -> None:
        self._format_message = parse_format(pattern, for_terminal=sys.stdout.isatty(), allowed=_RECEIPT_DIRECTIVES)
        self._out = sys.stdout.buffer
        self._error: OSError | None = None
        self._lines: SimpleQueue[tuple[bytes, Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="steelyard receipts", daemon=True)
        """Started with the first receipt."""

    def put(self, message: Message, sent: "SendResult", on_written: "Callable[[], None]") -> None:
        """Queue a receipt; ``on_written`` is called once it is written."""
        own = {TAGS: message.tags or "", KEYS: " ".join(message.keys), UNIQUE_KEY: sent.message_id}
        shown = {**message.properties, **{name: text for name, text in own.items() if text}}
        if not self._thread.is_alive():
            self._thread.start()
        self._lines.put((self._format_message(StoredMessage(sent.queue, sent.offset, message.body, shown)), on_written))

    def close(self) -> None:
        """Flush all receipts; raise if they could not be written."""
        if self._thread.is_alive():
            self._lines.put(None)
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while (item := self._lines.get()) is not None:
            line, on_written = item
            try:
                if self._error is None:
                    self._out.write(line)
                    if self._lines.empty():
                        self._out.flush()
            except OSError as error:
                self._error = error  # messages in flight are still sent and counted
            on_written()


class _SendResults:
    """Counts send results, and limits messages in flight. Futures report from another thread."""

    def __init__(self, topic: str, receipts: "_ReceiptWriter | None" = None) -> None:
        self.topic = topic
        self.receipts = receipts
        self._in_flight = threading.Semaphore(_MAX_IN_FLIGHT)
        self.started = self.sent = self.late = self.failed = 0
        self.brokers: Counter[str] = Counter()
        self._last: SendResult | None = None
        self._first_failure = ""
        self._lock = threading.Lock()
        self._start = time.monotonic()

    @contextmanager
    def begin_send(self, message: Message) -> "Iterator[Callable[[Future[SendResult]], None]]":
        """Wait until one more may be in flight, and count it; the yielded callback takes the send's future."""
        self._in_flight.acquire()
        try:
            yield lambda future: self._record_result(future, message)
        except BaseException:
            self._in_flight.release()
            raise
        self.started += 1

    def _record_result(self, future: "Future[SendResult]", message: Message) -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            if future.cancelled() or error is not None:
                self.failed += 1
                why = "it was cancelled" if error is None else str(error)
                self._first_failure = self._first_failure or why
                if self.failed <= _MAX_PRINTED_FAILURES:
                    print_error(why)
            else:
                self._last = sent = future.result()
                self.sent += 1
                self.late += bool(sent.late)
                self.brokers[sent.queue.broker] += 1
                if self.receipts is not None:
                    self.receipts.put(message, sent, self._in_flight.release)
                    return
        self._in_flight.release()

    def wait(self) -> None:
        """Wait until nothing is in flight; each send has its own timeout."""
        for _ in range(_MAX_IN_FLIGHT):
            self._in_flight.acquire()
        self._took_s = time.monotonic() - self._start

    def progress_text(self) -> str:
        """Return the progress as one line."""
        return f"{self.sent} sent, {self.started - self.sent - self.failed} in flight, {self.failed} failed"

    def summary(self) -> str:
        """Return the result as one line."""
        if self.started == 1 and self._last is not None:
            last = self._last
            late = "; stored, but not on all disks yet" if last.late else ""
            return printable(f"sent to {last.queue} at offset {last.offset}, id {last.message_id}{late}")
        shares = ", ".join(f"{self.brokers[name]} to {name}" for name in sorted(self.brokers))
        per_s = f", {self.sent / self._took_s:.0f} a second" if self._took_s > 0 else ""
        failed = f"{self.failed} failed" if self.failed else "none failed"
        return printable(
            f"sent {self.sent} to {self.topic} in {self._took_s:.2f} s{per_s}; {failed}"
            f"{f' ({shares})' if shares else ''}"
        )

    def as_json(self) -> dict[str, object]:
        """Return the result for programs."""
        last = self._last
        return {
            **fields_of(self, "topic", "sent", "failed", "late"),
            "took_ms": round(self._took_s * 1000),
            "brokers": dict(sorted(self.brokers.items())),
            "last": None
            if last is None
            else {"queue": list(last.queue), "offset": last.offset, "message_id": last.message_id},
            "error": self._first_failure or None,
        }


@command(
    "steelyard send orders --body hello --tags paid --keys order-1",
    "kubectl logs shop | steelyard send orders --lines",
    "steelyard send orders --file order.json --property region=eu",
    "steelyard consume orders --from first --exit-at-end --json | steelyard send orders-again --json",
    r"steelyard send orders --lines --format '%o %i\n' < orders.txt",
)
def send(
    client: ClientOptions,
    topic: TopicArgument,
    source: Annotated[str | None, argument(metavar="[-]", help="-: all of stdin is one body.")] = None,
    body: Annotated[list[str] | None, option(help="The body, as text; can be repeated for several messages.")] = None,
    file: Annotated[
        list[Path] | None, option(help="The body is in this file; can be repeated for several messages.")
    ] = None,
    lines: Annotated[bool, option(help="Each line of stdin is a message.")] = False,
    delimiter: Annotated[
        str, option(metavar="TEXT", help=r"With --lines: what ends one, such as '\0'; \t and \xNN too.")
    ] = r"\n",
    key_delimiter: Annotated[
        str | None,
        option(
            metavar="TEXT",
            help="With --lines: each begins with a key, which ends here. Messages of one key go to one queue.",
        ),
    ] = None,
    as_json: Annotated[
        bool, option("--json", help="Each line of stdin is a JSON object, as `steelyard consume --json` prints it.")
    ] = False,
    tags: Annotated[str | None, option(help="The tag.")] = None,
    keys: Annotated[list[str] | None, option(help="A key to find it by; can be repeated.")] = None,
    properties: Annotated[
        list[str] | None, option("--property", metavar="NAME=VALUE", help="A property; can be repeated.")
    ] = None,
    key: Annotated[str | None, option(help="Messages of one key go to one queue, in order.")] = None,
    queue: Annotated[str | None, option(metavar="BROKER:ID", help="Send to this queue only.")] = None,
    delay: Annotated[str | None, option(metavar="SPAN", help="Deliver it only after 30s, 2h …")] = None,
    count: Annotated[
        int | None,
        option(
            min=0, help="Send --body this many times; of lines, the maximum number.", show_default="1, or all lines"
        ),
    ] = None,
    rate: Annotated[float | None, option(min=0.001, help="The maximum number of messages a second.")] = None,
    group: Annotated[str, option(help="The producer group.")] = "DEFAULT_PRODUCER",
    pattern: Annotated[
        str | None,
        option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message that was stored instead of a summary, such as '%t %b %q %o %i\n'; "
            "also: %k keys, %g tag, %h properties, %s body, %S its bytes.",
        ),
    ] = None,
    output: Annotated[OutputFormat, option("-o", help="Output format of the result.")] = OutputFormat.TABLE,
) -> None:
    """Send messages: one, many, or a pipe."""
    if source not in (None, "-"):
        raise ConfigurationError(f"{source!r} is not expected here", next_step=f"to send it, write: --body {source!r}")
    ways = [bool(body), bool(file), lines, as_json, source == "-"]
    if sum(ways) != 1:
        what = "there is nothing to send" if not any(ways) else "several sources are given"
        raise ConfigurationError(what, next_step="give one of --body TEXT, --file PATH, --lines, --json and -")
    if not lines and (key_delimiter is not None or delimiter != r"\n"):
        raise ConfigurationError("delimiters are between lines", next_step="give --lines too")
    wanted = MessageTemplate(
        topic,
        tags,
        tuple(keys or ()),
        key,
        None if delay is None else parse_duration_s(delay),
        parse_pairs(properties, "property"),
        None if queue is None else parse_queue(topic, queue),
    )
    if body:
        messages = from_bodies(wanted, body, 1 if count is None else count)
    elif file:
        messages = _from_files(wanted, file)
    elif source == "-":
        messages = from_stdin(wanted)
    elif as_json:
        messages = from_json(wanted, count)
    else:
        messages = from_lines(wanted, count, _line_format(delimiter, key_delimiter))
    receipts = None if pattern is None else _ReceiptWriter(pattern)

    from steelyard.client.sync.producer import Producer

    # Not in batches: those are faster, but all messages of a batch go to one queue and so to one member.
    with stderr_warnings(), Producer(client.config(), group) as producer:
        results = _SendResults(topic, receipts)
        raise Exit(_send_all(producer, messages, results, rate, Output(output)))


def _line_format(delimiter: str, key_delimiter: str | None) -> LineFormat:
    end = parse_escapes(delimiter, option="--delimiter")
    key_end = None if key_delimiter is None else parse_escapes(key_delimiter, option="--key-delimiter")
    if not end or key_end == b"":
        raise ConfigurationError("a delimiter is empty", next_step="give one character or more")
    return LineFormat(end, key_end)


def _send_all(
    producer: "Producer", messages: Iterator[_MessageToSend], results: _SendResults, rate: float | None, out: Output
) -> int:
    progress = ProgressLine()
    failure = None
    try:
        for each in messages if rate is None else _at_rate(messages, rate):
            with results.begin_send(each.message) as record_result:
                sending = producer.submit(each.message, key=each.key, delay_s=each.delay_s, queue=each.queue)
                sending.add_done_callback(record_result)
            progress.update(results.progress_text)
    except SteelyardError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # messages in flight are still waited for, and the result printed
    results.wait()
    progress.clear()
    if failure is not None:
        print_error(str(failure))
    if results.failed > _MAX_PRINTED_FAILURES:
        print(f"steelyard: {results.failed - _MAX_PRINTED_FAILURES} more failed", file=sys.stderr)
    if results.receipts is not None:
        results.receipts.close()
    elif results.started or failure is None or not out.is_table:
        out.print_result(results.summary(), **results.as_json())
    if failure is not None and not results.started:
        return exit_code_for(failure)
    return ExitCode.FAILED if results.failed or failure is not None else ExitCode.DONE


def _at_rate(messages: Iterator[_MessageToSend], rate: float) -> Iterator[_MessageToSend]:
    start = time.monotonic()
    for number, each in enumerate(messages):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        yield each
