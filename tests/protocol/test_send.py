"""A message is written as Java's clients write it, and is stored as it was given."""

from functools import partial
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, TopicNotFound
from steelyard.model import Message, Queue
from steelyard.model.message import RESERVED_PROPERTIES
from steelyard.protocol.send import read_receipt, send_request
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command, response_to
from steelyard.wire.compression import decompress
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import decode_properties
from steelyard.wire.stored_messages import record_to_message
from steelyard.wire.sysflag import COMPRESSED, Compression
from tests.broker.broker_harness import START_MS, BrokerHarness
from tests.broker.pull_requests import make_topic
from tests.compressions import INSTALLED
from tests.protocol.frames import RELEASES, recorded, store, travelled
from tests.wire.stored_values import properties

QUEUE = Queue("orders", "broker-0", 1)

a_send = partial(send_request, "shop", queue=QUEUE, unique_key="U1", now_ms=START_MS)
"""Write a message to the second queue of orders."""


def a_broker() -> BrokerHarness:
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=2)
    return harness


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("case", ["send-v2-tag-key", "send-v2-compressed", "send-delay-level1", "send-oneway"])
def test_a_send_is_written_as_java_writes_it(release: str, case: str) -> None:
    (theirs,) = recorded(release, case, 310)
    header = theirs.header(SendMessageV2)
    outgoing = decode_properties((header.properties or "").encode())
    own = {name: text for name, text in outgoing.items() if name not in RESERVED_PROPERTIES}
    is_small = bool(header.sys_flag & COMPRESSED)
    body = decompress(theirs.body, header.sys_flag) if is_small else theirs.body
    message = Message(
        header.topic, body, outgoing.get("TAGS"), outgoing.get("KEYS", "").split(), properties=own, flag=header.flag
    )
    ours = send_request(
        header.producer_group,
        message,
        Queue(header.topic, header.broker or "", header.queue_id),
        unique_key=outgoing["UNIQ_KEY"],
        now_ms=header.born_timestamp,
        delay_level=int(outgoing.get("DELAY", "0")),
        compress_from=4_096,
        is_oneway=theirs.is_oneway,
        opaque=theirs.opaque,
    )
    written = ours.header(SendMessageV2)
    assert decode_properties((written.properties or "").encode()) == outgoing
    mine, wanted = ours.texts(), theirs.texts()
    mine.pop("i")
    wanted.pop("i")
    assert mine == wanted
    assert (ours.code, ours.flag, ours.opaque) == (theirs.code, theirs.flag, theirs.opaque)
    assert is_small == (case == "send-v2-compressed")
    assert (decompress(ours.body, written.sys_flag) if is_small else ours.body) == body


@given(
    st.binary(max_size=300),
    st.none() | st.sampled_from(["paid", "größe"]),
    properties,
    st.none() | st.integers(0, 400),
    st.sampled_from(INSTALLED),
)
def test_what_is_sent_is_what_is_stored(
    body: bytes, tags: str | None, own: dict[str, str], compress_from: int | None, kind: Compression
) -> None:
    own = {name: value for name, value in own.items() if name not in RESERVED_PROPERTIES}
    message = Message("orders", body * 3, tags=tags, keys=["a", "b"], properties=own, flag=7)
    harness = a_broker()
    answer = store(harness, a_send(message, compress_from=compress_from, compression=kind))
    receipt = read_receipt(answer, QUEUE, unique_key="U1")
    (record,) = harness.queue("orders", 1)
    assert len(record.body) <= len(message.body)
    stored = record_to_message(record, "broker-0")
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (message.body, tags, ("a", "b"), 7)
    assert own.items() <= stored.properties.items()
    assert (receipt.queue, receipt.offset, receipt.message_id) == (QUEUE, 0, stored.offset_id)
    assert stored.message_id == "U1"


def test_a_body_is_compressed_from_so_many_bytes_on_and_only_if_that_helps() -> None:
    noise = b"".join(crc32(bytes([n])).to_bytes(4, "big") for n in range(16))
    for body, flag in ((b"x" * 63, 0), (b"x" * 64, 0x301), (noise, 0)):
        command = a_send(Message("orders", body), compress_from=64)
        assert command.header(SendMessageV2).sys_flag == flag
        assert (len(command.body) < len(body)) == bool(flag)
    assert a_send(Message("orders", b"x" * 64)).body == b"x" * 64


def test_a_half_may_be_compressed() -> None:
    header = a_send(Message("orders", b"x" * 99), compress_from=64, is_half=True).header(SendMessageV2)
    assert header.sys_flag == 0x305
    outgoing = decode_properties((header.properties or "").encode())
    assert (outgoing["TRAN_MSG"], outgoing["PGROUP"]) == ("true", "shop")


def test_what_is_added_comes_behind_what_the_message_says() -> None:
    command = a_send(Message("orders", b"", tags="paid"), extra_properties={"CORRELATION_ID": "c-1"})
    assert command.header(SendMessageV2).properties == (
        "TAGS\x01paid\x02UNIQ_KEY\x01U1\x02WAIT\x01true\x02CORRELATION_ID\x01c-1\x02"
    )


def test_a_oneway_send_reports_it() -> None:
    assert travelled(a_send(Message("orders", b""), is_oneway=True)).is_oneway
    assert not travelled(a_send(Message("orders", b""))).is_oneway


def test_more_properties_than_a_record_holds_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ConfigurationError, match="have 32796 bytes together, the limit is 32767"):
        a_send(Message("orders", b"", properties={"note": "x" * 32_768}))


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_an_answer_that_says_no_is_raised_and_a_late_one_is_not(header_type: HeaderType) -> None:
    request = Command(310, header_type=header_type)
    with pytest.raises(TopicNotFound, match="broker-0 answered 17"):
        read_receipt(response_to(request, 17, remark="no such topic"), QUEUE, unique_key="U1")
    late = response_to(request, 10, {"msgId": "0" * 32, "queueId": "1", "queueOffset": "5"})
    assert read_receipt(travelled(late), QUEUE, unique_key="U1").is_late
