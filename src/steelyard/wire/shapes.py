"""A short cut for binary headers that repeat, which all hot ones do.

Python has no C decoder for the ROCKETMQ header type, and Java's benchmarks speak nothing else. But headers of one kind
and one length repeat almost word for word: only a few values change. So the reader learns. A shape remembers the
bytes that have been the same so far and where the changing values lie. When the remembered bytes match, the parse is
exact: they hold every name and every length. Then only the changing values are converted. When they don't match, the
header is read the plain way, and what differed counts as changing from then on.

What is remembered is bounded, and never changes a result: a test compares both ways on any header.
"""

from collections.abc import Callable, Iterator
from struct import Struct as Layout
from typing import Any, Generic, NamedTuple, TypeAlias

from msgspec.structs import astuple

from steelyard.wire.binary_header import Cell, cells_of, texts_from_binary
from steelyard.wire.fields import H, Header, Plan, from_texts, plan_of

__all__ = ["from_binary"]

# How many (kind, length) pairs are remembered, and how many shapes for each: two headers can have one length and still
# differ in shape, when one number is longer and another shorter. A shape keeps its bytes about three times, so only
# headers of an ordinary length have one: together they never take more than some 30 MiB, whatever peers send.
_PAIRS = 1024
_SHAPES = 4
_LEARNT_BYTES = 2048


_Fill: TypeAlias = Callable[[list[Any], tuple[bytes, ...]], None]
"""Converts the changing cells, every second one, and puts them among the arguments."""


class _Shape(NamedTuple, Generic[H]):
    """Packed fields of one kind and length: what never changed so far, and where the rest lies."""

    take_apart: Callable[[bytes], tuple[Any, ...]]
    """Into: same bytes, a changing value, same bytes, … , same bytes."""
    same: tuple[bytes, ...]
    fill: _Fill
    """Puts the changing values among the arguments."""
    arguments: list[Any]
    """All arguments by position, as they were when this was learnt."""
    named: dict[str, Any]
    """Arguments that are given by name and differ from their default."""
    packed: bytes
    """The fields that it was learnt from, to see what differs next time."""
    changing: frozenset[int]
    """The numbers of the changing cells."""


_shapes: dict[tuple[type[Header], int], tuple[_Shape[Any], ...]] = {}


_EVERY_OTHER = slice(0, None, 2)


def from_binary(kind: type[H], packed: bytes) -> H:
    """Read a typed header from the packed fields of a binary header."""
    known = _shapes.get((kind, len(packed)), ())
    for take_apart, same, fill, arguments, named, _, _ in known:
        cells = take_apart(packed)
        if cells[_EVERY_OTHER] == same:
            now = arguments.copy()
            try:
                fill(now, cells)
            except ValueError:
                break  # not a number, or not UTF-8: the plain way tells
            return kind(*now, **named)
    header = from_texts(kind, texts_from_binary(packed))
    if len(packed) <= _LEARNT_BYTES:
        _learn(plan_of(kind), packed, header, known)
    return header


def _learn(plan: Plan[H], packed: bytes, header: H, known: tuple[_Shape[H], ...]) -> None:
    """Remember the shape of these fields: a new one, or one of the known with more that changes."""
    cells = list(cells_of(packed))
    relative = next((shape for shape in known if _same_cells(packed, shape.packed, cells)), None)
    changing = frozenset(
        number
        for number, cell in enumerate(cells)
        if relative is not None
        and (number in relative.changing or packed[cell.start : cell.end] != relative.packed[cell.start : cell.end])
    )
    shape = _shape(plan, packed, header, cells, changing)
    if shape is None:
        return
    if len(_shapes) >= _PAIRS:
        _shapes.clear()  # rare and harmless: what is still in use is learnt again
    rest = (other for other in known if other is not relative)
    _shapes[plan.kind, len(packed)] = (shape, *rest)[:_SHAPES]


def _same_cells(packed: bytes, other: bytes, cells: list[Cell]) -> bool:
    """Say whether both have the same names and lengths at the same places."""
    return all(packed[start:end] == other[start:end] for start, end in _gaps(cells, len(packed)))


def _gaps(cells: list[Cell], total: int) -> Iterator[tuple[int, int]]:
    start = 0
    for cell in cells:
        yield start, cell.start
        start = cell.end
    yield start, total


def _shape(plan: Plan[H], packed: bytes, header: H, cells: list[Cell], changing: frozenset[int]) -> _Shape[H] | None:
    """Lay out the fields; None where the short cut could not be exact."""
    found = [packed[cell.key_start : cell.key_end].decode() for cell in cells]
    if len(set(found)) < len(found) or not all(found[number] in plan.names for number in changing):
        return None
    moving = [cells[number] for number in sorted(changing)]
    places = [plan.names.index(found[number]) for number in sorted(changing)]
    positional = len(plan.kind.__match_args__)
    for cell, place in zip(moving, places, strict=True):
        too_long = plan.types[place] is int and cell.end - cell.start > plan.digits[place]
        if plan.types[place] is bool or too_long or place >= positional:
            return None
    gaps = list(_gaps(moving, len(packed)))
    pieces = [f"{gaps[0][1]}s"]
    for cell, (start, end) in zip(moving, gaps[1:], strict=True):
        pieces.append(f"{cell.end - cell.start}s{end - start}s")
    values = astuple(header)
    rest = list(zip(plan.attributes, values, plan.defaults, strict=True))[positional:]
    return _Shape(
        Layout("".join(pieces)).unpack,
        same=tuple(packed[start:end] for start, end in gaps),
        fill=_filler(places, [int if plan.types[place] is int else bytes.decode for place in places]),
        arguments=list(values[:positional]),
        named={name: value for name, value, default in rest if value != default},
        packed=packed,
        changing=changing,
    )


def _filler(places: list[int], convert: list[Callable[[bytes], object]]) -> _Fill:
    """Return what fills in so many values. Up to four are written out: a loop would cost more than the work in it."""
    a, b, c, d = (*places, 0, 0, 0, 0)[:4]
    padded: list[Callable[[bytes], object]] = [*convert, int, int, int, int]
    f, g, h, i = padded[:4]

    def none(now: list[Any], cells: tuple[bytes, ...]) -> None: ...

    def one(now: list[Any], cells: tuple[bytes, ...]) -> None:
        now[a] = f(cells[1])

    def two(now: list[Any], cells: tuple[bytes, ...]) -> None:
        now[a] = f(cells[1])
        now[b] = g(cells[3])

    def three(now: list[Any], cells: tuple[bytes, ...]) -> None:
        now[a] = f(cells[1])
        now[b] = g(cells[3])
        now[c] = h(cells[5])

    def four(now: list[Any], cells: tuple[bytes, ...]) -> None:
        now[a] = f(cells[1])
        now[b] = g(cells[3])
        now[c] = h(cells[5])
        now[d] = i(cells[7])

    def more(now: list[Any], cells: tuple[bytes, ...]) -> None:
        for place, make, cell in zip(places, convert, cells[1::2], strict=True):
            now[place] = make(cell)

    return (none, one, two, three, four)[len(places)] if len(places) <= 4 else more
