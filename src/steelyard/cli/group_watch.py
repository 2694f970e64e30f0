"""Group pictures: a table with a row for each queue, a grid of members and queues, and watching both change."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from steelyard.balance.assignors.explain import ChangeReason, Explanation, describe_change, explain
from steelyard.cli.shared.tables import UNOWNED_MARK, make_table, member_mark
from steelyard.cli.shared.terminal import make_console, stop_on_signals
from steelyard.client.admin.group_description import GroupDescription, GroupQueue, dry_run_rebalance
from steelyard.client.sync.admin import Admin
from steelyard.errors import SteelyardError, TransportError
from steelyard.model import Queue
from steelyard.model.formatting import format_duration, format_time, printable, short_names, shorten_ids

if TYPE_CHECKING:
    from steelyard.client.config import ClientConfig


def watch_group(config: "ClientConfig", group: str, *, interval_s: float, count: int | None, is_terminal: bool) -> None:
    """Show a group until stopped, or until it changed this many times."""
    with stop_on_signals() as stop, Admin(config) as admin, ExitStack() as stack:
        console = make_console()
        live = stack.enter_context(Live(console=console, auto_refresh=False)) if is_terminal else None
        before: GroupDescription | None = None
        shown, changes = None, 0
        while not stop:
            try:
                view = admin.groups.describe(group, earlier=before)
            except TransportError:
                if before is None:
                    raise
                # A server that is down may be back soon, which is worth watching for.
                stop.wait(interval_s)
                continue
            lines = list(changes_between(before, view))
            if live is not None and (now := _grid_state(view)) != shown:
                live.update(group_grid(view), refresh=True)
                shown = now
            for line in lines if live is None else ():
                console.print(line, soft_wrap=True)
            changes += bool(lines)
            if changes == count:
                break
            before = view
            stop.wait(interval_s)


def _grid_state(view: GroupDescription) -> tuple[object, ...]:
    """Return everything that the grid shows."""
    return view.members, [(each.queue, each.owners, each.lag) for each in view.queues], view.findings


def changes_between(before: GroupDescription | None, view: GroupDescription) -> Iterator[str]:
    """Yield a line for each change: members, owners of queues, and what looks wrong."""
    stamp = format_time(datetime.fromtimestamp(view.at_ms / 1000, UTC), precision="milliseconds")
    words = str(view).splitlines() if before is None else _change_texts(before, view)
    views = (view,) if before is None else (before, view)
    names = short_names(name for each in views for name in each.owned())
    yield from (f"{stamp} {printable(shorten_ids(each, names))}" for each in words)


def _change_texts(before: GroupDescription, view: GroupDescription) -> list[str]:
    there, were = {member.id for member in view.members}, {member.id for member in before.members}
    words = [*(f"{name} left" for name in sorted(were - there)), *(f"{name} joined" for name in sorted(there - were))]
    words += _ownership_texts(explain(before.owned(), view.owned(), [each.queue for each in view.queues]))
    known = {finding.kind for finding in before.findings}
    return [*words, *(f"look: {each}" for each in view.findings if each.kind not in known)]


def _ownership_texts(explanation: Explanation) -> list[str]:
    return [
        f"{change.queue} has no owner" if change.why is ChangeReason.UNOWNED else describe_change(change)
        for change in explanation.changes
        if change.before != change.now
    ]


def print_group(view: GroupDescription) -> None:
    """Print a group: a summary, every queue, and what looks wrong."""
    console = make_console()
    console.print(printable(str(view).partition("\n")[0]), style="bold", soft_wrap=True)
    console.print(group_table(view))
    names = short_names(view.owned())
    for finding in view.findings:
        console.print(f"look: {printable(shorten_ids(str(finding), names))}", style="bold yellow", soft_wrap=True)
    for note in view.notes:
        console.print(f"note: {printable(note)}", soft_wrap=True)


def group_table(view: GroupDescription) -> Table:
    """Return a table of queues: owner, since when, lag, and why the owner has it."""
    table = make_table("queue", "owner", "#for", "#lag", "handled up to", "why")
    why, names = _placement_reasons(view), short_names(view.owned())
    for each in view.queues:
        owned = "-" if each.owned_at is None else format_duration(view.at_ms / 1000 - each.owned_at.timestamp())
        handled = "-" if each.consumed_at is None else format_time(each.consumed_at)
        placed = why.get(each.queue, "")
        if each.stuck_since is not None:
            still = format_duration(view.at_ms / 1000 - each.stuck_since.timestamp())
            placed = f"no progress for {still}" + (f"; {placed}" if placed else "")
        table.add_row(
            printable(str(each.queue)),
            printable(" and ".join(names[owner] for owner in each.owners)) or "nobody",
            owned,
            "-" if each.lag is None else str(each.lag),
            handled,
            printable(shorten_ids(placed, names)),
        )
    return table


def _placement_reasons(view: GroupDescription) -> dict[Queue, str]:
    """Return for each queue whether its owner is the one that the group's strategy assigns."""
    if view.broadcast:
        return {each.queue: "every member reads it" for each in view.queues}
    if not view.members:
        return {each.queue: "no member is online" for each in view.queues}
    try:
        explanation = dry_run_rebalance(view)
    except SteelyardError:
        return {}
    return {
        change.queue: f"as {view.strategy} plans it"
        if change.why is ChangeReason.KEPT
        else describe_change(change).removeprefix(f"{change.queue} ")
        for change in explanation.changes
    }


def group_grid(view: GroupDescription) -> Group:
    """Return a grid of who owns which queue: a row for each member, a column for each queue."""
    parts, names = _queues_by_broker(view.queues), short_names(view.owned())
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")
    for (topic, broker), queues in parts.items():
        numbers = "".join(str(each.queue.queue_id % 10) for each in queues)
        table.add_column(f"{printable(topic)}\n{printable(broker)}\n{numbers}", overflow="fold")
    table.add_column("\n\nqueues", justify="right", no_wrap=True)
    table.add_column("\n\nlag", justify="right", no_wrap=True)
    for place, member in enumerate(view.members):
        mine = [each for each in view.queues if member.id in each.owners]
        cells = [_grid_cells(queues, member.id, place) for queues in parts.values()]
        lag = sum(each.lag or 0 for each in mine)
        table.add_row(printable(names[member.id]), *cells, str(len(mine)), str(lag))
    if unowned := [each for each in view.queues if not each.owners]:
        cells = [_grid_cells(queues, None) for queues in parts.values()]
        table.add_row("nobody", *cells, str(len(unowned)), str(sum(each.lag or 0 for each in unowned)))
    lines = [Text(printable(shorten_ids(str(finding), names)), "bold yellow") for finding in view.findings]
    return Group(Text(printable(str(view).partition("\n")[0]), "bold"), table, *lines)


def _queues_by_broker(queues: Sequence[GroupQueue]) -> dict[tuple[str, str], list[GroupQueue]]:
    parts: dict[tuple[str, str], list[GroupQueue]] = {}
    for each in queues:
        parts.setdefault((each.queue.topic, each.queue.broker), []).append(each)
    return parts


def _grid_cells(queues: Sequence[GroupQueue], member: str | None, index: int = 0) -> Text:
    text = Text()
    for each in queues:
        has = member in each.owners if member is not None else not each.owners
        mark = Text("x", "bold red") if member is None else member_mark(index)
        text.append_text(mark if has else Text(UNOWNED_MARK, "dim"))
    return text
