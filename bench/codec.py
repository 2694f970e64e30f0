"""Headers of the four hot commands, each way, in both header types, beside the standard library's json.

The other side does the same work: header bytes to a typed value and back, on the same header as JSON. For a binary
header, which the standard library cannot read, it is still JSON's time that stands beside it.
"""

import json
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from time import process_time
from typing import TypeVar

from bench.table import Row
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import RESPONSE, Command, decode_command, encode_header
from steelyard.wire.fields import Header, plan_of
from steelyard.wire.headers.pull import Pull, PullAnswer
from steelyard.wire.headers.send import SendAnswer, SendShort

__all__ = ["run"]

T = TypeVar("T")
U = TypeVar("U")
ROUNDS, REPEATS, DIFFERENT = 5_000, 15, 500
LIMIT_US, TIMES = 2.0, 3.0


def _send(n: int) -> Header:
    properties = f"UNIQ_KEY\x017F000001788F4E0E2F2A4C7DDF81{n:04X}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    born = 1_794_774_517_634 + n
    group, topic = "benchmark_producer", "BenchmarkTest"
    return SendShort(group, topic, "TBW102", 4, n % 8, 0, born, 0, properties, 0, False, None, False, "broker-a")


def _send_answer(n: int) -> Header:
    place, unique = f"7F0000010000A7A9{100 + n:016X}", f"7F000001788F4E0E2F2A4C7DDF81{n:04X}"
    return SendAnswer(place, n % 8, 1000 + n, unique, msg_region="DefaultRegion", trace_on="true")


def _pull(n: int) -> Header:
    group, topic, version = "benchmark_consumer", "BenchmarkTest", 1_794_774_517_634
    return Pull(group, topic, n % 8, 1000 + n, 32, 3, 1000 + n, 15_000, version, "*", "TAG", 262_144, broker="broker-a")


def _pull_answer(n: int) -> Header:
    return PullAnswer(0, 1032 + n, 0, 5000 + n, None, 0, 0)


HOT: tuple[tuple[str, Callable[[int], Header], Command], ...] = (
    ("send", _send, Command(310)),
    ("send answer", _send_answer, Command(0, flag=RESPONSE)),
    ("pull", _pull, Command(11)),
    ("pull answer", _pull_answer, Command(0, flag=RESPONSE, remark="FOUND")),
)


def run() -> Iterator[Row]:
    """Measure every hot header both ways."""
    for name, make, model in HOT:
        for header_type in HeaderType:
            yield from _rows(name, make, model, header_type)


def _rows(name: str, make: Callable[[int], Header], model: Command, header_type: HeaderType) -> Iterator[Row]:
    flag, remark = model.flag, model.remark
    headers = [make(n) for n in range(DIFFERENT)]
    kind = type(headers[0])
    commands = [Command(model.code, h, b"", n, flag, remark, header_type=header_type) for n, h in enumerate(headers)]
    written = [encode_header(command) for command in commands]
    as_json = [encode_header(Command(model.code, h, b"", n, flag, remark)) for n, h in enumerate(headers)]
    read_json, write_json = _json_reader(kind), _json_writer(kind)
    for raw, text, header in zip(written, as_json, headers, strict=True):
        assert decode_command(header_type, raw, b"").header(kind) == header == read_json(text)
        same = encode_header(Command(model.code, header, flag=flag, remark=remark))
        assert write_json(header, model).encode() == same
    ours_read, json_read = _side_by_side(
        lambda raw: decode_command(header_type, raw, b"").header(kind), written, read_json, as_json
    )
    ours_write, json_write = _side_by_side(encode_header, commands, lambda header: write_json(header, model), headers)
    for way, ours, beside in (("read", ours_read, json_read), ("write", ours_write, json_write)):
        yield Row(
            f"{name}, {header_type.name}, {way}",
            f"{ours:.2f} µs",
            f"json {beside:.2f} µs",
            f"{beside / ours:.1f}x",
            f"<= {LIMIT_US:.0f} µs, >= {TIMES:.0f}x",
            ours <= LIMIT_US and beside / ours >= TIMES,
        )


def _json_reader(kind: type[Header]) -> Callable[[bytes], Header]:
    """Read a header as a careful programmer would with the standard library: parse, then convert by name."""
    plan = plan_of(kind)
    fields = list(zip(plan.attributes, plan.names, plan.types, strict=True))
    loads = json.loads

    def read(header: bytes) -> Header:
        parsed = loads(header)
        _meta = parsed["code"], parsed["opaque"], parsed["flag"], parsed["version"], parsed["language"]
        texts = parsed["extFields"]
        values: dict[str, object] = {}
        for attribute, name, wanted in fields:
            text = texts.get(name)
            if text is not None:
                values[attribute] = text if wanted is str else int(text) if wanted is int else text == "true"
        return kind(**values)

    return read


def _json_writer(kind: type[Header]) -> Callable[[Header, Command], str]:
    names = plan_of(kind).names
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

    def write(header: Header, model: Command) -> str:
        fields = {name: text for name, text in zip(names, header.texts(), strict=True) if text}
        whole: dict[str, object] = {"code": model.code, "extFields": fields, "flag": model.flag, "language": "PYTHON"}
        whole["opaque"] = 0
        if model.remark is not None:
            whole["remark"] = model.remark
        whole["version"] = 479
        return encode(whole)

    return write


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
