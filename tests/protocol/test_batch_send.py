"""Messages that go together keep their order and their ids, and fit into what a broker takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, MalformedHeader, ServerBusy
from steelyard.model import Message, Queue
from steelyard.protocol.batch_send import MAX_BATCH_MESSAGES, batch_request, group_into_batches, read_batch_receipts
from steelyard.wire.batch import decode_batch
from steelyard.wire.command import Command, response_to
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.limits import VALUE_BYTES
from steelyard.wire.properties import decode_properties
from steelyard.wire.stored_messages import record_to_message
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import make_topic
from tests.protocol.frames import RELEASES, recorded, store, travelled

QUEUE = Queue("orders", "broker-0", 1)

messages = st.builds(
    Message,
    st.sampled_from(["orders", "audit", "%RETRY%billing"]),
    st.binary(max_size=200),
    tags=st.none() | st.sampled_from(["paid", "größe"]),
    keys=st.lists(st.sampled_from(["a", "schlüssel"]), max_size=3),
    properties=st.dictionaries(st.sampled_from(["x", "ö", "long-name"]), st.sampled_from(["1", "漢字" * 9])),
)


def keys_of(many: int) -> list[str]:
    return [f"{number:056X}" for number in range(many)]


def batch(some: list[Message], topic: str = "orders") -> Command:
    queue = Queue(topic, "broker-0", 1)
    return batch_request("shop", some, queue, unique_keys=keys_of(len(some)), now_ms=START_MS)


@given(st.lists(messages, max_size=40), st.integers(100, 2_000), st.integers(1, 8))
def test_packing_keeps_every_message_once_in_order_and_within_the_bounds(
    some: list[Message], most_bytes: int, most_messages: int
) -> None:
    groups = group_into_batches(some, max_bytes=most_bytes, max_messages=most_messages)
    assert sorted(place for group in groups for place in group) == list(range(len(some)))
    for topic in {message.topic for message in some}:
        places = [place for group in groups for place in group if some[place].topic == topic]
        assert places == sorted(places)
    for group in groups:
        packed = [some[place] for place in group]
        assert 1 <= len(group) <= most_messages
        assert len({message.topic for message in packed}) == 1
        if len(group) > 1:
            assert len(batch(packed, packed[0].topic).body) <= most_bytes


def test_packing_leaves_no_two_groups_that_could_be_one() -> None:
    some = [Message("orders", b"x" * 100) for _ in range(10)]
    one = len(batch(some[:1]).body)
    assert [len(group) for group in group_into_batches(some, max_bytes=5 * one)] == [4, 4, 2]
    assert [len(group) for group in group_into_batches([Message("orders", b"")] * 1_000)] == [
        MAX_BATCH_MESSAGES,
        1_000 - MAX_BATCH_MESSAGES,
    ]


def test_the_answer_to_a_full_batch_fits_into_a_header() -> None:
    assert MAX_BATCH_MESSAGES * len("0" * 56 + ",") <= VALUE_BYTES


@pytest.mark.parametrize("release", RELEASES)
def test_a_batch_is_written_as_java_writes_it(release: str) -> None:
    (theirs,) = recorded(release, "send-batch", 320)
    header = theirs.header(SendMessageV2)
    items = list(decode_batch(theirs.body))
    outgoing = [decode_properties(item.properties) for item in items]
    some = [
        Message(header.topic, item.body, tags=each["TAGS"], keys=each["KEYS"], flag=item.flag)
        for item, each in zip(items, outgoing, strict=True)
    ]
    ours = batch_request(
        header.producer_group,
        some,
        Queue(header.topic, header.broker or "", header.queue_id),
        unique_keys=[each["UNIQ_KEY"] for each in outgoing],
        now_ms=header.born_timestamp,
        opaque=theirs.opaque,
    )
    mine, wanted = ours.texts(), theirs.texts()
    # 5.5 gives the batch a key of its own.
    assert decode_properties(mine.pop("i").encode()).items() <= decode_properties(wanted.pop("i").encode()).items()
    assert mine == wanted
    written = list(decode_batch(ours.body))
    assert [(item.body, item.flag) for item in written] == [(item.body, item.flag) for item in items]
    assert [decode_properties(item.properties) for item in written] == outgoing


@pytest.mark.parametrize("release", RELEASES)
def test_real_answers_give_each_message_its_place(release: str) -> None:
    (answer,) = recorded(release, "send-batch", 320, is_answer=True)
    receipts = read_batch_receipts(answer, QUEUE, keys_of(3))
    assert [receipt.offset for receipt in receipts] == [4, 5, 6]
    assert ",".join(receipt.message_id for receipt in receipts) == answer.texts()["msgId"]
    assert {receipt.queue for receipt in receipts} == {Queue("orders", "broker-0", 0)}


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=9))
def test_what_is_sent_together_is_stored_side_by_side(bodies: list[bytes]) -> None:
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=2)
    answer = store(harness, batch([Message("orders", body, tags="paid") for body in bodies]))
    receipts = read_batch_receipts(answer, QUEUE, keys_of(len(bodies)))
    stored = [record_to_message(record, "broker-0") for record in harness.queue("orders", 1)]
    assert [message.body for message in stored] == bodies
    assert [(each.queue, each.offset, each.message_id) for each in receipts] == [
        (message.queue, message.offset, message.offset_id) for message in stored
    ]
    assert [message.message_id for message in stored] == keys_of(len(bodies))
    assert {message.tags for message in stored} == {"paid"}


def answered(ids: str, code: int = 0) -> Command:
    return travelled(response_to(Command(320), code, {"msgId": ids, "queueId": "1", "queueOffset": "7"}))


def test_a_batch_that_was_kept_as_one_record_has_one_id_for_all() -> None:
    receipts = read_batch_receipts(answered("A" * 32, code=11), QUEUE, keys_of(3))
    assert [(each.offset, each.message_id, each.is_late) for each in receipts] == [
        (offset, "A" * 32, True) for offset in (7, 8, 9)
    ]


def test_ids_that_do_not_fit_the_messages_are_left_out() -> None:
    for ids in ("A,B", "A,B,C,D"):
        assert [each.message_id for each in read_batch_receipts(answered(ids), QUEUE, keys_of(3))] == [""] * 3


def test_an_answer_that_says_no_is_raised() -> None:
    with pytest.raises(ServerBusy):
        read_batch_receipts(response_to(Command(320), 2), QUEUE, keys_of(2))
    strange = response_to(Command(320), 0, {"msgId": "A", "queueId": "1", "queueOffset": "-1"})
    with pytest.raises(MalformedHeader, match="first offset"):
        read_batch_receipts(strange, QUEUE, keys_of(2))


def test_what_does_not_belong_together_is_refused() -> None:
    for topic in ("audit", "%RETRY%billing"):
        with pytest.raises(ConfigurationError, match="batch messages of one topic"):
            batch([Message("orders", b"1"), Message(topic, b"2")])
    with pytest.raises(ConfigurationError, match="none of a retry topic"):
        batch([Message("%RETRY%billing", b"2")], "%RETRY%billing")
    for some, keys in (([], []), ([Message("orders", b"1")], ["U1", "U2"])):
        with pytest.raises(ConfigurationError, match="a key for each"):
            batch_request("shop", some, QUEUE, unique_keys=keys, now_ms=START_MS)
