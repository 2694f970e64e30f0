"""Retries that a member sends by itself to its group's own topic: when 36 fails, or an order is kept."""

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.queue_assignment import LockRequest, LockResponse
from steelyard.wire.json_body import QueueRef
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import BrokerHarness, message

_TEXT = "UNIQ_KEY\x01U1\x02RETRY_TOPIC\x01orders\x02DELAY\x011\x02"
_RETRY, _DEAD = "%RETRY%billing", "%DLQ%billing"


@pytest.mark.parametrize(
    ("times", "most", "is_dead"), [(2, 2, False), (3, 2, True), (16, None, False), (17, None, True)]
)
def test_a_retry_beyond_the_last_goes_to_the_dead_letters(times: int, most: int | None, is_dead: bool) -> None:
    harness = BrokerHarness()
    header = message(_RETRY, _TEXT, reconsume_times=times, max_reconsume_times=most)
    assert harness.request(310, header, b"again").code == 0
    dead_at_once = [record.reconsume_times for record in harness.topic(_DEAD)]
    assert dead_at_once == ([times] if is_dead else [])
    harness.advance(1_000)
    assert [record.reconsume_times for record in harness.topic(_RETRY)] == ([] if is_dead else [times])


def test_a_dead_letter_says_where_it_came_from_and_waits_no_more() -> None:
    harness = BrokerHarness()
    harness.request(310, message(_RETRY, _TEXT, reconsume_times=9, max_reconsume_times=1))
    (dead,) = harness.topic(_DEAD)
    properties = decode_properties(dead.properties)
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == ("orders", "U1")
    assert "DELAY" not in properties


def test_an_unknown_retry_topic_is_made_like_any_other_and_with_one_queue_where_none_are_made() -> None:
    harness, strict = BrokerHarness(), BrokerHarness(BrokerOptions(auto_create_topics=False))
    for each in (harness, strict):
        assert each.request(310, message(_RETRY, _TEXT)).code == 0
    assert [each.state.topics[_RETRY].queues for each in (harness, strict)] == [4, 1]


def test_a_retry_of_a_group_that_nobody_made_is_refused_where_groups_are_made_by_hand() -> None:
    harness = BrokerHarness(BrokerOptions(auto_create_groups=False))
    assert harness.request(310, message(_RETRY, _TEXT)).code == 26
    assert harness.state.topics.get(_RETRY) is None


def test_an_old_member_s_retry_of_a_committed_message_is_no_half() -> None:
    harness = BrokerHarness()
    harness.request(310, message(_RETRY, _TEXT + "TRAN_MSG\x01true\x02PGROUP\x01shop\x02", reconsume_times=1))
    harness.advance(1_000)
    assert len(harness.topic(_RETRY)) == 1


def test_a_lock_that_the_group_holds_does_not_change_where_a_retry_goes() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties="UNIQ_KEY\x01U1\x02"))
    harness.now_ms += harness.options.settle_ms
    queue = QueueRef(broker_name="broker-0", queue_id=0, topic="orders")
    wanted = LockRequest(client_id="127.0.0.1@m", group="billing", queues=(queue,))
    assert queue in decode_body(LockResponse, harness.request(41, {}, encode_body(wanted)).body).granted
    harness.request(310, message(_RETRY, _TEXT, reconsume_times=1))
    harness.advance(1_000)
    assert (len(harness.topic(_RETRY)), harness.topic(_DEAD)) == (1, [])


def test_an_orderly_member_that_gives_up_with_its_last_try_finds_the_dead_letters() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties="UNIQ_KEY\x01U1\x02"))
    queues = (QueueRef(broker_name="broker-0", queue_id=0, topic="orders"),)
    harness.request(41, body=encode_body(LockRequest(client_id="c", group="billing", queues=queues)))
    for times in (2, 3):
        harness.request(310, message(_RETRY, _TEXT, reconsume_times=times, max_reconsume_times=3))
    assert [record.reconsume_times for record in harness.topic(_DEAD)] == [3]
