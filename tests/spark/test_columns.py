from itertools import islice

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.column_values import ALL, as_read, pieces, record_of

from steelyard.client.bulk.reading import Piece
from steelyard.spark.columns import decode


@given(pieces())
def test_any_records_are_read_as_a_consumer_reads_them(some: list[Piece]) -> None:
    batch = decode(some, ALL)
    batch.validate(full=True)
    assert batch.to_pydict() == as_read(some, ALL)
