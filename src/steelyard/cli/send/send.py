"""`steelyard send`: messages from the command line or from a pipe, many under way at the same time.

What is read is sent at once, and what could not be sent is told, message by message up to a point, on stderr. Ctrl-C
stops reading; what is under way is still waited for. Exit codes: 0 all were stored, 1 some were not, and the others of
`cli/frame/exits.py` if it could not begin.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import TopicName
from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.cli.frame.logs import log_on_stderr
from steelyard.cli.frame.moments import seconds
from steelyard.cli.frame.nouns import verb
from steelyard.cli.frame.output import Format, Out
from steelyard.cli.frame.screen import Progress, refuse
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.message.formats import escaped
from steelyard.cli.message.places import queue_of
from steelyard.cli.send.source import Cut, Outgoing, Pattern, from_body, from_files, from_json, from_lines, from_stdin
from steelyard.cli.send.tally import TOLD, Receipts, Tally
from steelyard.errors import ConfigurationError, SteelyardError

if TYPE_CHECKING:
    from steelyard.client.blocking.producer import Producer

__all__ = ["send"]


@verb(
    "steelyard send orders --body hello --tags paid --keys order-1",
    "kubectl logs shop | steelyard send orders --lines",
    "steelyard send orders --file order.json --property region=eu",
    "steelyard consume orders --from first --exit-at-end --json | steelyard send orders-again --json",
    r"steelyard send orders --lines --format '%o %i\n' < orders.txt",
)
@at_cluster
def send(
    where: Where,
    topic: TopicName,
    source: Annotated[
        str | None, typer.Argument(metavar="[-]", help="-: all of stdin is one body.", show_default=False)
    ] = None,
    body: Annotated[str | None, typer.Option(help="The body, as text.", show_default=False)] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(help="The body is in this file; several messages by repeating it.", show_default=False),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line of stdin is a message.")] = False,
    delimiter: Annotated[
        str, typer.Option(metavar="TEXT", help=r"With --lines: what ends one, such as '\0'; \t and \xNN too.")
    ] = r"\n",
    key_delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="With --lines: each begins with a key, which ends here. Messages of one key go to one queue.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Each line of stdin is a JSON object, as `steelyard consume --json` prints it."),
    ] = False,
    tags: Annotated[str | None, typer.Option(help="The tag.", show_default=False)] = None,
    keys: Annotated[
        list[str] | None, typer.Option(help="A key to find it by; several by repeating it.", show_default=False)
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME=VALUE", help="A property; several by repeating it.", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Messages of one key go to one queue, in order.", show_default=False)
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="BROKER:ID", help="Send to this queue and no other.", show_default=False)
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
    pattern: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message that was stored instead of a summary, such as '%t %b %q %o %i\n'; "
            "also: %k keys, %g tag, %h properties, %s body, %S its bytes.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to tell what came of it.")] = Format.TABLE,
) -> None:
    """Send messages: one, many, or as they come through a pipe."""
    if source not in (None, "-"):
        raise ConfigurationError(f"{source!r} is not expected here", next_step=f"to send it, write: --body {source!r}")
    ways = [body is not None, bool(file), lines, as_json, source == "-"]
    if sum(ways) != 1:
        what = "there is nothing to send" if not any(ways) else "only one source can be sent at a time"
        raise ConfigurationError(what, next_step="give one of --body TEXT, --file PATH, --lines, --json and -")
    if not lines and (key_delimiter is not None or delimiter != r"\n"):
        raise ConfigurationError("delimiters are between lines", next_step="give --lines too")
    wanted = Pattern(
        topic,
        tags,
        tuple(keys or ()),
        key,
        None if delay is None else seconds(delay),
        _properties(properties or ()),
        None if queue is None else queue_of(topic, queue),
    )
    if body is not None:
        messages = from_body(wanted, body, 1 if count is None else count)
    elif file:
        messages = from_files(wanted, file)
    elif source == "-":
        messages = from_stdin(wanted)
    elif as_json:
        messages = from_json(wanted, count)
    else:
        messages = from_lines(wanted, count, _cut(delimiter, key_delimiter))
    receipts = None if pattern is None else Receipts(pattern)

    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.client.blocking.producer import Producer

    # Not in batches: those are quicker, but all messages of one go to one queue, and some member would have them all.
    with log_on_stderr(), Producer(where.connect(), group) as producer:
        tally = Tally(topic, receipts)
        raise typer.Exit(_send_all(producer, messages, tally, rate, Out(output)))


def _properties(given: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise ConfigurationError(f"--property {each!r} has no value", next_step="write it as name=value")
        found[name] = text
    return found


def _cut(delimiter: str, key_delimiter: str | None) -> Cut:
    end = escaped(delimiter, where="--delimiter")
    key_end = None if key_delimiter is None else escaped(key_delimiter, where="--key-delimiter")
    if not end or key_end == b"":
        raise ConfigurationError("a delimiter is empty", next_step="give one character or more")
    return Cut(end, key_end)


def _send_all(producer: "Producer", messages: Iterator[Outgoing], tally: Tally, rate: float | None, out: Out) -> int:
    progress = Progress()
    failure = None
    try:
        for each in messages if rate is None else _paced(messages, rate):
            with tally.one_more(each.message) as note:
                sending = producer.submit(each.message, key=each.key, delay_s=each.delay_s, queue=each.queue)
                sending.add_done_callback(note)
            progress.tell(tally.short)
    except SteelyardError as error:
        failure = error
    except KeyboardInterrupt:
        pass  # what was begun is told below, as ever
    tally.wait()
    progress.clear()
    if failure is not None:
        refuse(str(failure))
    if tally.failed > TOLD:
        print(f"steelyard: {tally.failed - TOLD} more failed", file=sys.stderr)
    if tally.receipts is not None:
        tally.receipts.end()
    elif tally.begun or failure is None or not out.is_table:
        out.done(tally.sentence(), **tally.as_json())
    if failure is not None and not tally.begun:
        return exit_for(failure)
    return Exit.FAILED if tally.failed or failure is not None else Exit.DONE


def _paced(messages: Iterator[Outgoing], rate: float) -> Iterator[Outgoing]:
    start = time.monotonic()
    for number, each in enumerate(messages):
        time.sleep(max(0.0, start + number / rate - time.monotonic()))
        yield each
