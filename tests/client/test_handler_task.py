"""What a worker tells of a chunk: every offset ends as done, failed, skipped or with somebody else."""

import asyncio
from collections.abc import Sequence
from decimal import InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group.actions import HandleMessages
from steelyard.balance.group.events import Handled
from steelyard.client.config import ClientConfig
from steelyard.client.consumer import handler_task as jobs
from steelyard.client.consumer.handler_task import HandlerTask, describe_error
from steelyard.client.consumer.handlers import Handler
from steelyard.client.consumer.received_message import DeliveryContext, ReceivedMessage
from steelyard.model import Queue
from steelyard.wire.limits import ERROR_BYTES

_QUEUE = Queue("orders", "broker-a", 0)
_WHY = "ValueError: bad"
_LOOP = asyncio.new_event_loop()
_LOOP.close()


def _job(count: int, *, orderly: bool = False, batch: int = 1, may_start: bool = True) -> HandlerTask:
    messages = [ReceivedMessage(_QUEUE, offset, b"%d" % offset) for offset in range(count)]
    offsets = list(range(count))
    delivery = DeliveryContext(_QUEUE, None, 0, _LOOP)
    handler = Handler("orders", print, orderly=orderly, batch=batch)
    handle = HandleMessages(_QUEUE, 3, offsets, messages, None)
    return HandlerTask("orders", handle, handler, offsets, messages, delivery, lambda *_: may_start)


def _work(job: HandlerTask, bad: Sequence[int] = (), later: Sequence[int] = ()) -> None:
    while job.start_next():
        offset = job.current.offset
        if offset in later:
            job.delivery.later[offset] = 1
        if offset in bad:
            job.raised(ValueError("bad"), _WHY)
        else:
            job.succeeded()


def test_what_goes_well_is_reported_in_one_word() -> None:
    job = _job(5)
    _work(job)
    assert job.results() == [Handled(_QUEUE, 3, [0, 1, 2, 3, 4])]
    assert len(job.took_ns) == 5


def test_a_failure_among_many_is_reported_and_the_others_are_done() -> None:
    job = _job(4)
    _work(job, bad=[1])
    assert job.results() == [Handled(_QUEUE, 3, [0, 2, 3], [1], errors={1: _WHY})]


def test_an_orderly_chunk_stops_at_the_first_failure() -> None:
    job = _job(4, orderly=True)
    _work(job, bad=[1])
    assert job.results() == [Handled(_QUEUE, 3, [0], [1], skipped=[2, 3], errors={1: _WHY})]


def test_an_orderly_chunk_stops_at_a_message_that_is_put_off() -> None:
    job = _job(4, orderly=True)
    _work(job, later=[1])
    assert job.results() == [
        Handled(_QUEUE, 3, [0], [], skipped=[2, 3]),
        Handled(_QUEUE, 3, (), (1,), delay_level=1, errors={1: "the handler called later()"}),
    ]


def test_nothing_is_begun_of_a_queue_that_went() -> None:
    job = _job(3, may_start=False)
    _work(job)
    assert job.results() == [Handled(_QUEUE, 3, [], skipped=[0, 1, 2])]


def test_a_list_fails_as_a_whole() -> None:
    job = _job(3, batch=8)
    assert job.start_all()
    job.raised(ValueError("bad"), _WHY)
    assert job.results() == [Handled(_QUEUE, 3, [], [0, 1, 2], errors=dict.fromkeys(range(3), _WHY))]


class _Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines\x1b[31m"), "ValueError: two lines [31m"),
        (InvalidOperation("no number"), "decimal.InvalidOperation: no number"),
        (_Odd(), f"{__name__}._Odd"),
        (ValueError("key shop-1, secret shop-1-hush"), "ValueError: key ***, secret ***"),
        (ValueError("\ud800 half a pair"), "ValueError: half a pair"),
    ],
)
def test_an_error_is_described_on_one_line_without_secrets(error: Exception, text: str) -> None:
    config = ClientConfig("a:1", access_key="shop-1", secret_key="shop-1-hush")
    assert describe_error(error, config.secrets) == text


def test_a_description_is_bounded() -> None:
    assert len(describe_error(ValueError("é" * 100_000)).encode()) <= ERROR_BYTES
    hidden = describe_error(ValueError("x" * (ERROR_BYTES - 16) + "s3cret"), ["s3cret"])
    assert "s3" not in hidden


def test_of_a_chunk_that_takes_long_others_take_the_rest() -> None:
    job = _job(4)
    assert job.start_next()
    assert not job.is_slow(job.begun_ns + jobs.SLOW_NS)
    assert job.is_slow(job.begun_ns + jobs.SLOW_NS + 1)
    assert [rest.offsets for rest in job.split_rest()] == [(1,), (2,), (3,)]
    job.succeeded()
    assert not job.start_next()
    assert job.results() == [Handled(_QUEUE, 3, [0])]


def test_an_orderly_chunk_is_never_shared() -> None:
    job = _job(4, orderly=True)
    assert job.start_next()
    assert not job.is_slow(job.begun_ns + 10 * jobs.SLOW_NS)


@given(
    st.integers(1, 20),
    st.sets(st.integers(0, 19)),
    st.sets(st.integers(0, 19)),
    st.booleans(),
    st.integers(0, 20),
)
def test_every_message_is_reported_once(
    count: int, bad: set[int], later: set[int], orderly: bool, slow_at: int
) -> None:
    job = _job(count, orderly=orderly)
    left: list[int] = []
    while job.start_next():
        offset = job.current.offset
        if offset in later:
            job.delivery.later[offset] = 2
        if offset == slow_at and not orderly:
            left += [offset for rest in job.split_rest() for offset in rest.offsets]
        if offset in bad:
            job.raised(ValueError("bad"), _WHY)
        else:
            job.succeeded()
    reported = [offset for each in job.results() for offset in (*each.done, *each.failed, *each.skipped)]
    assert sorted([*reported, *left]) == list(range(count))
