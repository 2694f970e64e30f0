"""The pictures of the documentation, drawn from the code: a queue's life, and what strategies do."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from steelyard import Queue
from steelyard.balance.assignors import AssignmentPlan, find_strategy, plan
from steelyard.balance.assignors.explain import explain
from steelyard.balance.group.queue_states import HELD_STATES, QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import TRANSITIONS
from tests.docs.generated.svg import COLOURS, INK, PALE, arrow, box, curve, label, picture

_QUEUES = [Queue("orders", "broker-0", number) for number in range(16)]
_CELL, _LEFT = 34, 215

# -- who gets what -----------------------------------------------------------------------------------------------------


def _shares() -> str:
    """Draw how sixteen queues are shared among one, two and three members."""
    members = ["c1", "c2", "c3"]
    rows = []
    for count in (1, 2, 3):
        for name in ("average", "circle", "sticky"):
            made = plan(find_strategy(name), "billing", _QUEUES, members[:count])
            rows.append((f"{count} member{'s' * (count > 1)}, {name}", made, frozenset[Queue]()))
    return _grid("Sixteen queues shared among one, two and three members", rows)


def _joining() -> str:
    """Draw what moves when a fourth member joins three, with each strategy."""
    rows = []
    for name in ("average", "circle", "ring", "sticky"):
        strategy = find_strategy(name)
        before = plan(strategy, "billing", _QUEUES, ["c1", "c2", "c3"])
        after = plan(strategy, "billing", _QUEUES, ["c1", "c2", "c3", "c4"], previous=before)
        moved = frozenset(queue for queue in _QUEUES if _owner(before, queue) != _owner(after, queue))
        least = explain(before, after).least
        rows += [(f"{name}, three members", before, frozenset[Queue]())]
        rows += [(f"a fourth: {len(moved)} move, {least} needed", after, moved)]
    return _grid("What moves when a fourth member joins: moved queues have a frame", rows)


def _owner(made: AssignmentPlan, queue: Queue) -> str:
    return next((member for member, queues in made.items() if queue in queues), "")


def _grid(title: str, rows: Sequence[tuple[str, Mapping[str, Sequence[Queue]], frozenset[Queue]]]) -> str:
    width, height = _LEFT + len(_QUEUES) * _CELL + 90, 50 + len(rows) * 38

    def shapes() -> Iterator[str]:
        for number in range(len(_QUEUES)):
            yield label(_LEFT + number * _CELL + 15, 28, str(number), fill=PALE, size=11)
        for line, (name, made, moved) in enumerate(rows):
            y = 40 + line * 38
            yield label(_LEFT - 12, y + 20, name, anchor="end")
            owners = {queue: member for member, queues in made.items() for queue in queues}
            names = sorted(made)
            for number, queue in enumerate(_QUEUES):
                x = _LEFT + number * _CELL
                yield box(x, y, 30, 30, COLOURS[names.index(owners[queue])], stroke=INK if queue in moved else "none")
                yield label(x + 15, y + 20, owners[queue], fill="#ffffff", size=11, bold=queue in moved)
            shares = "/".join(str(len(made[member])) for member in names)
            yield label(_LEFT + len(_QUEUES) * _CELL + 8, y + 20, shares, anchor="start", fill=PALE)

    return picture(width, height, title, shapes())


# -- the life of a queue -----------------------------------------------------------------------------------------------

_TAKING = (
    (QueueState.ABSENT, QueueEvent.PLANNED_IN, QueueState.WANTED),
    (QueueState.WANTED, QueueEvent.LOCK_GRANTED, QueueState.STARTING),
    (QueueState.STARTING, QueueEvent.OFFSET_RECEIVED, QueueState.OWNED),
)
_GIVING = (
    (QueueState.OWNED, QueueEvent.PLANNED_OUT, QueueState.DRAINING),
    (QueueState.DRAINING, QueueEvent.DRAINED, QueueState.COMMITTING),
    (QueueState.COMMITTING, QueueEvent.COMMIT_CONFIRMED, QueueState.RELEASING),
    (QueueState.RELEASING, QueueEvent.UNLOCKED, QueueState.ABSENT),
)
_PLACES: dict[QueueState, tuple[float, float]] = {
    QueueState.ABSENT: (90, 210),
    QueueState.WANTED: (230, 110),
    QueueState.ASKING: (400, 40),
    QueueState.STARTING: (570, 110),
    QueueState.OWNED: (710, 210),
    QueueState.DRAINING: (570, 310),
    QueueState.COMMITTING: (400, 380),
    QueueState.RELEASING: (230, 310),
    QueueState.UNSURE: (400, 210),
}
_WIDE, _HIGH = 104, 34


def _life() -> str:
    """Draw the states of a queue, and everything that leads from one to another."""
    edges = _edges()
    usual = {(before, after) for before, _, after in (*_TAKING, *_GIVING)}

    def shapes() -> Iterator[str]:
        for before, after in edges:
            if (before, after) not in usual:
                yield _edge(before, after, is_usual=False)
        for before, seen, after in (*_TAKING, *_GIVING):
            _check(before, seen, after)
            yield _edge(before, after, is_usual=True)
        for state, (x, y) in _PLACES.items():
            fill = COLOURS[2] if state in HELD_STATES else COLOURS[0]
            yield box(x - _WIDE / 2, y - _HIGH / 2, _WIDE, _HIGH, PALE if state is QueueState.ABSENT else fill)
            yield label(x, y + 5, state.value, fill="#ffffff", bold=True)
        for before, seen, after in (*_TAKING, *_GIVING):
            yield _word(before, after, seen.value)
        yield label(
            20, 440, "bold: the usual way round. dashed: what else may happen.", anchor="start", fill=PALE, size=12
        )
        yield label(
            20, 458, "green: no other member may start with it while it is here.", anchor="start", fill=PALE, size=12
        )

    return picture(800, 474, "The life of a queue at one member", shapes())


def _edges() -> list[tuple[QueueState, QueueState]]:
    """Return what leads from one state to another; everything can be given up, and that is not drawn."""
    found = {
        (before, after): None
        for (before, seen), row in TRANSITIONS.items()
        if seen is not QueueEvent.GIVEN_UP
        for after in row.targets
        if after is not before
    }
    return list(found)


def _check(before: QueueState, seen: QueueEvent, after: QueueState) -> None:
    assert after in TRANSITIONS[before, seen].targets, f"{before.value} does not become {after.value} by {seen.value}"


def _edge(before: QueueState, after: QueueState, *, is_usual: bool) -> str:
    (x, y), (to_x, to_y) = _PLACES[before], _PLACES[after]
    (x, y), (to_x, to_y) = _rim((x, y), (to_x, to_y)), _rim((to_x, to_y), (x, y))
    if is_usual:
        return curve(f"M{x:g} {y:g} L{to_x:g} {to_y:g}", width=3)
    # Bent to one side, so that the way there and the way back are two.
    bend_x, bend_y = (x + to_x) / 2 + (to_y - y) * 0.14, (y + to_y) / 2 - (to_x - x) * 0.14
    return curve(f"M{x:g} {y:g} Q{bend_x:g} {bend_y:g} {to_x:g} {to_y:g}", colour=PALE, dash=True, width=1)


def _rim(at: tuple[float, float], to: tuple[float, float]) -> tuple[float, float]:
    """Return where a line from the middle of a box to another leaves the box."""
    across, down = to[0] - at[0], to[1] - at[1]
    part = min(_WIDE / 2 / abs(across) if across else 9, _HIGH / 2 / abs(down) if down else 9)
    return at[0] + across * part, at[1] + down * part


def _word(before: QueueState, after: QueueState, text: str) -> str:
    """Write what leads from one state to another, on the outer side of the arrow."""
    (x, y), (to_x, to_y) = _PLACES[before], _PLACES[after]
    x, y = (x + to_x) / 2, (y + to_y) / 2
    middle_x, middle_y = _PLACES[QueueState.UNSURE]
    if y == to_y or abs(x - middle_x) < _WIDE / 2:
        return label(x, y - 9 if y < middle_y else y + 20, text, size=12)
    outwards = 10 if x > middle_x else -10
    return label(
        x + outwards, y - 4 if y < middle_y else y + 16, text, size=12, anchor="start" if outwards > 0 else "end"
    )


# -- one queue goes over -----------------------------------------------------------------------------------------------


def _hand_over() -> str:
    """Draw how a queue goes from one member to another: both lanes are ways through the table."""
    old = [QueueState.OWNED, *(after for _, _, after in _GIVING)]
    new = [QueueState.WANTED, QueueState.STARTING, QueueState.OWNED]
    for before, seen, after in (*_GIVING, *_TAKING):
        _check(before, seen, after)
    step, left = 128, 120

    def shapes() -> Iterator[str]:
        yield label(20, 75, "old owner", anchor="start", bold=True)
        yield label(20, 185, "new owner", anchor="start", bold=True)
        for at, state in enumerate(old):
            x = left + at * step
            held = state in HELD_STATES or state is QueueState.RELEASING
            yield box(x, 54, step - 6, 34, COLOURS[0] if held else PALE)
            yield label(x + (step - 6) / 2, 76, state.value, fill="#ffffff", bold=True)
            if at:
                yield label(x - 3, 44, _GIVING[at - 1][1].value, size=12)
        for state, start, length in zip(new, (1, 4, 5), (3, 1, 1), strict=True):
            x, width = left + start * step, length * step - 6
            yield box(x, 164, width, 34, COLOURS[1] if state in HELD_STATES else PALE)
            yield label(x + width / 2, 186, state.value, fill="#ffffff", bold=True)
        for at, (_, seen, _) in zip((1, 4, 5), _TAKING, strict=True):
            yield label(left + at * step - 3, 218, seen.value, size=12)
        yield arrow(left + 4 * step - 3, 92, left + 4 * step - 3, 158)
        yield label(left + 4 * step + 4, 130, "the lock is free", anchor="start", size=12)

    return picture(left + 6 * step + 20, 240, "How a queue goes from one member to another", shapes())


PICTURES: dict[str, Callable[[], str]] = {
    "shares": _shares,
    "joining": _joining,
    "life": _life,
    "hand-over": _hand_over,
}
"""Each picture by the name of its file."""
