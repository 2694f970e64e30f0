"""A live group as pictures: a table with a row for each queue, and a grid of members and queues."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from steelyard.balance.explain import Why, in_words
from steelyard.cli.frame.moments import in_short, on_the_clock
from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.short_names import short_names, shortened
from steelyard.cli.frame.tables import listing
from steelyard.cli.plan.draw import NOBODY, mark_of
from steelyard.client.admin.group_plan import plan_change
from steelyard.client.admin.group_view import GroupView, QueueInGroup
from steelyard.errors import SteelyardError
from steelyard.model import Queue

__all__ = ["draw", "grid_of", "table_of"]


def draw(view: GroupView) -> None:
    """Print a group for people: its sum, every queue, and what looks wrong."""
    console = screen()
    console.print(visible(str(view).partition("\n")[0]), style="bold", soft_wrap=True)
    console.print(table_of(view))
    names = short_names(view.owned())
    for hazard in view.hazards:
        console.print(f"look: {visible(shortened(hazard.sentence, names))}", style="bold yellow", soft_wrap=True)
    for note in view.notes:
        console.print(f"note: {visible(note)}", soft_wrap=True)


def table_of(view: GroupView) -> Table:
    """Draw every queue with its owner, for how long that has it, how far it is, and why it is there."""
    table = listing("queue", "owner", "#for", "#waiting", "handled up to", "why")
    why, names = _reasons(view), short_names(view.owned())
    for each in view.queues:
        owned = "-" if each.owned_at is None else in_short(view.at_ms / 1000 - each.owned_at.timestamp())
        handled = "-" if each.consumed_at is None else on_the_clock(each.consumed_at)
        table.add_row(
            visible(str(each.queue)),
            visible(" and ".join(names[owner] for owner in each.owners)) or "nobody",
            owned,
            "-" if each.lag is None else str(each.lag),
            handled,
            visible(shortened(why.get(each.queue, ""), names)),
        )
    return table


def _reasons(view: GroupView) -> dict[Queue, str]:
    """Say of each queue whether it is where the group's strategy wants it."""
    if view.broadcast:
        return {each.queue: "every member reads it" for each in view.queues}
    if not view.members:
        return {each.queue: "no member is there" for each in view.queues}
    try:
        told = plan_change(view)
    except SteelyardError:
        return {}
    return {
        change.queue: f"as {view.strategy} plans it"
        if change.why is Why.KEPT
        else in_words(change).removeprefix(f"{change.queue} ")
        for change in told.changes
    }


def grid_of(view: GroupView) -> Group:
    """Draw who has which queue: a row for each member, a column for each queue."""
    parts, names = _parts(view.queues), short_names(view.owned())
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")
    for (topic, broker), queues in parts.items():
        numbers = "".join(str(each.queue.queue_id % 10) for each in queues)
        table.add_column(f"{visible(topic)}\n{visible(broker)}\n{numbers}", overflow="fold")
    table.add_column("\n\nqueues", justify="right", no_wrap=True)
    table.add_column("\n\nwaiting", justify="right", no_wrap=True)
    for place, member in enumerate(view.members):
        mine = [each for each in view.queues if member.id in each.owners]
        cells = [_cells(queues, member.id, place) for queues in parts.values()]
        waiting = sum(each.lag or 0 for each in mine)
        table.add_row(visible(names[member.id]), *cells, str(len(mine)), str(waiting))
    if unowned := [each for each in view.queues if not each.owners]:
        cells = [_cells(queues, None) for queues in parts.values()]
        table.add_row("nobody", *cells, str(len(unowned)), str(sum(each.lag or 0 for each in unowned)))
    lines = [Text(visible(shortened(hazard.sentence, names)), "bold yellow") for hazard in view.hazards]
    return Group(Text(visible(str(view).partition("\n")[0]), "bold"), table, *lines)


def _parts(queues: Sequence[QueueInGroup]) -> dict[tuple[str, str], list[QueueInGroup]]:
    parts: dict[tuple[str, str], list[QueueInGroup]] = {}
    for each in queues:
        parts.setdefault((each.queue.topic, each.queue.broker), []).append(each)
    return parts


def _cells(queues: Sequence[QueueInGroup], member: str | None, place: int = 0) -> Text:
    text = Text()
    for each in queues:
        has = member in each.owners if member is not None else not each.owners
        mark = Text("x", "bold red") if member is None else mark_of(place)
        text.append_text(mark if has else Text(NOBODY, "dim"))
    return text
