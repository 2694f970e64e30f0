"""Looking at a group again and again, and showing what changed: a grid that is redrawn, or a line for each change."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from steelyard.balance.explain import Explanation, Why, explain, in_words
from steelyard.cli.frame.ending import until_told
from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.short_names import short_names, shortened
from steelyard.errors import TransportError

if TYPE_CHECKING:
    from steelyard.client.admin.group_view import GroupView
    from steelyard.client.connect import Connect

__all__ = ["changes_between", "watch"]


def watch(where: "Connect", group: str, *, every_s: float, count: int | None, is_terminal: bool) -> None:
    """Show a group until told to end, or until it changed so many times."""
    from rich.live import Live

    from steelyard.cli.group.grid import grid_of
    from steelyard.client.blocking.admin import Admin

    with until_told() as ending, Admin(where) as admin, ExitStack() as stack:
        console = screen()
        live = stack.enter_context(Live(console=console, auto_refresh=False)) if is_terminal else None
        before: GroupView | None = None
        shown, changes = None, 0
        while not ending:
            try:
                view = admin.group(group, earlier=before)
            except TransportError:
                if before is None:
                    raise
                # A server that is away now may be back soon, and that is what somebody watches for.
                ending.wait(every_s)
                continue
            lines = list(changes_between(before, view))
            if live is not None and (now := _seen(view)) != shown:
                live.update(grid_of(view), refresh=True)
                shown = now
            for line in lines if live is None else ():
                console.print(line, soft_wrap=True)
            changes += bool(lines)
            if changes == count:
                break
            before = view
            ending.wait(every_s)


def _seen(view: "GroupView") -> tuple[object, ...]:
    """Return all that the grid shows."""
    return view.members, [(each.queue, each.owners, each.lag) for each in view.queues], view.hazards


def changes_between(before: "GroupView | None", view: "GroupView") -> Iterator[str]:
    """Tell what changed between two looks: who came and went, each queue that has another owner, what looks wrong."""
    at = datetime.fromtimestamp(view.at_ms / 1000, UTC)
    stamp = f"{at:%H:%M:%S}.{view.at_ms % 1000:03d}"
    words = str(view).splitlines() if before is None else _changes(before, view)
    looks = (view,) if before is None else (before, view)
    names = short_names(name for look in looks for name in look.owned())
    yield from (f"{stamp} {visible(shortened(each, names))}" for each in words)


def _changes(before: "GroupView", view: "GroupView") -> list[str]:
    there, were = {member.id for member in view.members}, {member.id for member in before.members}
    words = [*(f"{name} left" for name in sorted(were - there)), *(f"{name} joined" for name in sorted(there - were))]
    words += _moves(explain(before.owned(), view.owned(), [each.queue for each in view.queues]))
    known = {hazard.sentence for hazard in before.hazards}
    return [*words, *(f"look: {each.sentence}" for each in view.hazards if each.sentence not in known)]


def _moves(told: Explanation) -> list[str]:
    return [
        f"{change.queue} has no owner" if change.why is Why.UNOWNED else in_words(change)
        for change in told.changes
        if change.before != change.now
    ]
