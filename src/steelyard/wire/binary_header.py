"""The ROCKETMQ header type: fixed fields, a remark, then names and values with their lengths.

An empty value counts as absent. Codes beyond 16 bits cannot be encoded: use JSON for those.

Headers of one class and one length repeat almost word for word, so the decoder learns layouts: the bytes that have been
the same so far, and where the variable values are. If the constant bytes match, which hold every name and every length,
only the variable values are converted; else the header is decoded field by field, and what differed counts as variable.
"""

from collections.abc import Callable, Iterable, Iterator
from struct import Struct as Layout
from struct import error as layout_error
from typing import Any, Generic, NamedTuple, TypeAlias

from msgspec.structs import astuple

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedHeader
from steelyard.wire import limits
from steelyard.wire.codes import LANGUAGES
from steelyard.wire.header_codec import H, Header, HeaderLayout, header_from_texts, header_layout

_FIXED = Layout(">hbhiii")
_FIXED_WITHOUT_REMARK = Layout(">hbhiiii")
_INT16 = Layout(">h")
_INT32 = Layout(">i")
_FIXED_HEADER_BYTES = _FIXED_WITHOUT_REMARK.size
"""A header without remark and fields."""

_LANGUAGE_NAME = dict(enumerate(LANGUAGES))
_LANGUAGE_NUMBER = {name: number for number, name in enumerate(LANGUAGES)}
# In errors of this part, bytes count from the first field.
_FIELDS_PART = "binary header fields"
# How many sets of lengths are cached for one header class.
_MAX_TEMPLATES = 512
_OTHER_LANGUAGE = _LANGUAGE_NUMBER["OTHER"]


def decode_binary_header(header: bytes) -> tuple[int, str, int, int, int, str | None, bytes]:
    """Return code, language, version, opaque, flag, remark, and the packed fields of a header."""
    if len(header) < _FIXED_HEADER_BYTES:
        raise MalformedHeader(
            f"it has {len(header)} bytes, at least {_FIXED_HEADER_BYTES} are needed", where="binary header"
        )
    code, language, version, opaque, flag, remark_bytes, ext_bytes = _FIXED_WITHOUT_REMARK.unpack_from(header)
    start = _FIXED_HEADER_BYTES
    remark = None
    if remark_bytes:
        if not 0 < remark_bytes <= len(header) - _FIXED_HEADER_BYTES:
            raise MalformedHeader(f"the remark's length is {remark_bytes}", where="binary header", at=13)
        start += remark_bytes
        (ext_bytes,) = _INT32.unpack_from(header, start - 4)
        remark = _decode_utf8(header[_FIXED.size : start - 4], "the remark", "binary header", _FIXED.size)
    if ext_bytes != len(header) - start:
        raise MalformedHeader(
            f"the fields' length is {ext_bytes}, {len(header) - start} bytes are left",
            where="binary header",
            at=start - 4,
        )
    return code, _LANGUAGE_NAME.get(language, "OTHER"), version, opaque, flag, remark, header[start:]


def encode_binary_header(
    code: int, language: str, version: int, opaque: int, flag: int, remark: str | None, fields: bytes
) -> bytes:
    """Encode a header; ``fields`` are packed already."""
    number = _LANGUAGE_NUMBER.get(language, _OTHER_LANGUAGE)
    try:
        if not remark:
            return _FIXED_WITHOUT_REMARK.pack(code, number, version, opaque, flag, 0, len(fields)) + fields
        text = remark.encode()
        return b"".join(
            (_FIXED.pack(code, number, version, opaque, flag, len(text)), text, _INT32.pack(len(fields)), fields)
        )
    except layout_error:
        raise ConfigurationError(
            f"code {code}, version {version}, opaque {opaque} and flag {flag} do not fit a binary header, which has "
            "16 bits for the first two and 32 for the others",
            next_step="send this request with a JSON header",
        ) from None


def pack_fields(named: Iterable[tuple[str, str]]) -> bytes:
    """Pack names and texts; an empty text is left out, since it would arrive as absent."""
    parts: list[bytes] = []
    for name, text in named:
        if text:
            key, value = name.encode(), text.encode()
            if len(key) > 0x7FFF:  # its length has 16 bits
                raise LimitExceeded(
                    f"the name of the field {name[:32]}…", where="header", limit=limits.KEY_BYTES, found=len(key)
                )
            parts += (_INT16.pack(len(key)), key, _INT32.pack(len(value)), value)
    return b"".join(parts)


def pack_header(header: Header) -> bytes:
    """Pack a typed header's fields.

    Headers whose texts have the same lengths differ only in the texts, so everything between them is cached.
    """
    if (by_hand := header.packed()) is not None:
        return by_hand
    layout = header_layout(type(header))
    texts = header.texts()
    if not "".join(texts).isascii():
        return pack_fields(zip(layout.names, texts, strict=True))
    template = layout.binary_templates.get(tuple(map(len, texts))) or _make_template(layout, texts)
    cells = template.copy()
    cells[1::2] = filter(None, texts)
    return "".join(cells).encode("latin-1")


def _make_template(layout: HeaderLayout[H], texts: tuple[str, ...]) -> list[str]:
    """List what precedes each text (name and lengths), with places for the texts; one character per byte."""
    if len(layout.binary_templates) >= _MAX_TEMPLATES:
        layout.binary_templates.clear()  # rare and harmless: those in use are made again
    template: list[str] = []
    for name, text in zip(layout.names, texts, strict=True):
        if text:
            head = _INT16.pack(len(name)) + name.encode("ascii") + _INT32.pack(len(text))
            template += (head.decode("latin-1"), "")
    layout.binary_templates[tuple(map(len, texts))] = template
    return template


def texts_from_binary(packed: bytes) -> dict[str, str]:
    """Decode packed fields as texts, in their order."""
    return {
        _decode_utf8(packed[cell.key_start : cell.key_end], "a name", _FIELDS_PART, cell.key_start): _decode_utf8(
            packed[cell.start : cell.end], "a value", _FIELDS_PART, cell.start
        )
        for cell in _iter_field_spans(packed)
        if cell.end > cell.start
    }


def _decode_utf8(raw: bytes, what: str, where: str, at: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedHeader(f"{what} is not UTF-8 ({error.reason})", where=where, at=at + error.start) from None


class _FieldSpan(NamedTuple):
    """The positions of a field's name and value."""

    key_start: int
    key_end: int
    start: int
    end: int


def _iter_field_spans(packed: bytes) -> Iterator[_FieldSpan]:
    """Yield the spans of packed fields; every length is checked before it is used."""
    at, end, count = 0, len(packed), 0
    while at < end:
        count += 1
        if count > limits.HEADER_FIELDS:
            raise LimitExceeded("the number of fields", where=_FIELDS_PART, limit=limits.HEADER_FIELDS, at=at)
        if end - at < 2:
            raise MalformedHeader("the fields end within a length", where=_FIELDS_PART, at=at)
        (key_bytes,) = _INT16.unpack_from(packed, at)
        key_end = at + 2 + key_bytes
        if key_bytes < 0 or key_end + 4 > end:
            raise MalformedHeader(f"a name's length is {key_bytes}", where=_FIELDS_PART, at=at)
        if key_bytes > limits.KEY_BYTES:
            raise LimitExceeded("a name", where=_FIELDS_PART, limit=limits.KEY_BYTES, found=key_bytes, at=at)
        (value_bytes,) = _INT32.unpack_from(packed, key_end)
        value_end = key_end + 4 + value_bytes
        if value_bytes < 0 or value_end > end:
            raise MalformedHeader(f"a value's length is {value_bytes}", where=_FIELDS_PART, at=key_end)
        if value_bytes > limits.VALUE_BYTES:
            raise LimitExceeded("a value", where=_FIELDS_PART, limit=limits.VALUE_BYTES, found=value_bytes, at=key_end)
        yield _FieldSpan(at + 2, key_end, key_end + 4, value_end)
        at = value_end


# How many (class, length) pairs are cached, and how many layouts for each: headers of one length can have different
# layouts, if one number is longer and another shorter. A layout keeps its bytes about three times, so only headers of
# an ordinary length have one: all together never take more than some 30 MiB, whatever peers send.
_MAX_LAYOUT_KEYS = 1024
_MAX_LAYOUTS_PER_KEY = 4
_MAX_LEARNED_BYTES = 2048


_Fill: TypeAlias = Callable[[list[Any], tuple[bytes, ...]], None]
"""Converts the variable cells, every second one, and puts them among the arguments."""


class _LearnedLayout(NamedTuple, Generic[H]):
    """Packed fields of one class and length: what never changed so far, and where the rest is."""

    unpack: Callable[[bytes], tuple[Any, ...]]
    """Into: constant bytes, a variable value, constant bytes, … , constant bytes."""
    constant_parts: tuple[bytes, ...]
    fill: _Fill
    """Puts the variable values among the arguments."""
    arguments: list[Any]
    """All positional arguments, as they were when this was learned."""
    keyword_arguments: dict[str, Any]
    """Keyword arguments that differ from their default."""
    packed: bytes
    """The fields that it was learned from, to find what differs next time."""
    variable_fields: frozenset[int]
    """The indexes of the variable fields."""


_learned_layouts: dict[tuple[type[Header], int], tuple[_LearnedLayout[Any], ...]] = {}


_CONSTANT_PARTS = slice(0, None, 2)


def header_from_binary(kind: type[H], packed: bytes) -> H:
    """Decode a typed header from the packed fields of a binary header."""
    known = _learned_layouts.get((kind, len(packed)), ())
    for unpack, constant_parts, fill, arguments, named, _, _ in known:
        cells = unpack(packed)
        if cells[_CONSTANT_PARTS] == constant_parts:
            now = arguments.copy()
            try:
                fill(now, cells)
            except ValueError:
                break  # not a number, or not UTF-8: the slow way says which
            return kind(*now, **named)
    header = header_from_texts(kind, texts_from_binary(packed))
    if len(packed) <= _MAX_LEARNED_BYTES:
        _learn_layout(header_layout(kind), packed, header, known)
    return header


def _learn_layout(layout: HeaderLayout[H], packed: bytes, header: H, known: tuple[_LearnedLayout[H], ...]) -> None:
    """Learn the layout of these fields: a new one, or a known one with more variable fields."""
    cells = list(_iter_field_spans(packed))
    gaps = list(_gaps_between(cells, len(packed)))
    # A known one with the same names and lengths at the same positions.
    alike = (shape for shape in known if all(packed[start:end] == shape.packed[start:end] for start, end in gaps))
    relative = next(alike, None)
    changing = frozenset(
        number
        for number, cell in enumerate(cells)
        if relative is not None
        and (
            number in relative.variable_fields
            or packed[cell.start : cell.end] != relative.packed[cell.start : cell.end]
        )
    )
    shape = _build_layout(layout, packed, header, cells, changing)
    if shape is None:
        return
    if len(_learned_layouts) >= _MAX_LAYOUT_KEYS:
        _learned_layouts.clear()  # rare and harmless: those in use are learned again
    rest = (other for other in known if other is not relative)
    _learned_layouts[layout.kind, len(packed)] = (shape, *rest)[:_MAX_LAYOUTS_PER_KEY]


def _gaps_between(cells: list[_FieldSpan], total: int) -> Iterator[tuple[int, int]]:
    start = 0
    for cell in cells:
        yield start, cell.start
        start = cell.end
    yield start, total


def _build_layout(
    layout: HeaderLayout[H], packed: bytes, header: H, cells: list[_FieldSpan], changing: frozenset[int]
) -> _LearnedLayout[H] | None:
    """Build a learned layout; None if it could not be exact."""
    found = [packed[cell.key_start : cell.key_end].decode() for cell in cells]
    if len(set(found)) < len(found) or not all(found[number] in layout.names for number in changing):
        return None
    moving = [cells[number] for number in sorted(changing)]
    places = [layout.names.index(found[number]) for number in sorted(changing)]
    positional = len(layout.kind.__match_args__)
    for cell, place in zip(moving, places, strict=True):
        too_long = layout.types[place] is int and cell.end - cell.start > layout.safe_digits[place]
        if layout.types[place] is bool or too_long or place >= positional:
            return None
    gaps = list(_gaps_between(moving, len(packed)))
    pieces = [f"{gaps[0][1]}s"]
    for cell, (start, end) in zip(moving, gaps[1:], strict=True):
        pieces.append(f"{cell.end - cell.start}s{end - start}s")
    values = astuple(header)
    rest = list(zip(layout.attributes, values, layout.defaults, strict=True))[positional:]
    return _LearnedLayout(
        Layout("".join(pieces)).unpack,
        constant_parts=tuple(packed[start:end] for start, end in gaps),
        fill=_make_filler(places, [int if layout.types[place] is int else bytes.decode for place in places]),
        arguments=list(values[:positional]),
        keyword_arguments={name: value for name, value, default in rest if value != default},
        packed=packed,
        variable_fields=changing,
    )


def _make_filler(places: list[int], convert: list[Callable[[bytes], object]]) -> _Fill:
    """Return a function that converts the variable values; up to four without a loop, which would cost more."""
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
