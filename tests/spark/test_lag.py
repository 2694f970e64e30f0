"""Lag: from the progress that Spark reports, per queue and in all."""

import json
import logging

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from steelyard.model import Queue
from steelyard.spark.lag import ProgressLog, lag
from steelyard.spark.stream_offset import StreamOffset

_Q0, _Q1 = Queue("orders", "a", 0), Queue("orders", "a", 1)
_IDS = {"id": "6b3d5ee0-0a5c-4d6f-9a8e-3b3f1d1c2a00", "runId": "6b3d5ee0-0a5c-4d6f-9a8e-3b3f1d1c2a01"}


def source(latest: object, end: object) -> dict[str, object]:
    """Return what Spark reports of one source."""
    numbers = {"numInputRows": 7, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 350.0}
    return {"description": "x", "startOffset": "null", "endOffset": end, "latestOffset": latest, **numbers}


def text(places: dict[Queue, int]) -> str:
    """Return an offset as Spark reports it."""
    return json.dumps(StreamOffset(places).encode())


def progress(*sources: dict[str, object]) -> StreamingQueryProgress:
    """Return what Spark reports of a batch."""
    return StreamingQueryProgress.fromJson(
        {
            **_IDS,
            "name": "archive",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "batchId": 4,
            "batchDuration": 20,
            "durationMs": {},
            "stateOperators": [],
            "sources": list(sources),
            "sink": {"description": "noop", "numOutputRows": 7},
            "numInputRows": 7,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 350.0,
        }
    )


def test_lag_is_what_is_there_and_in_no_batch_yet() -> None:
    found = lag(progress(source(text({_Q0: 10, _Q1: 9}), text({_Q0: 4, _Q1: 9}))))
    assert found.queues == {_Q0: 6, _Q1: 0}
    assert (found.total, found.most) == (6, _Q0)


def test_several_sources_add_up_and_those_of_others_count_nothing() -> None:
    ours = source(text({_Q0: 10}), text({_Q0: 4}))
    assert (
        lag(progress(ours, source('{"0": 5}', '{"0": 1}'), source("null", "null"), source("7", "[]"), ours)).total == 12
    )


def test_nothing_is_behind_before_the_first_batch_nor_ahead_of_the_end() -> None:
    assert lag(None).total == 0
    assert str(lag(None)) == "0 messages"
    assert lag(progress(source(text({_Q0: 3}), text({_Q0: 5})))).total == 0


def test_each_batch_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    listener = ProgressLog()
    with caplog.at_level(logging.INFO, "steelyard"):
        listener.onQueryProgress(QueryProgressEvent(progress(source(text({_Q0: 10}), text({_Q0: 4})))))
        ended_well = {**_IDS, "exception": None, "errorClassOnException": None}
        listener.onQueryTerminated(QueryTerminatedEvent.fromJson(ended_well))
    batch, ended = (record.getMessage() for record in caplog.records)
    assert (
        batch == "query archive: batch 4 has 7 rows in 20 ms (350 rows/s), lag: 6 messages, most of them in orders@a:0"
    )
    assert ended.endswith("ended")
