"""Records of the log to columns of Arrow: all rows at once, beside the client's own reader and Arrow row by row.

One process and its CPU time alone: no socket, no Spark. Bodies are of any bytes and of slightly different lengths, and
every message has five properties, as a producer of Java gives them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from time import process_time

import pyarrow as pa

from bench.table import Row
from steelyard.client.bulk.range_reader import RecordChunk
from steelyard.client.namespace import ClientNamespace
from steelyard.model import Queue
from steelyard.spark.decode import arrow_schema, decode, message_column
from steelyard.spark.schema import COLUMNS
from steelyard.wire.record import pack_record
from steelyard.wire.stored_messages import decode_messages

ROUNDS, TIMES = 15, 5.0
HOST = bytes.fromhex("7f00000100002a9f")
QUEUE = Queue("orders", "broker-a", 0)
SETS: dict[str, tuple[str, ...]] = {
    "12 columns": COLUMNS,
    "11 without map": COLUMNS[:-1],
    "7 columns": ("topic", "broker", "queue_id", "offset", "body", "born_at", "stored_at"),
    "7 as Kafka's": ("keys", "body", "topic", "broker", "queue_id", "offset", "stored_at"),
    "body and place": ("queue_id", "offset", "body"),
}
LIMITS_US = {
    (100, "12 columns"): 1.0,
    (100, "11 without map"): 0.9,
    (100, "7 columns"): 0.5,
    (100, "7 as Kafka's"): 0.6,
    (100, "body and place"): 0.3,
}
LONG_LIMIT_US = 1.2


def run() -> Iterator[Row]:
    """Measure each set of columns with short and with long bodies, in one answer and in many small ones."""
    for body_bytes, count in ((100, 5_000), (1_024, 3_000)):
        records = _records(body_bytes, count)
        for name, columns in SETS.items():
            for in_each in (count, 32):
                pieces = _pieces(records, in_each)
                assert decode(pieces, columns).equals(_one_by_one(pieces, columns))
                ours, beside = _side_by_side(partial(decode, pieces, columns), partial(_one_by_one, pieces, columns))
                limit_us = LIMITS_US.get((body_bytes, name), LONG_LIMIT_US)
                yield Row(
                    f"{name}, {body_bytes} B bodies, {in_each} in an answer",
                    f"{ours / count * 1e6:.2f} µs a row",
                    f"one by one: {beside / count * 1e6:.2f} µs",
                    f"{beside / ours:.1f}x",
                    f"≤ {limit_us} µs, ≥ {TIMES:.0f}x",
                    ours / count * 1e6 <= limit_us and beside / ours >= TIMES,
                )


def _records(body_bytes: int, count: int) -> list[bytes]:
    records, position, noise = [], 0, b"".join([sha256(b"%d" % number).digest() for number in range(1_000)])
    for offset in range(count):
        start, length = offset * 7 % 20_000, body_bytes + (offset * 7_919 % 41 - 20) * body_bytes // 100
        body = noise[start : start + length]
        properties = (
            f"KEYS\x01order-{offset % 1_000:04d}\x02TAGS\x01paid\x02UNIQ_KEY\x017F000001788F4E0E2F2A4C7DDF81"
            f"{offset:04X}\x02WAIT\x01true\x02region\x01eu-{offset % 9}\x02"
        )
        record = pack_record(
            QUEUE.topic.encode(),
            QUEUE.queue_id,
            offset,
            position,
            body,
            properties.encode(),
            born_ms=1_794_774_517_634 + offset,
            born_host=HOST,
            stored_ms=1_794_774_517_639 + offset,
            store_host=HOST,
        )
        position += len(record)
        records.append(record)
    return records


def _pieces(records: list[bytes], in_each: int) -> list[RecordChunk]:
    return [
        RecordChunk(QUEUE, start, start + in_each, b"".join(records[start : start + in_each]))
        for start in range(0, len(records), in_each)
    ]


def _one_by_one(pieces: list[RecordChunk], columns: tuple[str, ...]) -> pa.RecordBatch:
    """Read as a consumer does, and make a column of each list of values."""
    schema, names = arrow_schema(columns), ClientNamespace()
    read = [message for piece in pieces for message in decode_messages(piece.records, piece.queue.broker)]
    return pa.RecordBatch.from_arrays([message_column(read, field, names) for field in schema], schema=schema)


def _side_by_side(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Take turns, so that a busy machine is busy for both; return the best CPU time of each in seconds."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        best[0] = min(best[0], *[_time(ours) for _ in range(4)])
        best[1] = min(best[1], _time(theirs))
    return best[0], best[1]


def _time(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started
