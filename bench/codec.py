"""Headers of the four hot commands, each way, in both header types: header bytes to a typed value and back.

Beside a JSON header stands the standard library's json doing the same work on the same header. It cannot read binary
headers; beside those stands the plain way, field by field.
"""

import json
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from time import process_time
from typing import TypeVar

from bench.table import Row
from steelyard.wire.binary_header import decode_binary_header, encode_binary_header, pack_fields, texts_from_binary
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import RESPONSE_FLAG, Command, decode_command, encode_header
from steelyard.wire.header_codec import Header, header_from_texts, header_layout
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2

T = TypeVar("T")
U = TypeVar("U")
ROUNDS, REPEATS, DIFFERENT = 5_000, 15, 500
LIMIT_US, TIMES = 2.0, 3.0


def _send(n: int) -> Header:
    properties = f"UNIQ_KEY\x017F000001788F4E0E2F2A4C7DDF81{n:04X}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    born = 1_794_774_517_634 + n
    group, topic = "benchmark_producer", "BenchmarkTest"
    return SendMessageV2(group, topic, "TBW102", 4, n % 8, 0, born, 0, properties, 0, False, None, False, "broker-a")


def _send_answer(n: int) -> Header:
    place, unique = f"7F0000010000A7A9{100 + n:016X}", f"7F000001788F4E0E2F2A4C7DDF81{n:04X}"
    return SendMessageResponse(place, n % 8, 1000 + n, unique, msg_region="DefaultRegion", trace_on="true")


def _pull(n: int) -> Header:
    group, topic, version = "benchmark_consumer", "BenchmarkTest", 1_794_774_517_634
    return PullMessage(
        group, topic, n % 8, 1000 + n, 32, 3, 1000 + n, 15_000, version, "*", "TAG", 262_144, broker="broker-a"
    )


def _pull_answer(n: int) -> Header:
    return PullMessageResponse(0, 1032 + n, 0, 5000 + n, None, 0, 0)


HOT: tuple[tuple[str, Callable[[int], Header], Command], ...] = (
    ("send", _send, Command(310)),
    ("send answer", _send_answer, Command(0, flag=RESPONSE_FLAG)),
    ("pull", _pull, Command(11)),
    ("pull answer", _pull_answer, Command(0, flag=RESPONSE_FLAG, remark="FOUND")),
)


def run() -> Iterator[Row]:
    """Measure every hot header both ways."""
    for name, make, model in HOT:
        for header_type in HeaderType:
            yield from _rows(name, make, model, header_type)


def _rows(name: str, make: Callable[[int], Header], model: Command, header_type: HeaderType) -> Iterator[Row]:
    headers = [make(n) for n in range(DIFFERENT)]
    kind = type(headers[0])
    commands = [
        Command(model.code, header, b"", 7, model.flag, model.remark, header_type=header_type) for header in headers
    ]
    written = [encode_header(command) for command in commands]
    other = _Json(kind, model) if header_type is HeaderType.JSON else _FieldByField(kind, model)
    for raw, header in zip(written, headers, strict=True):
        assert decode_command(header_type, raw, b"").header(kind) == header == other.read(raw)
        assert other.read(other.write(header)) == header
    reading = _side_by_side(
        lambda raw: decode_command(header_type, raw, b"").header(kind), written, other.read, written
    )
    writing = _side_by_side(encode_header, commands, other.write, headers)
    times = TIMES if header_type is HeaderType.JSON else 1.0
    for way, (ours, beside) in (("read", reading), ("write", writing)):
        yield Row(
            f"{name}, {header_type.name} header, {way}",
            f"{ours:.2f} µs",
            f"{other.name}: {beside:.2f} µs",
            f"{beside / ours:.1f}x",
            f"≤ {LIMIT_US:.0f} µs, ≥ {times:.0f}x",
            ours <= LIMIT_US and beside / ours >= times,
        )


class _Json:
    """The standard library's json, used as a careful programmer would: parse, then convert by name."""

    name = "json"

    def __init__(self, kind: type[Header], model: Command) -> None:
        plan = header_layout(kind)
        self.kind, self.model, self.names = kind, model, plan.names
        self.fields = list(zip(plan.attributes, plan.names, plan.types, strict=True))
        self.encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

    def read(self, header: bytes) -> Header:
        parsed = json.loads(header)
        Command(parsed["code"], b"", b"", parsed["opaque"], parsed["flag"], parsed.get("remark"), parsed["version"])
        texts = parsed["extFields"]
        values = {}
        for attribute, name, wanted in self.fields:
            text = texts.get(name)
            if text is not None:
                values[attribute] = text if wanted is str else int(text) if wanted is int else text == "true"
        return self.kind(**values)

    def write(self, header: Header) -> bytes:
        fields = {name: text for name, text in zip(self.names, header.texts(), strict=True) if text}
        model = self.model
        whole = {"code": model.code, "extFields": fields, "flag": model.flag, "language": "PYTHON", "opaque": 7}
        if model.remark is not None:
            whole["remark"] = model.remark
        whole["version"] = model.version
        return self.encode(whole).encode()


class _FieldByField:
    """A binary header, read and written with the struct module one field after the other."""

    name = "field by field"

    def __init__(self, kind: type[Header], model: Command) -> None:
        self.kind, self.model, self.names = kind, model, header_layout(kind).names

    def read(self, header: bytes) -> Header:
        code, language, version, opaque, flag, remark, packed = decode_binary_header(header)
        Command(code, packed, b"", opaque, flag, remark, version, language)
        return header_from_texts(self.kind, texts_from_binary(packed))

    def write(self, header: Header) -> bytes:
        packed = pack_fields(zip(self.names, header.texts(), strict=True))
        return encode_binary_header(
            self.model.code, "PYTHON", self.model.version, 7, self.model.flag, self.model.remark, packed
        )


def _side_by_side(
    ours: Callable[[T], object], mine: list[T], theirs: Callable[[U], object], yours: list[U]
) -> tuple[float, float]:
    """Take turns, so that a busy machine is busy for both; return the best CPU time of each in µs a call."""
    best = [float("inf"), float("inf")]
    for _ in range(REPEATS):
        best[0] = min(best[0], _time(ours, mine))
        best[1] = min(best[1], _time(theirs, yours))
    return best[0], best[1]


def _time(work: Callable[[T], object], inputs: list[T]) -> float:
    arguments = list(islice(cycle(inputs), ROUNDS))
    started = process_time()
    for argument in arguments:
        work(argument)
    return (process_time() - started) / ROUNDS * 1e6
