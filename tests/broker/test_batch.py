"""Sending many messages at once: all are stored or none, one after the other."""

import re

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.wire.batch import BatchItem, encode_batch
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2
from steelyard.wire.limits import BATCH_ITEMS, BROKER_BATCH_ITEMS
from tests.broker.broker_harness import BrokerHarness, message
from tests.golden_frames import golden_frames

_ITEMS = [BatchItem(n, b"body %d" % n, b"UNIQ_KEY\x01K%d\x02TAGS\x01T\x02" % n) for n in range(3)]


@pytest.mark.parametrize("code", [310, 320])
def test_items_get_offsets_in_a_row_and_an_id_each(code: int) -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties="UNIQ_KEY\x01first\x02"), b"first")
    answer = harness.request(code, message(properties="UNIQ_KEY\x01all\x02", batch=True), encode_batch(_ITEMS))
    fields = answer.header(SendMessageResponse)
    records = harness.queue("orders")[1:]
    assert [(record.flag, record.body, record.properties) for record in records] == [
        (item.flag, item.body, item.properties) for item in _ITEMS
    ]
    assert fields.msg_id == ",".join(f"7F00000100002A9F{record.position:016X}" for record in records)
    assert (fields.queue_id, fields.queue_offset, fields.transaction_id) == (0, 1, "all")
    assert (fields.msg_region, fields.trace_on) == ("DefaultRegion", "true")


def test_a_batch_of_4_9_has_no_id_of_its_own() -> None:
    fields = (
        BrokerHarness()
        .request(320, message(properties="WAIT\x01true", batch=True), encode_batch(_ITEMS))
        .header(SendMessageResponse)
    )
    assert fields.transaction_id is None


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_a_recorded_batch_is_taken(release: str) -> None:
    harness = BrokerHarness()
    golden = next(each for each in golden_frames() if (each.release, each.code) == (release, 320))
    (request,) = FrameDecoder().feed(golden.frame)
    answer = harness.request(320, request.texts(), request.body)
    assert answer.header(SendMessageResponse).msg_id.count(",") == 2
    assert len(harness.topic("LabTopic")) == 3


_BATCH = encode_batch(_ITEMS)
_REFUSED: list[tuple[SendMessageV2, bytes, int]] = [
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
def test_a_refused_batch_leaves_nothing_behind(header: SendMessageV2, body: bytes, code: int) -> None:
    harness = BrokerHarness()
    answer = harness.request(320, header, body)
    assert (answer.code, answer.texts()) == (code, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
    assert harness.state.store.queues() == []
    assert harness.state.topics.get(header.topic) is None or header.topic.startswith("SCHEDULE")


def test_a_batch_may_be_as_large_as_a_message() -> None:
    batch = encode_batch(_ITEMS)
    assert BrokerHarness(BrokerOptions(max_message_bytes=len(batch))).request(320, message(batch=True), batch).code == 0
    assert (
        BrokerHarness(BrokerOptions(max_message_bytes=len(batch) - 1)).request(320, message(batch=True), batch).code
        == 13
    )


@pytest.mark.parametrize("count", [BATCH_ITEMS + 1, BROKER_BATCH_ITEMS])
def test_a_batch_of_very_many_is_stored_whole_and_answered_with_all_ids(count: int) -> None:
    harness = BrokerHarness()
    one = encode_batch([BatchItem(0, b"x", b"")])
    answer = harness.request(320, message(batch=True), one * count)
    assert len(harness.queue("orders")) == count
    assert len(set(re.findall(rb"[0-9A-F]{32}", encode_frame(answer)))) == count
