"""Retries that a member sends by itself to its group's own topic: when 36 fails, or an order is kept."""

import pytest
from tests.broker.desk import Desk, message

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.maps import QueueRef
from steelyard.wire.properties import parse_properties

_TEXT = "UNIQ_KEY\x01U1\x02RETRY_TOPIC\x01orders\x02DELAY\x011\x02"
_RETRY, _DEAD = "%RETRY%billing", "%DLQ%billing"


@pytest.mark.parametrize(
    ("times", "most", "is_dead"), [(2, 2, False), (3, 2, True), (16, None, False), (17, None, True)]
)
def test_a_retry_beyond_the_last_goes_to_the_dead_letters(times: int, most: int | None, is_dead: bool) -> None:
    desk = Desk()
    header = message(_RETRY, _TEXT, reconsume_times=times, max_reconsume_times=most)
    assert desk.ask(310, header, b"again").code == 0
    dead_at_once = [record.reconsume_times for record in desk.topic(_DEAD)]
    assert dead_at_once == ([times] if is_dead else [])
    desk.advance(1_000)
    assert [record.reconsume_times for record in desk.topic(_RETRY)] == ([] if is_dead else [times])


def test_a_dead_letter_says_where_it_came_from_and_waits_no_more() -> None:
    desk = Desk()
    desk.ask(310, message(_RETRY, _TEXT, reconsume_times=9, max_reconsume_times=1))
    (dead,) = desk.topic(_DEAD)
    properties = parse_properties(dead.properties)
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == ("orders", "U1")
    assert "DELAY" not in properties


def test_an_unknown_retry_topic_is_made_like_any_other_and_with_one_queue_where_none_are_made() -> None:
    desk, strict = Desk(), Desk(BrokerOptions(auto_create_topics=False))
    for each in (desk, strict):
        assert each.ask(310, message(_RETRY, _TEXT)).code == 0
    assert [each.state.topics[_RETRY].queues for each in (desk, strict)] == [4, 1]


def test_a_retry_of_a_group_that_nobody_made_is_refused_where_groups_are_made_by_hand() -> None:
    desk = Desk(BrokerOptions(auto_create_groups=False))
    assert desk.ask(310, message(_RETRY, _TEXT)).code == 26
    assert desk.state.topics.get(_RETRY) is None


def test_an_old_member_s_retry_of_a_committed_message_is_no_half() -> None:
    desk = Desk()
    desk.ask(310, message(_RETRY, _TEXT + "TRAN_MSG\x01true\x02PGROUP\x01shop\x02", reconsume_times=1))
    desk.advance(1_000)
    assert len(desk.topic(_RETRY)) == 1


def test_a_lock_that_the_group_holds_does_not_change_where_a_retry_goes() -> None:
    desk = Desk()
    desk.ask(310, message(properties="UNIQ_KEY\x01U1\x02"))
    desk.now_ms += desk.options.settle_ms
    queue = QueueRef(broker_name="broker-0", queue_id=0, topic="orders")
    wanted = LockRequest(client_id="127.0.0.1@m", group="billing", queues=(queue,))
    assert queue in decode_body(LockAnswer, desk.ask(41, {}, encode_body(wanted)).body).granted
    desk.ask(310, message(_RETRY, _TEXT, reconsume_times=1))
    desk.advance(1_000)
    assert (len(desk.topic(_RETRY)), desk.topic(_DEAD)) == (1, [])


def test_an_orderly_member_that_gives_up_with_its_last_try_finds_the_dead_letters() -> None:
    desk = Desk()
    desk.ask(310, message(properties="UNIQ_KEY\x01U1\x02"))
    queues = (QueueRef(broker_name="broker-0", queue_id=0, topic="orders"),)
    desk.ask(41, body=encode_body(LockRequest(client_id="c", group="billing", queues=queues)))
    for times in (2, 3):
        desk.ask(310, message(_RETRY, _TEXT, reconsume_times=times, max_reconsume_times=3))
    assert [record.reconsume_times for record in desk.topic(_DEAD)] == [3]
