"""`steelyard group moves`: the rebalance history that brokers keep: members that came and went, queues that moved.

The history exists whether a client watched or not. ``--follow`` prints new records as they come; a broker that is away
is asked again. People see short names of members, programs their ids.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from steelyard.cli.shared.options import ClientOptions, GroupArgument
from steelyard.cli.shared.output import Output, OutputFormat, columns
from steelyard.cli.shared.parameters import option
from steelyard.cli.shared.terminal import make_console, stop_on_signals
from steelyard.errors import ConfigurationError, RequestNotSupported, TransportError
from steelyard.model.formatting import format_duration, format_time, pluralize, printable, short_names, shorten_ids
from steelyard.model.time_text import parse_time

if TYPE_CHECKING:
    from steelyard.client.admin.rebalance_history import MembershipChange, QueueMove, RebalanceRecord
    from steelyard.client.sync.admin import Admin

_FOLLOW_EVERY_S = 0.5
_SAME_CHANGE_WITHIN = timedelta(seconds=2)
"""What two brokers report of a member within this time is the same change."""
_CHANGE_TEXTS = {"back": "is back", "wants": "subscribes to others"}


def show_history(
    admin: "Admin",
    client: ClientOptions,
    out: Output,
    group: GroupArgument,
    since: Annotated[str | None, option(metavar="TIME", help="Only newer records: a time, or '2h'.")] = None,
    limit: Annotated[int, option(min=1, help="How many records, the newest.")] = 100,
    follow: Annotated[bool, option(help="Print new records until Ctrl-C.")] = False,
) -> None:
    """Show the rebalance history: which queue moved from whom to whom, the gap between owners, and why."""
    start = None if since is None else parse_time(since, datetime.now(UTC))
    if follow and out.format in (OutputFormat.CSV, OutputFormat.JSON):
        raise ConfigurationError(
            f"--follow has no end, and a {out.format} has one", next_step="give --output jsonl, or leave it out"
        )
    if not admin.groups.has_rebalance_history():
        raise RequestNotSupported(
            code=RequestNotSupported.codes[0],
            server=str(client.config()),
            what="no broker here keeps a rebalance history: those of Steelyard do, Apache's do not",
            next_step=f"watch it instead: steelyard group watch {group}",
        )
    if follow:
        _follow_history(admin, out, group, start, limit)
        return
    history = admin.groups.rebalance_history(group, since=start, limit=limit)
    if not history:
        admin.groups.configs(group)  # an error if there is no such group
    _print_history(out, history)


def _print_history(out: Output, history: "Sequence[RebalanceRecord]") -> None:
    out.print_rows(_COLUMNS, _history_rows(history, short=out.is_table), if_empty="nothing moved")
    if out.is_table and history:
        from steelyard.client.admin.rebalance_history import group_rebalances

        for last in group_rebalances(history)[-1:]:
            make_console().print(
                f"the last rebalance took {_span_text(last.duration_ms)}: {pluralize(last.moved, 'queue')} moved"
                f"{'' if last.least is None else f', {last.least} had to'}",
                soft_wrap=True,
            )


def _follow_history(admin: "Admin", out: Output, group: str, start: datetime | None, limit: int) -> None:
    with stop_on_signals() as stop:
        history, cursor = admin.groups.rebalance_history_since(group=group, limit=limit)
        history = [record for record in history if start is None or record.at >= start][-limit:]
        known = SeenMemberChanges()
        while True:
            rows = _history_rows(history, short=out.is_table, seen=known)
            if out.is_table:
                for row in rows:
                    make_console().print(printable(_history_line(row)), soft_wrap=True)
            else:
                out.print_rows(_COLUMNS, rows)
            if stop.wait(_FOLLOW_EVERY_S):
                return
            try:
                history, cursor = admin.groups.rebalance_history_since(cursor, group=group)
            except TransportError:
                history = []  # a server that is away now may be back soon


class SeenMemberChanges:
    """Membership changes that were shown already: each broker records them."""

    def __init__(self) -> None:
        self._last_seen: dict[tuple[str, str], datetime] = {}

    def is_repeated(self, change: "MembershipChange") -> bool:
        """Say whether another broker recorded the same change just before, and remember it."""
        before = self._last_seen.get((change.member, change.what))
        self._last_seen[change.member, change.what] = change.at
        return before is not None and abs(change.at - before) < _SAME_CHANGE_WITHIN


def _history_rows(
    history: "Iterable[RebalanceRecord]", *, short: bool, seen: SeenMemberChanges | None = None
) -> Iterator[dict[str, object]]:
    """Return a row for each membership change, each queue that moved, and each end of a rebalance.

    With ``short`` members have short names, and a change that several brokers recorded has one row.
    """
    rows = _record_rows(list(history), short=short, seen=seen or SeenMemberChanges())
    return iter(sorted(rows, key=lambda row: str(row["at"])))


def _record_rows(
    records: "list[RebalanceRecord]", *, short: bool, seen: SeenMemberChanges
) -> Iterator[dict[str, object]]:
    ids = {name for record in records for name in _member_ids(record)}
    names = short_names(ids) if short else {name: name for name in ids}
    for record in records:
        for change in record.changed:
            if short and seen.is_repeated(change):
                continue
            yield _history_row(record, change.at, _CHANGE_TEXTS.get(change.what, change.what), to=names[change.member])
        for move in record.moves:
            yield _history_row(
                record,
                move.at,
                _change_kind(move),
                queue=str(move.queue),
                topic=move.queue.topic,
                queue_id=move.queue.queue_id,
                before=None if move.before is None else names[move.before],
                to=None if move.after is None else names[move.after],
                gap_ms=move.gap_ms,
                kind=move.kind,
                why=shorten_ids(move.why, names) if short else move.why,
            )
        if record.left_out:
            yield _history_row(
                record, record.at, f"{record.left_out} more", why="moves that the record had no room for"
            )
        rest = record.rebalance
        if rest is not None and (rest.moved or not short):
            why = f"{rest.moved} moved in {_span_text(rest.duration_ms)}"
            yield _history_row(record, record.at, "at rest", why=why)


def _member_ids(record: "RebalanceRecord") -> Iterator[str]:
    yield from record.members
    yield from (change.member for change in record.changed)
    for move in record.moves:
        yield from (name for name in (move.before, move.after) if name is not None)


def _change_kind(move: "QueueMove") -> str:
    if move.after is None:
        return "freed"
    return "taken" if move.before is None else "moved" if move.moved else "taken again"


def _history_row(
    record: "RebalanceRecord",
    at: datetime,
    what: str,
    *,
    before: str | None = None,
    to: str | None = None,
    why: str | None = None,
    **more: object,
) -> dict[str, object]:
    queue = dict.fromkeys(("queue", "topic", "queue_id", "gap_ms", "kind")) | more
    return {"at": at, "what": what, "broker": record.broker, **queue, "from": before, "to": to, "why": why}


def _history_line(row: Mapping[str, object]) -> str:
    """Return a row as one line, for --follow."""
    gap, queue, why = row["gap_ms"], row["queue"], row["why"]
    owners = " -> ".join(str(row[key] or "nobody") for key in ("from", "to")) if queue else row["to"]
    words = [_clock_text(row["at"]), row["what"], queue, owners, None if gap is None else f"after {_span_text(gap)}"]
    return " ".join(str(word) for word in words if word is not None) + (f": {why}" if why else "")


def _span_text(span_ms: Any) -> str:
    return format_duration(span_ms / 1_000)


def _clock_text(at: object) -> str:
    return format_time(at, precision="milliseconds") if isinstance(at, datetime) else str(at)


_COLUMNS = columns("#at", "what", "queue", "from", "to", "#gap_ms:gap", "why", at=_clock_text, gap_ms=_span_text)
