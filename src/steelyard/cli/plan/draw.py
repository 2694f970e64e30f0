"""Plans as pictures: one row a strategy, one character a queue, the same colour for the same member."""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase, digits

from rich.text import Text

from steelyard.model import Queue

__all__ = ["MARKS", "NOBODY", "counts", "grid", "legend", "mark_of", "ruler"]

MARKS = digits[1:] + ascii_uppercase + ascii_lowercase + digits[0]
"""The first member is 1, the tenth A."""

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
NOBODY = "."
SEVERAL = "!"


def mark_of(place: int, style: str = "") -> Text:
    """Return the mark of a member in its colour: 1 is the first. Beyond the last mark they begin again.

    >>> mark_of(9).plain
    'A'
    """
    return Text(MARKS[place % len(MARKS)], f"{_COLOURS[place % len(_COLOURS)]} {style}".rstrip())


def grid(
    queues: Sequence[Queue],
    plan: Mapping[str, Sequence[Queue]],
    before: Mapping[Queue, str] | None = None,
    marks: Mapping[str, int] | None = None,
) -> Text:
    """Draw the owner of each queue; a queue that had another owner before is shown reversed.

    ``marks`` gives each member its place among the marks, so that it keeps it while others come and go.

    >>> from steelyard.model import Queue
    >>> queues = [Queue("orders", "broker-a", number) for number in range(5)]
    >>> grid(queues, {"c1": queues[:2], "c2": queues[2:4]}).plain
    '1122.'
    """
    places = marks or {member: place for place, member in enumerate(plan)}
    owners: dict[Queue, list[str]] = {}
    for member, mine in plan.items():
        for queue in mine:
            owners.setdefault(queue, []).append(member)
    text = Text()
    for queue in queues:
        has = owners.get(queue, [])
        if not has:
            text.append(NOBODY, "dim")
        elif len(has) > 1:
            text.append(SEVERAL, "bold red")
        else:
            place = places[has[0]]
            moved = before is not None and before.get(queue, has[0]) != has[0]
            text.append_text(mark_of(place, "reverse" if moved else ""))
    return text


def counts(plan: Mapping[str, Sequence[Queue]]) -> str:
    """Say how many queues each member has.

    >>> counts({"c1": [1, 2], "c2": [3]})
    '2/1'
    """
    return "/".join(str(len(mine)) for mine in plan.values())


def ruler(count: int) -> str:
    """Give each queue its number: the last digit of it.

    >>> ruler(12)
    '012345678901'
    """
    return "".join(str(number % 10) for number in range(count))


def legend(members: Sequence[str], pictures: Iterable[Text]) -> str:
    """Say what the marks mean: those of the members, and the others as far as they occur.

    >>> legend(["c1", "c2"], [Text("122.")])
    '1 is c1, 2 is c2, . has no owner'
    """
    parts = [f"{mark} is {member}" for mark, member in zip(MARKS, members, strict=False)]
    drawn = "".join(picture.plain for picture in pictures)
    if SEVERAL in drawn:
        parts.append(f"{SEVERAL} has several owners")
    if NOBODY in drawn:
        parts.append(f"{NOBODY} has no owner")
    return ", ".join(parts)
