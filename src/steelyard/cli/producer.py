"""`steelyard producer`: producers, as brokers know them from heartbeats.

A producer sends a heartbeat every 30 seconds to the brokers that it has sent to; brokers forget it after two minutes
without one. One of ours that avoids slow brokers reports the latency it measures, at once when it begins or ends to
avoid a broker.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from steelyard.cli.shared.commands import CommandGroup
from steelyard.cli.shared.output import Output, columns, fields_of
from steelyard.cli.shared.parameters import argument
from steelyard.cli.shared.terminal import print_note
from steelyard.model.formatting import format_percent, format_time, pluralize

if TYPE_CHECKING:
    from steelyard.client.admin.producers import ProducerStatus
    from steelyard.client.sync.admin import Admin

app = CommandGroup("producer", "List producers, and the latency they measure.")

_ProducerGroupArgument = Annotated[str, argument(metavar="GROUP", help="The producers' group.")]
_COLUMNS = ("id:producer", "address", "client", "brokers")


@app.subcommand("ls", "steelyard producer ls", "steelyard producer ls --output json")
def _list_producers(admin: "Admin", out: Output) -> None:
    """List all producers that are online."""
    out.print_rows(
        columns("group", *_COLUMNS, "seen_at:seen", seen_at=format_time),
        _producer_rows(admin.producers.list()),
        if_empty="no producer is online",
    )


@app.subcommand("show", "steelyard producer show shop")
def _show_producers(admin: "Admin", out: Output, group: _ProducerGroupArgument) -> None:
    """Show the producers of a group, each with its connection."""
    out.print_rows(columns(*_COLUMNS), _producer_rows(admin.producers.of_group(group)))


@app.subcommand("latency", "steelyard producer latency", "steelyard producer latency shop --output json")
def _show_latency(
    admin: "Admin",
    out: Output,
    group: Annotated[str | None, argument(metavar="[GROUP]", help="Only producers of this group.")] = None,
) -> None:
    """Show the latency of each broker as each producer measures it, and which brokers are avoided."""
    found = admin.producers.list() if group is None else admin.producers.of_group(group)
    out.print_rows(
        columns(
            *("group", "id:producer", "broker", "#latency_ms:last ms", "#usual_ms:usual ms", "#share:traffic"),
            *("#failures:failed", "#avoided_ms:avoided", "why"),
            share=format_percent,
            avoided_ms=lambda ms: f"{ms / 1_000:.1f} s",
        ),
        _latency_rows(found),
    )
    if silent := sum(each.latencies is None for each in found):
        print_note(
            f"{pluralize(silent, 'producer')} without latency: Steelyard's producers report it to Steelyard's brokers, "
            "if avoid_slow_brokers is on"
        )


def _latency_rows(found: "Iterable[ProducerStatus]") -> Iterable[dict[str, object]]:
    names = ("broker", "latency_ms", "usual_ms", "share", "failures", "avoided_ms")
    for each in found:
        for row in each.latencies or ():
            told = {"why": row.why or None, "told_at": each.reported_at}
            yield fields_of(each, "group", "id") | fields_of(row, *names) | told


def _producer_rows(found: "Iterable[ProducerStatus]") -> Iterable[dict[str, object]]:
    for each in found:
        row = fields_of(each, "group", "id", "address", client=f"{each.language} {each.release}")
        yield row | fields_of(each, "language", "release", "brokers", *(["seen_at"] if each.seen_at else []))
