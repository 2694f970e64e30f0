"""Moving a group as the verbs do it: work it out, show it, ask, do it."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from steelyard.cli.frame.confirming import confirm
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where

if TYPE_CHECKING:
    from steelyard.client.admin.resets import Reset
    from steelyard.client.blocking.admin import Admin
    from steelyard.model import Queue

__all__ = ["QUEUE", "move", "queue_values"]

QUEUE = (Column("topic"), Column("broker"), Column("queue_id", "queue", right=True))
_MOVES = (
    *QUEUE,
    Column("before", "from", right=True),
    Column("to", right=True),
    Column("skipped", "skips", right=True),
    Column("repeated", "repeats", right=True),
)


def queue_values(queue: "Queue") -> dict[str, object]:
    """Return the values of the columns of a queue."""
    return {"topic": queue.topic, "broker": queue.broker, "queue_id": queue.queue_id}


def move(where: Where, out: Out, plan: "Callable[[Admin], list[Reset]]", *, dry_run: bool, yes: bool) -> None:
    """Plan, show, ask, do."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        resets = plan(admin)
        what = _in_words(resets)
        if dry_run:
            out.rows(_MOVES, _rows(resets))
            note(f"{what}; nothing was changed")
            return
        if any(reset.skipped or reset.repeated for reset in resets):
            if not yes:
                _preview(resets)
            confirm(what, yes)
        for reset in resets:
            admin.apply(reset)
    out.done(_in_words(resets, done=True), group=resets[0].group, moves=list(_rows(resets)))


def _rows(resets: "Iterable[Reset]") -> Iterable[dict[str, object]]:
    for reset in resets:
        for each in reset.moves:
            yield {
                **queue_values(each.queue),
                "before": each.before,
                "to": each.to,
                "skipped": each.skipped,
                "repeated": each.repeated,
            }


def _preview(resets: "Iterable[Reset]") -> None:
    for reset in resets:
        for each in reset.moves:
            if each.skipped or each.repeated:
                note(str(each))


def _in_words(resets: "Sequence[Reset]", *, done: bool = False) -> str:
    """Say in a sentence what becomes of a group, or became of it."""
    group, members, is_new = resets[0].group, resets[0].members, resets[0].is_new
    queues = sum(len(reset.moves) for reset in resets)
    skipped, repeated = sum(reset.skipped for reset in resets), sum(reset.repeated for reset in resets)
    online = f"{counted(members, 'member')} online" if members else "nobody online"
    topics = ", ".join(reset.topic for reset in resets)
    moved = f"{'is' if done else 'would be'} {'made and moved' if is_new else 'moved'}"
    return (
        f"group {group} {moved} in {counted(queues, 'queue')} of {topics} ({online}): skips "
        f"{_messages(skipped)}, repeats {_messages(repeated)}"
    )


def _messages(count: int) -> str:
    return counted(count, "message")
