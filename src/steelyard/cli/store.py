"""`steelyard store`: inspect a broker's directory, ours or Apache's.

`verify` reports damage, `cat` prints the messages of a directory or of one file. Both only read, take no lock, and work
on the directory of a running broker. `index` writes: it completes Apache's key index before an Apache broker takes over
a directory. Exit codes: 0 sound, 1 damaged (each place on a line), 2 not a broker's directory or wrong usage.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.message_output import message_format
from steelyard.cli.shared.options import LineOutput
from steelyard.cli.shared.output import Output
from steelyard.cli.shared.parameters import argument, option
from steelyard.cli.shared.terminal import ProgressLine, make_console
from steelyard.errors import ConfigurationError, NotAStore
from steelyard.model import StoredMessage
from steelyard.model.formatting import pluralize, printable

if TYPE_CHECKING:
    from steelyard.store.log_scan import ScannedRecord
    from steelyard.store.verify import VerificationReport

_EXIT_DAMAGED = 1
_INDEX_BATCH = 10_000

app = CommandGroup("store", "Inspect a broker's directory, or prepare it for an Apache broker.")

_DirectoryArgument = Annotated[str, argument(metavar="DIR", help="The broker's directory.")]


@app.subcommand(
    "verify", "steelyard store verify steelyard-data/broker-0", "steelyard store verify ~/store --output json"
)
def _verify(out: Output, directory: _DirectoryArgument) -> None:
    """Verify a broker's directory: the log and all other files.

    A write that a crash left unfinished is only a note, unless an index refers to it.
    """
    from steelyard.serve.disks import RealDisk
    from steelyard.store.verify import verify_store

    _check_is_no_parent(directory)
    progress = ProgressLine()
    report = verify_store(
        RealDisk(directory, read_only=True),
        lambda done, size: progress.update(lambda: f"{done >> 20} of {size >> 20} MiB"),
    )
    progress.clear()
    if out.is_table:
        lines = [f"{'damage' if finding.is_damage else 'note'}: {finding}" for finding in report.findings]
        make_console().file.write(
            "".join(f"{printable(line)}\n" for line in lines) + _verify_summary(directory, report)
        )
        sys.stdout.flush()
    else:
        findings = [msgspec.structs.asdict(finding) for finding in report.findings]
        values = {**msgspec.structs.asdict(report), "findings": findings}
        out.print_object({"directory": directory, "sound": report.is_sound, **values})
    raise Exit(0 if report.is_sound else _EXIT_DAMAGED)


def _verify_summary(directory: str, report: "VerificationReport") -> str:
    damages = sum(finding.is_damage for finding in report.findings)
    counts = (
        pluralize(report.segments, "segment"),
        pluralize(report.bytes, "byte"),
        pluralize(report.messages, "message"),
        pluralize(report.topics, "topic"),
        pluralize(report.queues, "queue"),
    )
    outcome = f"damaged in {pluralize(damages, 'place')}" if damages else "sound"
    return f"{directory}: {', '.join(counts)}; {report.state}\n{outcome}\n"


@app.subcommand("index", "steelyard store index steelyard-data/broker-0")
def _index(out: Output, directory: _DirectoryArgument) -> None:
    """Complete the key index of a directory for an Apache broker; its own broker must be stopped.

    A broker builds this index when it is idle. The rest is added here.
    """
    from steelyard.serve.disks import RealDisk
    from steelyard.store.commit_log import COMMIT_LOG_FOLDER
    from steelyard.store.options import StoreOptions
    from steelyard.store.store import Store

    _check_is_no_parent(directory)
    if COMMIT_LOG_FOLDER not in RealDisk(directory, read_only=True).names(""):
        raise NotAStore(
            f"the directory {directory} has no {COMMIT_LOG_FOLDER}", next_step="give one that a broker wrote"
        )
    progress = ProgressLine()
    store = Store.open(RealDisk(directory), StoreOptions(keeps_apache_keys=True))
    try:
        keys, start = store.apache_key_index, store.start
        if keys is None or keys.is_foreign:
            raise ConfigurationError(
                f"the key index of {directory} has files of an unusual size",
                next_step="remove its folder index, or leave it as it is",
            )
        while not keys.build(_INDEX_BATCH):
            if keys.is_full:
                keys.save(_now_ms())
            progress.update(lambda: f"{keys.indexed_to - start >> 20} of {store.end - start >> 20} MiB")
    finally:
        progress.clear()
        store.close(_now_ms())
    if out.is_table:
        make_console().file.write(f"{printable(directory)}: the key index is complete\n")
    else:
        out.print_object({"directory": directory, "bytes": store.end - start})


def _check_is_no_parent(directory: str | Path) -> None:
    """Raise for a directory that brokers' directories are in, such as that of `steelyard up`."""
    from steelyard.store.commit_log import COMMIT_LOG_FOLDER

    below = sorted(str(path.parent) for path in Path(directory).glob(f"*/{COMMIT_LOG_FOLDER}"))
    if below and not (Path(directory) / COMMIT_LOG_FOLDER).exists():
        raise NotAStore(
            f"{directory} is no broker's directory", next_step=f"those of brokers are in it: {', '.join(below)}"
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@app.subcommand(
    "cat",
    "steelyard store cat steelyard-data/broker-0 --topic orders --json",
    r"steelyard store cat ~/store/commitlog/00000000000000000000 --format '%t %q %o %s\n'",
    "steelyard store cat ~/store/compaction/compactionLog/orders/0/00000000000000000000",
)
def _cat(
    shown: LineOutput,
    directory: Annotated[Path, argument(metavar="DIR|FILE", help="A broker's directory, or one file of a log.")],
    topic: Annotated[str | None, option(help="Only messages of this topic.")] = None,
    queue: Annotated[int | None, option(help="Only this queue of the topic.")] = None,
    start: Annotated[int | None, option("--from", help="Only from this offset of the queue on.")] = None,
    pattern: Annotated[
        str | None,
        option(
            "--format",
            metavar="PATTERN",
            help=r"Print each message so, such as '%t %q %o %k %s\n'; the directives are those of `steelyard consume`.",
        ),
    ] = None,
) -> None:
    """Print the messages of a broker's directory, or of one file, oldest first.

    A line has topic:queue:offset, time, keys, tag and the beginning of the body.
    """
    if queue is not None and topic is None:
        raise ConfigurationError("--queue is a number within a topic", next_step="give --topic too")
    if start is not None and queue is None:
        raise ConfigurationError("--from is an offset of one queue", next_step="give --topic and --queue too")
    if shown.is_json and pattern is not None:
        raise ConfigurationError("--json and --format exclude each other", next_step="give one of them")
    name = topic.encode(errors="surrogateescape") if topic is not None else None

    from steelyard.serve.disks import RealDisk
    from steelyard.store.dump import dump_file, dump_messages

    def is_wanted(found: "ScannedRecord") -> bool:
        return (name is None or found.topic == name) and (queue is None or found.queue_id == queue)

    _check_is_no_parent(directory)
    if directory.is_file():
        found = dump_file(RealDisk(directory.parent, read_only=True), directory.name, is_wanted)
    else:
        found = dump_messages(RealDisk(directory, read_only=True), is_wanted)
    write = message_format(pattern, as_json=shown.is_json)
    sys.stdout.flush()
    out = sys.stdout.buffer
    damages = 0
    for each in found:
        if not isinstance(each, StoredMessage):
            damages += 1
            print(printable(str(each)), file=sys.stderr)
        elif start is None or each.offset >= start:
            # Not through rich, which is ten times slower.
            out.write(write(each))
    out.flush()
    raise Exit(_EXIT_DAMAGED if damages else 0)
