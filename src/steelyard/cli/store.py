"""`steelyard store`: a look into a broker's directory, ours or Apache's, without changing anything in it.

`verify` says what is damaged, `cat` prints messages. Both only read, take no lock, and can be pointed at the directory
of a running broker. Exit codes: 0 all is well, 1 something is damaged (told line by line), 2 there is no answer.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.print_message import as_json_line, as_line
from steelyard.cli.frame.screen import Progress, screen, visible
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage
from steelyard.store.findings import Verdict, counted

if TYPE_CHECKING:
    from steelyard.store.walk import Found

__all__ = ["app", "cat", "verify"]

DAMAGED = 1

app = Noun("store", "Look into a broker's directory; nothing in it is changed.")

_Directory = Annotated[str, typer.Argument(metavar="DIR", help="The broker's directory.", show_default=False)]


@app.verb("verify", "steelyard store verify steelyard-data/broker-0")
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

    progress = Progress()
    verdict = look_over(
        RealDisk(directory, read_only=True),
        lambda done, size: progress.tell(lambda: f"{done >> 20} of {size >> 20} MiB"),
    )
    progress.clear()
    out = screen().file
    if as_json:
        answer = {"directory": directory, "sound": verdict.is_sound} | msgspec.structs.asdict(verdict)
        out.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        for finding in verdict.findings:
            out.write(visible(f"{'damage' if finding.is_damage else 'note'}: {finding}") + "\n")
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


@app.verb("cat", "steelyard store cat steelyard-data/broker-0 --topic orders --json")
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
            print(visible(str(each)), file=sys.stderr)
        elif start is None or each.offset >= start:
            # Written as it is: a console that looks at every line takes ten times as long.
            out.write((as_json_line(each) if as_json else as_line(each)) + "\n")
    out.flush()
    raise typer.Exit(DAMAGED if damages else 0)
