"""`steelyard store`: a look into a broker's directory, ours or Apache's.

`verify` says what is damaged, `cat` prints messages, of a directory or of one file. Both only read, take no lock, and
can be pointed at the directory of a running broker. `index` writes: it completes Apache's key index before a directory
moves to an Apache broker. Exit codes: 0 all is well, 1 something is damaged (told line by line), 2 there is no answer.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from steelyard.cli.frame.nouns import Noun
from steelyard.cli.frame.output import Out
from steelyard.cli.frame.screen import Progress, screen, visible
from steelyard.cli.frame.where import at_cluster
from steelyard.errors import ConfigurationError, NotAStore
from steelyard.model import StoredMessage
from steelyard.store.findings import Verdict, counted

if TYPE_CHECKING:
    from steelyard.store.walk import Found

__all__ = ["app", "cat", "index", "verify"]

DAMAGED = 1
_AT_ONCE = 10_000

app = Noun("store", "Look into a broker's directory, or prepare it for an Apache broker.")

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


@app.verb("index", "steelyard store index steelyard-data/broker-0")
@at_cluster
def index(out: Out, directory: _Directory) -> None:
    """Complete the key index of a directory for an Apache broker that will open it; its broker must be stopped.

    A broker keeps that index up while it has nothing else to do. What it could not finish is added here.
    """
    from steelyard.serve.files import RealDisk
    from steelyard.store.log import LOG_FOLDER
    from steelyard.store.options import StoreOptions
    from steelyard.store.store import Store

    if LOG_FOLDER not in RealDisk(directory, read_only=True).names(""):
        raise NotAStore(f"the directory {directory} has no {LOG_FOLDER}", next_step="give one that a broker wrote")
    progress = Progress()
    store = Store.open(RealDisk(directory), StoreOptions(keeps_apache_keys=True))
    try:
        keys, start = store.apache_keys, store.start
        if keys is None or keys.is_foreign:
            raise ConfigurationError(
                f"the key index of {directory} has files of an unusual size",
                next_step="remove its folder index, or leave it as it is",
            )
        while not keys.follow(_AT_ONCE):
            if keys.is_full:
                keys.save(_now_ms())
            progress.tell(lambda: f"{keys.indexed_to - start >> 20} of {store.end - start >> 20} MiB")
    finally:
        progress.clear()
        store.close(_now_ms())
    if out.is_table:
        screen().file.write(f"{visible(directory)}: the key index is complete\n")
    else:
        out.one({"directory": directory, "bytes": store.end - start})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


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
