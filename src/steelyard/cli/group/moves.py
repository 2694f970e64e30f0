"""`steelyard group moves`: what changed in a group, as its brokers wrote it down: who came and went, and what moved.

The history is there whether anybody looked on or not. With ``--follow`` what is newer is printed as it comes; a broker
that is away then is asked again. Members are called by their short names for people, and by their ids for programs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import GroupName
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.moments import moment
from steelyard.cli.frame.output import Column, Format, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError, RequestNotSupported, TransportError

if TYPE_CHECKING:
    from steelyard.client.admin.moves import GroupMoves, MemberChange, Move
    from steelyard.client.blocking.admin import Admin

__all__ = ["Known", "rows_of", "show_moves"]

_FOLLOW_S = 0.5
_SAME = timedelta(seconds=2)
"""What two brokers tell of a member within this time is the same."""
_WHAT = {"back": "is back", "wants": "wants others"}


@at_cluster
def show_moves(
    where: Where,
    out: Out,
    group: GroupName,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what is newer: a time, or '2h'.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many records, each of what came together.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", help="Go on, and print what is new, until Ctrl-C.")] = False,
) -> None:
    """Show what moved: which queue went from whom to whom, how long nobody had it, and why."""
    from steelyard.client.blocking.admin import Admin

    start = None if since is None else moment(since, datetime.now(UTC))
    if follow and out.form in (Format.CSV, Format.JSON):
        raise ConfigurationError(
            f"--follow has no end, and a {out.form} has one", next_step="give --output jsonl, or leave it away"
        )
    with Admin(where.connect()) as admin:
        if not admin.keeps_moves():
            raise RequestNotSupported(
                code=RequestNotSupported.codes[0],
                server=str(where.connect()),
                what="no broker here keeps a history of moves: those of Steelyard do, Apache's do not",
                next_step=f"look on instead: steelyard group watch {group}",
            )
        if follow:
            _follow(admin, out, group, start, limit)
            return
        history = admin.moves(group, since=start, limit=limit)
        if not history:
            admin.group_rules(group)  # an error if there is no such group
    _print(out, history)


def _print(out: Out, history: "Sequence[GroupMoves]") -> None:
    out.rows(_COLUMNS, rows_of(history, short=out.is_table), none="nothing moved")
    if out.is_table and history:
        from steelyard.cli.frame.screen import screen
        from steelyard.client.admin.rebalances import rebalances

        for last in rebalances(history)[-1:]:
            screen().print(
                f"the last change took {last.duration_ms} ms: {counted(last.moved, 'queue')} moved"
                f"{'' if last.least is None else f', {last.least} had to'}",
                soft_wrap=True,
            )


def _follow(admin: "Admin", out: Out, group: str, start: datetime | None, limit: int) -> None:
    from steelyard.cli.frame.ending import until_told
    from steelyard.cli.frame.screen import screen, visible

    with until_told() as ending:
        history, cursor = admin.moves_since(group=group, limit=limit)
        history = [record for record in history if start is None or record.at >= start][-limit:]
        known = Known()
        while True:
            rows = rows_of(history, short=out.is_table, known=known)
            if out.is_table:
                for row in rows:
                    screen().print(visible(_line(row)), soft_wrap=True)
            else:
                out.rows(_COLUMNS, rows)
            if ending.wait(_FOLLOW_S):
                return
            try:
                history, cursor = admin.moves_since(cursor, group=group)
            except TransportError:
                history = []  # a server that is away now may be back soon


class Known:
    """Which members that came or went were shown already: each broker tells of them."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], datetime] = {}

    def is_told(self, change: "MemberChange") -> bool:
        """Say whether another broker told the same just before, and remember it."""
        before = self._last.get((change.member, change.what))
        self._last[change.member, change.what] = change.at
        return before is not None and abs(change.at - before) < _SAME


def rows_of(history: "Iterable[GroupMoves]", *, short: bool, known: Known | None = None) -> Iterator[dict[str, object]]:
    """Return a row for each member that came or went, each queue that changed hands, and each time all was at rest.

    In ``short`` members have short names, and what several brokers tell is told once.
    """
    rows = _rows(list(history), short=short, known=known or Known())
    return iter(sorted(rows, key=lambda row: str(row["at"])))


def _rows(records: "list[GroupMoves]", *, short: bool, known: Known) -> Iterator[dict[str, object]]:
    from steelyard.cli.frame.short_names import short_names, shortened

    ids = {name for record in records for name in _ids_in(record)}
    names = short_names(ids) if short else {name: name for name in ids}
    for record in records:
        for change in record.changed:
            if short and known.is_told(change):
                continue
            yield _row(record, change.at, _WHAT.get(change.what, change.what), to=names[change.member])
        for move in record.moves:
            yield _row(
                record,
                move.at,
                _what(move),
                queue=str(move.queue),
                topic=move.queue.topic,
                queue_id=move.queue.queue_id,
                before=None if move.before is None else names[move.before],
                to=None if move.after is None else names[move.after],
                gap_ms=move.gap_ms,
                kind=move.kind,
                why=shortened(move.why, names) if short else move.why,
            )
        if record.left_out:
            yield _row(record, record.at, f"{record.left_out} more", why="moves that the record had no room for")
        rest = record.rebalance
        if rest is not None and (rest.moved or not short):
            yield _row(record, record.at, "at rest", why=f"{rest.moved} moved in {rest.duration_ms} ms")


def _ids_in(record: "GroupMoves") -> Iterator[str]:
    yield from record.members
    yield from (change.member for change in record.changed)
    for move in record.moves:
        yield from (name for name in (move.before, move.after) if name is not None)


def _what(move: "Move") -> str:
    if move.after is None:
        return "freed"
    return "taken" if move.before is None else "moved" if move.moved else "taken again"


def _row(
    record: "GroupMoves",
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


def _line(row: Mapping[str, object]) -> str:
    """Say a row in a line, for those who look on."""
    gap, queue, why = row["gap_ms"], row["queue"], row["why"]
    hands = " -> ".join(str(row[key] or "nobody") for key in ("from", "to")) if queue else row["to"]
    words = [_clock(row["at"]), row["what"], queue, hands, None if gap is None else f"after {gap} ms"]
    return " ".join(str(word) for word in words if word is not None) + (f": {why}" if why else "")


def _clock(at: object) -> str:
    """Write a moment to the millisecond, in this machine's zone; with its day if that is not today."""
    if not isinstance(at, datetime):
        return str(at)
    here = at.astimezone()
    day = "" if here.date() == datetime.now(here.tzinfo).date() else f"{here:%m-%d} "
    return f"{day}{here:%H:%M:%S}.{here.microsecond // 1000:03d}"


def _milliseconds(span_ms: int) -> str:
    return f"{span_ms} ms"


_COLUMNS = (
    Column("at", right=True, show=_clock),
    Column("what"),
    Column("queue"),
    Column("from"),
    Column("to"),
    Column("gap_ms", "gap", right=True, show=_milliseconds),
    Column("why"),
)
