"""Sending many messages at once: all are stored or none, one after the other."""

import re

import pytest
from tests.broker.desk import Desk, message
from tests.golden_frames import golden_frames

from steelyard.broker.options import BrokerOptions
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.frames import Splitter, encode_frame
from steelyard.wire.headers.send import SendAnswer, SendShort
from steelyard.wire.limits import BATCH_ITEMS, TAKEN_ITEMS

_ITEMS = [BatchItem(n, b"body %d" % n, b"UNIQ_KEY\x01K%d\x02TAGS\x01T\x02" % n) for n in range(3)]


@pytest.mark.parametrize("code", [310, 320])
def test_items_get_offsets_in_a_row_and_an_id_each(code: int) -> None:
    desk = Desk()
    desk.ask(310, message(properties="UNIQ_KEY\x01first\x02"), b"first")
    answer = desk.ask(code, message(properties="UNIQ_KEY\x01all\x02", batch=True), encode_batch(_ITEMS))
    fields = answer.header(SendAnswer)
    records = desk.queue("orders")[1:]
    assert [(record.flag, record.body, record.properties) for record in records] == [
        (item.flag, item.body, item.properties) for item in _ITEMS
    ]
    assert fields.msg_id == ",".join(f"7F00000100002A9F{record.position:016X}" for record in records)
    assert (fields.queue_id, fields.queue_offset, fields.transaction_id) == (0, 1, "all")
    assert (fields.msg_region, fields.trace_on) == ("DefaultRegion", "true")


def test_a_batch_of_4_9_has_no_id_of_its_own() -> None:
    fields = Desk().ask(320, message(properties="WAIT\x01true", batch=True), encode_batch(_ITEMS)).header(SendAnswer)
    assert fields.transaction_id is None


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_a_recorded_batch_is_taken(release: str) -> None:
    desk = Desk()
    golden = next(each for each in golden_frames() if (each.release, each.code) == (release, 320))
    (request,) = Splitter().feed(golden.frame)
    answer = desk.ask(320, request.texts(), request.body)
    assert answer.header(SendAnswer).msg_id.count(",") == 2
    assert len(desk.topic("LabTopic")) == 3


_BATCH = encode_batch(_ITEMS)
_REFUSED: list[tuple[SendShort, bytes, int]] = [
    (message(batch=True), b"", 13),
    (message(batch=True), _BATCH[:-1], 13),
    (message(batch=True), _BATCH + b"\0", 13),
    (message(batch=True), _BATCH[:3] + b"\xff" + _BATCH[4:], 13),
    (message("%RETRY%g", batch=True), _BATCH, 13),
    (message("SCHEDULE_TOPIC_XXXX", batch=True), _BATCH, 16),
    (message(batch=True, queue_id=9), _BATCH, 29),
    (message("bad name", batch=True), _BATCH, 29),
]


@pytest.mark.parametrize(("header", "body", "code"), _REFUSED)
def test_a_refused_batch_leaves_nothing_behind(header: SendShort, body: bytes, code: int) -> None:
    desk = Desk()
    answer = desk.ask(320, header, body)
    assert (answer.code, answer.texts()) == (code, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
    assert desk.state.store.queues() == []
    assert desk.state.topics.get(header.topic) is None or header.topic.startswith("SCHEDULE")


def test_a_batch_may_be_as_large_as_a_message() -> None:
    batch = encode_batch(_ITEMS)
    assert Desk(BrokerOptions(max_message_bytes=len(batch))).ask(320, message(batch=True), batch).code == 0
    assert Desk(BrokerOptions(max_message_bytes=len(batch) - 1)).ask(320, message(batch=True), batch).code == 13


@pytest.mark.parametrize("count", [BATCH_ITEMS + 1, TAKEN_ITEMS])
def test_a_batch_of_very_many_is_stored_whole_and_answered_with_all_ids(count: int) -> None:
    desk = Desk()
    one = encode_batch([BatchItem(0, b"x", b"")])
    answer = desk.ask(320, message(batch=True), one * count)
    assert len(desk.queue("orders")) == count
    assert len(set(re.findall(rb"[0-9A-F]{32}", encode_frame(answer)))) == count
