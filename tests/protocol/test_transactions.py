"""A question about a half message names what its end has to name, and brings the message itself."""

from contextlib import suppress
from itertools import islice

import pytest
from msgspec import structs

from steelyard.errors import MalformedRecord, ProtocolError
from steelyard.model import Queue
from steelyard.protocol.send import (
    HalfMessageRef,
    checked_half,
    end_transaction_request,
    read_receipt,
    read_transaction_check,
)
from steelyard.wire.headers.send import EndTransaction
from tests.fuzzing import mutations, rounds
from tests.protocol.frames import RELEASES, recorded, travelled


@pytest.mark.parametrize("release", RELEASES)
def test_a_real_question_brings_the_message_as_it_was_sent(release: str) -> None:
    (question,) = recorded(release, "tx-half+unknown", 39)
    half, message = read_transaction_check(question, "broker-b")
    assert half == checked_half(question)
    fields = question.texts()
    assert (half.offset, half.position) == (int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]))
    assert half.unique_key == message.message_id == fields["msgId"]
    assert (message.topic, message.queue.broker, message.body) == ("LabTx", "broker-b", b"tx-unknown")
    assert (message.tags, message.keys) == ("T", ("KT3",))
    assert message.properties["PGROUP"] == "LabTxPG"
    assert message.position == half.position


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("case", "commits"), [("tx-half+commit", True), ("tx-half+rollback", False)])
def test_an_end_is_written_as_java_writes_it(release: str, case: str, commits: bool) -> None:
    (theirs,) = recorded(release, case, 37)
    (answer,) = recorded(release, case, 310, is_answer=True)
    wanted = theirs.header(EndTransaction)
    queue = Queue("LabTx", wanted.broker or "", 0)
    receipt = read_receipt(answer, queue, unique_key=wanted.msg_id, is_half=True)
    assert receipt.half is not None
    ours = end_transaction_request("LabTxPG", "LabTx", receipt.half, is_commit=commits, is_oneway=True)
    mine = ours.header(EndTransaction)
    # 4.9's client says neither topic nor transaction; ours leaves the broker's name to proxies.
    assert (mine.topic, mine.transaction_id) == ("LabTx", wanted.msg_id)
    more = {"topic": wanted.topic, "transaction_id": wanted.transaction_id, "broker": wanted.broker}
    assert structs.replace(mine, **more) == wanted
    assert ours.is_oneway
    assert theirs.is_oneway


def test_an_end_may_be_said_because_it_was_asked_for() -> None:
    ends = end_transaction_request("shop", "orders", HalfMessageRef(1, 2, "U1"), is_commit=True, is_check_response=True)
    assert ends.header(EndTransaction).from_transaction_check
    assert not travelled(ends).is_oneway


def test_a_question_with_no_message_or_with_two_is_refused() -> None:
    (question,) = recorded("5.5.0", "tx-half+unknown", 39)
    for body in (b"", question.body * 2):
        with pytest.raises(MalformedRecord, match="in its body, one was announced"):
            read_transaction_check(structs.replace(question, body=body), "broker-b")


@pytest.mark.fuzz
def test_a_damaged_question_raises_nothing_else() -> None:
    (question,) = recorded("5.5.0", "tx-half+unknown", 39)
    for body in islice(mutations([question.body], seed=1), rounds()):
        with suppress(ProtocolError):
            read_transaction_check(structs.replace(question, body=body), "broker-b")
