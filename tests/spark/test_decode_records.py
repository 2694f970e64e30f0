import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import MalformedRecord
from steelyard.spark.decode_records import record_starts
from steelyard.wire.record import MIN_RECORD_BYTES
from tests.fuzzing import Dice
from tests.spark.column_values import record_of

_MAGIC = b"\xda\xa3\x20\xa7"


def _decode_all(records: list[bytes]) -> None:
    """Check that the starts are found, whatever lies behind the end."""
    data = b"".join(records)
    expected = np.cumsum([0, *map(len, records)])[:-1].tolist()
    for behind in (b"", b"\x00", b"".join(records)[:200]):
        assert record_starts(data + behind, len(data)).tolist() == expected


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 63, 64, 65, 500, 3_000])
def test_records_of_one_size_are_found(count: int) -> None:
    _decode_all([record_of(offset, b"same") for offset in range(count)])


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=4))
def test_runs_of_one_size_after_another_are_found(runs: list[tuple[int, int]]) -> None:
    _decode_all([record_of(0, bytes(size)) for size, count in runs for _ in range(count)])


@given(st.integers(0, 1 << 32), st.sampled_from([1, 30, 64, 65, 200, 700]), st.sampled_from([20, 300, 5_000]))
def test_records_of_many_sizes_are_found(seed: int, count: int, most_bytes: int) -> None:
    dice = Dice(seed)
    _decode_all([record_of(offset, dice.randbytes(dice.randint(0, most_bytes))) for offset in range(count)])


@given(st.integers(0, 1 << 32), st.sampled_from([0.01, 0.2, 1.0]))
def test_bodies_that_hold_the_magic_mislead_nobody(seed: int, share: float) -> None:
    dice = Dice(seed)
    fakes = [_MAGIC, _MAGIC * 9, record_of(7, b"inner"), record_of(7, b"inner" * 50)[:-1], bytes(3) + b"\x5b" + _MAGIC]
    records = []
    for offset in range(300):
        body = dice.randbytes(dice.randint(0, 90))
        records.append(record_of(offset, body + dice.choice(fakes) + body if dice.random() < share else body))
    _decode_all(records)


def test_a_long_record_before_and_among_many_short_ones_is_no_hindrance() -> None:
    long, short = record_of(0, bytes(100_000)), [record_of(n, bytes(n % 7)) for n in range(400)]
    _decode_all([long, *short])
    _decode_all([*short, long, *short])
    _decode_all([short[0], *[long] * 40, short[1]])


def test_long_topics_among_short_ones_are_no_hindrance() -> None:
    _decode_all([record_of(n, bytes(n % 11), topic=b"o" * (128 if n % 5 else 6)) for n in range(400)])


@given(st.integers(0, 1 << 32), st.sampled_from([40, 300]), st.booleans())
def test_a_size_that_leads_nowhere_is_damage(seed: int, count: int, is_even: bool) -> None:
    dice = Dice(seed)
    records = [record_of(n, bytes(10 if is_even else dice.randint(0, 40))) for n in range(count)]
    broken = dice.randrange(count)
    at, data = sum(map(len, records[:broken])), bytearray(b"".join(records))
    true_size = len(records[broken])
    wrong = dice.choice([0, 1, MIN_RECORD_BYTES - 1, true_size + 1, true_size - 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000])
    data[at : at + 4] = wrong.to_bytes(4, "big")
    try:
        starts = record_starts(data, len(data))
    except MalformedRecord:
        return
    # Nobody can know better where the sizes happen to lead to the end.
    sizes = [int.from_bytes(data[start : start + 4], "big") for start in starts]
    assert np.cumsum([0, *sizes]).tolist() == [*starts, len(data)]
