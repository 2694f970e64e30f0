"""`steelyard bench`: measure sending (throughput, latency) and receiving (throughput, age of new messages).

Receiving reads every queue without a group and leaves nothing behind. The age of a message counts only if it was born
while the benchmark runs: sent meanwhile by another program, or by this one with ``--rate``.
"""

from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.exit_codes import ExitCode
from steelyard.cli.shared.options import ClientOptions, OptionalTopicArgument
from steelyard.cli.shared.output import Output
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import print_error, stderr_warnings, stop_on_signals
from steelyard.errors import ConfigurationError
from steelyard.model.formatting import pluralize
from steelyard.model.time_text import parse_duration_s

if TYPE_CHECKING:
    from steelyard.cli.bench_run import BenchLoad

app = CommandGroup("bench", "Measure the throughput and latency of a cluster.")

_MAX_BODY_BYTES = 4 << 20

_SizeOption = Annotated[int, option(min=0, max=_MAX_BODY_BYTES, help="Size of a body in bytes.")]
_CountOption = Annotated[int | None, option(min=1, help="Stop after this many messages.")]
_DurationOption = Annotated[
    str | None, option(metavar="SPAN", help="Stop after 30s, 2m …", show_default="10s, if there is no --count")
]
_InFlightOption = Annotated[int, option(min=1, max=4096, help="Sends in flight at a time.")]
_BatchOption = Annotated[int, option(min=1, max=4096, help="Messages in one send.")]
_RateOption = Annotated[float | None, option(min=0.001, help="The maximum number of messages a second.")]
_QueuesOption = Annotated[int, option(min=1, max=1024, help="Queues of its own topic on each broker.")]


_DEFAULT_SEND_S = 10.0


@app.subcommand(
    "send",
    "steelyard bench send",
    "steelyard bench send --size 1000 --duration 30s --batch 32",
    "steelyard bench send orders --count 100 --in-flight 1 --output json",
)
def _bench_send(
    client: ClientOptions,
    out: Output,
    topic: OptionalTopicArgument = None,
    size: _SizeOption = 100,
    count: _CountOption = None,
    duration: _DurationOption = None,
    in_flight: _InFlightOption = 64,
    batch: _BatchOption = 1,
    rate: _RateOption = None,
    queues: _QueuesOption = 8,
) -> None:
    """Measure sending: messages a second, and minimum, average, median, p99 and maximum latency.

    Without TOPIC it creates a topic of its own, and deletes it at the end. Ctrl-C stops it and prints the results so
    far. The exit code is 1 if a send failed.
    """
    import asyncio

    from steelyard.cli.bench_run import BenchLoad, BenchStats, run_load

    span_s = parse_duration_s(duration) if duration is not None else _DEFAULT_SEND_S if count is None else None
    load = BenchLoad(size, count, span_s, in_flight, batch, rate)
    stats = BenchStats("sent")
    with stderr_warnings(), stop_on_signals() as stop:
        asyncio.run(run_load(client.config(), topic, queues, load, stats, stop))
    out.print_object(stats.results())
    if stats.failed:
        raise Exit(ExitCode.FAILED)


_DEFAULT_COUNT = 100_000
_DEFAULT_RECEIVE_S = 10.0
_FILL_BATCH = 100
_FILL_IN_FLIGHT = 8


@app.subcommand(
    "receive",
    "steelyard bench receive",
    "steelyard bench receive orders",
    "steelyard bench receive --rate 1000 --duration 30s",
)
def _bench_receive(
    client: ClientOptions,
    out: Output,
    topic: OptionalTopicArgument = None,
    start: Annotated[
        str, option("--from", metavar="first|last", help="Where to begin in an existing topic.")
    ] = "first",
    size: _SizeOption = 100,
    count: _CountOption = None,
    duration: _DurationOption = None,
    rate: _RateOption = None,
    queues: _QueuesOption = 8,
) -> None:
    """Measure receiving: messages and megabytes a second, and the age of new messages on arrival.

    With TOPIC it reads up to its end, --count or --duration. Without, it first fills a topic of its own with --count
    messages (100000), or sends --rate a second to it meanwhile, and deletes it at the end. Ctrl-C stops it and prints
    the results so far. The exit code is 1 if a message that was sent did not arrive.
    """
    if start not in ("first", "last"):
        raise ConfigurationError(f"--from is {start!r}", next_step="give first or last")
    if topic is not None and rate is not None:
        raise ConfigurationError(
            "--rate is for a topic of its own",
            next_step=f"to send to {topic}: steelyard bench send {topic} --rate {rate:g}",
        )
    import asyncio

    from steelyard.cli.bench_run import BenchReadOptions, BenchStats, read_own_topic, read_topic

    span_s = None if duration is None else parse_duration_s(duration)
    if start == "last" and count is None and span_s is None:
        span_s = _DEFAULT_RECEIVE_S
    sent, stats = BenchStats("sent"), BenchStats("received")
    with stderr_warnings(), stop_on_signals() as stop:
        options = BenchReadOptions(start, count, span_s)
        if topic is not None:
            asyncio.run(read_topic(client.config(), topic, options, stats, stop))
        else:
            load = _own_bench_load(size, count, span_s, rate)
            asyncio.run(read_own_topic(client.config(), load, queues, sent, stats, stop))
    out.print_object(stats.results())
    missing = sent.messages - stats.messages
    if missing > 0 and not stop:
        raise Exit(print_error(f"{pluralize(missing, 'message')} sent did not arrive", ExitCode.FAILED))
    if sent.failed:
        raise Exit(ExitCode.FAILED)


def _own_bench_load(size: int, count: int | None, span_s: float | None, rate: float | None) -> "BenchLoad":
    from steelyard.cli.bench_run import BenchLoad

    if rate is not None:
        usual_s = span_s or (None if count else _DEFAULT_RECEIVE_S)
        return BenchLoad(size, count, usual_s, _FILL_IN_FLIGHT * _FILL_BATCH, 1, rate)
    return BenchLoad(size, count or _DEFAULT_COUNT, span_s, _FILL_IN_FLIGHT, _FILL_BATCH, None)
