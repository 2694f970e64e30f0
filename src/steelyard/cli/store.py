"""`steelyard store`: a look into a broker's directory, ours or Apache's, without changing anything in it.

`verify` says what is damaged, `cat` prints messages, of a directory or of one file. Both only read, take no lock, and
can be pointed at the directory of a running broker. Exit codes: 0 all is well, 1 something is damaged (told line by
line), 2 there is no answer.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.screen import Progress, screen, visible
from steelyard.cli.frame.where import at_cluster
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage
from steelyard.store.findings import Verdict, counted

if TYPE_CHECKING:
    from steelyard.store.walk import Found

__all__ = ["app", "cat", "verify"]

DAMAGED = 1

app = Noun("store", "Look into a broker's directory; nothing in it is changed.")

_Directory = Annotated[str, typer.Argument(metavar="DIR", help="The broker's directory.", show_default=False)]


@app.verb("verify", "steelyard store verify steelyard-data/broker-0", "steelyard store verify ~/store --output json")
@at_cluster
def verify(out: Out, directory: _Directory) -> None:
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
    if out.is_table:
        lines = [f"{'damage' if finding.is_damage else 'note'}: {finding}" for finding in verdict.findings]
        screen().file.write("".join(f"{visible(line)}\n" for line in lines) + _summary(directory, verdict))
        sys.stdout.flush()
    else:
        findings = [msgspec.structs.asdict(finding) for finding in verdict.findings]
        values = {**msgspec.structs.asdict(verdict), "findings": findings}
        out.one({"directory": directory, "sound": verdict.is_sound, **values})
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


@app.verb(
    "cat",
    "steelyard store cat steelyard-data/broker-0 --topic orders --json",
    r"steelyard store cat ~/store/commitlog/00000000000000000000 --format '%t %q %o %s\n'",
    "steelyard store cat ~/store/compaction/compactionLog/orders/0/00000000000000000000",
)
def cat(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="A broker's directory, or one file of a log.", show_default=False)
    ],
    topic: Annotated[str | None, typer.Option(help="Only messages of this topic.", show_default=False)] = None,
    queue: Annotated[int | None, typer.Option(help="Only this queue of the topic.", show_default=False)] = None,
    start: Annotated[
        int | None, typer.Option("--from", help="Only from this offset of the queue on.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message so, such as '%t %q %o %k %s\n'; the words are those of `steelyard consume`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the messages of a broker's directory, or of one file, oldest first.

    A line has topic:queue:offset, time, key, tag and the beginning of the body.
    """
    if queue is not None and topic is None:
        raise ConfigurationError("--queue is a number within a topic", next_step="give --topic too")
    if start is not None and queue is None:
        raise ConfigurationError("--from is an offset of one queue", next_step="give --topic and --queue too")
    if as_json and pattern is not None:
        raise ConfigurationError("--json and --format exclude each other", next_step="give one of them")
    name = topic.encode(errors="surrogateescape") if topic is not None else None

    from steelyard.cli.consume.printing import printed_as
    from steelyard.serve.files import RealDisk
    from steelyard.store.contents import contents, file_contents

    def is_wanted(found: "Found") -> bool:
        return (name is None or found.topic == name) and (queue is None or found.queue_id == queue)

    if directory.is_file():
        found = file_contents(RealDisk(directory.parent, read_only=True), directory.name, is_wanted)
    else:
        found = contents(RealDisk(directory, read_only=True), is_wanted)
    write = printed_as(pattern, as_json=as_json)
    sys.stdout.flush()
    out = sys.stdout.buffer
    damages = 0
    for each in found:
        if not isinstance(each, StoredMessage):
            damages += 1
            print(visible(str(each)), file=sys.stderr)
        elif start is None or each.offset >= start:
            # Written as it is: a console that looks at every line takes ten times as long.
            out.write(write(each))
    out.flush()
    raise typer.Exit(DAMAGED if damages else 0)
