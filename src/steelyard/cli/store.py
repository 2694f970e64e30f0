"""`steelyard store`: a look into a broker's directory, ours or Apache's, without changing anything in it.

`verify` says what is damaged, `cat` prints messages. Both only read, take no lock, and can be pointed at the directory
of a running broker. Exit codes: 0 all is well, 1 something is damaged (told line by line), 2 there is no answer.
"""

import sys
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.screen import screen
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage
from steelyard.store.findings import Verdict, counted

if TYPE_CHECKING:
    from steelyard.store.walk import Found

__all__ = ["app", "cat", "verify"]

DAMAGED = 1
_PREVIEW = 60
_EVERY_SECONDS = 0.2

app = typer.Typer(name="store", help="Look into a broker's directory; nothing in it is changed.", no_args_is_help=True)

_Directory = Annotated[str, typer.Argument(metavar="DIR", help="The broker's directory.", show_default=False)]


@app.command()
def verify(
    directory: _Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check everything in a broker's directory: the log, and what lies beside it.

    A write that a crash left unfinished is only a note, unless something knew of a message there.
    """
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.serve.files import RealDisk
    from steelyard.store.verifying import verify as look_over

    progress = _Progress()
    verdict = look_over(RealDisk(directory, read_only=True), progress.tell)
    progress.clear()
    out = screen().file
    if as_json:
        answer = {"directory": directory, "sound": verdict.is_sound} | msgspec.structs.asdict(verdict)
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        for finding in verdict.findings:
            out.write(_shown(f"{'damage' if finding.is_damage else 'note'}: {finding}") + "\n")
        out.write(_summary(directory, verdict))
    out.flush()
    raise typer.Exit(0 if verdict.is_sound else DAMAGED)


def _summary(directory: str, verdict: Verdict) -> str:
    damages = sum(finding.is_damage for finding in verdict.findings)
    counts = (
        counted(verdict.segments, "segment"),
        counted(verdict.bytes, "byte"),
        counted(verdict.messages, "message"),
        counted(verdict.topics, "topic"),
        counted(verdict.queues, "queue"),
    )
    outcome = f"damaged in {counted(damages, 'place')}" if damages else "sound"
    return f"{directory}: {', '.join(counts)}; {verdict.state}\n{outcome}\n"


@app.command()
def cat(
    directory: _Directory,
    topic: Annotated[str | None, typer.Option(help="Only messages of this topic.", show_default=False)] = None,
    queue: Annotated[int | None, typer.Option(help="Only this queue of the topic.", show_default=False)] = None,
    start: Annotated[
        int | None, typer.Option("--from", help="Only from this offset of the queue on.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print the messages of a broker's directory, oldest first: topic:queue:offset, time, key, tag, body."""
    if queue is not None and topic is None:
        raise ConfigurationError("--queue is a number within a topic", next_step="give --topic too")
    if start is not None and queue is None:
        raise ConfigurationError("--from is an offset of one queue", next_step="give --topic and --queue too")
    name = topic.encode(errors="surrogateescape") if topic is not None else None

    from steelyard.serve.files import RealDisk
    from steelyard.store.contents import contents

    def is_wanted(found: "Found") -> bool:
        return (name is None or found.topic == name) and (queue is None or found.queue_id == queue)

    out = screen().file
    damages = 0
    for each in contents(RealDisk(directory, read_only=True), is_wanted):
        if not isinstance(each, StoredMessage):
            damages += 1
            print(_shown(str(each)), file=sys.stderr)
        elif start is None or each.offset >= start:
            # Written as it is: a console that looks at every line takes ten times as long.
            out.write((_as_json(each) if as_json else _as_line(each)) + "\n")
    out.flush()
    raise typer.Exit(DAMAGED if damages else 0)


def _as_line(message: StoredMessage) -> str:
    where = f"{message.topic}:{message.queue.queue_id}:{message.offset}"
    stored_at = message.stored_at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    words = (where, stored_at, ",".join(message.keys) or "-", message.tags or "-", _preview(message.body))
    return _shown(" ".join(words))


def _preview(body: bytes) -> str:
    try:
        # Cut where a character may have been cut: the rest is left out below.
        text = body[: 4 * _PREVIEW].decode(errors="strict" if len(body) <= 4 * _PREVIEW else "ignore")
    except UnicodeDecodeError:
        return f"{body[: _PREVIEW // 4].hex()}{'...' if len(body) > _PREVIEW // 4 else ''} ({len(body)} bytes)"
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}..."


def _as_json(message: StoredMessage) -> str:
    try:
        body, encoding = message.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = b64encode(message.body).decode(), "base64"
    answer = {
        "topic": message.topic,
        "queue_id": message.queue.queue_id,
        "offset": message.offset,
        "position": message.position,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "body": body,
        "body_encoding": encoding,
    }
    return msgspec.json.encode(answer).decode()


def _shown(text: str) -> str:
    r"""Return a text as one line that no terminal takes for a command.

    >>> _shown("a\tb\x1b[2J\n")
    'a\\tb\\x1b[2J\\n'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class _Progress:
    """How far the work is, on stderr, if somebody sits there; nothing for work that is done at once."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY_SECONDS
        self._width = 0

    def tell(self, done: int, size: int) -> None:
        """Take note of how many bytes are done."""
        if self._is_seen and (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_SECONDS
            line = f"{done >> 20} of {size >> 20} MiB"
            self._width = max(self._width, len(line))
            print(f"\r{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Wipe the line."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
