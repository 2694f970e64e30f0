"""34, 35, 46: what a heartbeat is answered, what it makes, and what it may not do."""

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    CheckClientRequest,
    ConsumerHeartbeat,
    HeartbeatBody,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, Reply
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.group import HeartbeatResponse
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import GROUP, FakeConsumer, connections, ids, subscription_to
from tests.golden_frames import golden_frames


def heartbeat_response(answer: Command) -> HeartbeatResponse:
    assert answer.code == 0, answer.remark
    return answer.header(HeartbeatResponse)


def test_a_java_heartbeat_is_answered_as_java_expects() -> None:
    answer = FakeConsumer(BrokerHarness(), "c1", ours=False).heartbeat()
    assert answer.texts() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert answer.version == 513


def test_ours_is_told_that_it_is_ours_and_which_interval_was_agreed() -> None:
    client = FakeConsumer(BrokerHarness(), "c1")
    for asked_ms, agreed_ms in ((None, 3_000), (5_000, 5_000), (1, 1_000), (10**9, 30_000)):
        reported = heartbeat_response(client.heartbeat(heartbeat_ms=asked_ms))
        assert (reported.steelyard, reported.heartbeat_ms) == ("1", agreed_ms)


def test_every_recorded_heartbeat_is_taken() -> None:
    harness = BrokerHarness()
    frames = [each for each in golden_frames() if each.request_code == Code.HEART_BEAT and not each.is_answer]
    assert len(frames) > 10
    for each in frames:
        (command,) = FrameDecoder().feed(each.frame)
        replies = harness.broker.handle(command, harness.connect(), harness.now_ms)
        answers = [reply.command for reply in replies if isinstance(reply, Reply) and reply.command.is_response]
        assert [answer.code for answer in answers] == [0], each
    assert {"LabGroup", "LabPull"} <= set(harness.state.consumers.group_names())
    assert harness.state.producers.next_connection("LabPG") is not None


def test_a_heartbeat_makes_the_group_and_its_topic_of_retries() -> None:
    harness = BrokerHarness()
    FakeConsumer(harness, "c1", ours=False).heartbeat()
    assert harness.state.groups.get(GROUP) is not None
    topic = harness.state.topics.get(f"%RETRY%{GROUP}")
    assert topic is not None
    assert (topic.read_queues, topic.write_queues, topic.settings.permission) == (1, 1, 6)


def test_where_groups_are_not_made_java_is_passed_over_and_ours_is_reported() -> None:
    harness = BrokerHarness(BrokerOptions(auto_create_groups=False))
    java = FakeConsumer(harness, "c1", ours=False)
    java.producers = ("pg",)
    assert java.heartbeat().code == 0
    assert FakeConsumer(harness, "c2").heartbeat().code == 26
    assert ids(harness) == []
    assert harness.state.producers.next_connection("pg") == java.connection


def test_one_group_that_cannot_be_does_not_take_the_others_off_the_air() -> None:
    harness = BrokerHarness()
    body = HeartbeatBody(
        client_id="c1",
        consumers=(ConsumerHeartbeat(group="no/group"), ConsumerHeartbeat(group="good")),
        producers=(ProducerHeartbeat(group="pg"),),
    )
    assert harness.request(Code.HEART_BEAT, body=encode_body(body)).code == 29
    assert ids(harness, "good") == ["c1"]
    assert harness.state.producers.next_connection("pg") == harness.peer


# -- Java's second version ---------------------------------------------------------------------------------------------


def test_a_fingerprint_is_kept_by_client_so_that_two_that_differ_do_not_ask_each_other_again() -> None:
    harness = BrokerHarness()
    first, second = FakeConsumer(harness, "c1", ours=False), FakeConsumer(harness, "c2", ours=False)
    for client, fingerprint in ((first, 11), (second, 22)) * 3:
        assert heartbeat_response(client.heartbeat(fingerprint=fingerprint)).subscription_changed is False


def test_a_changed_fingerprint_asks_for_the_subscriptions_once_more() -> None:
    client = FakeConsumer(BrokerHarness(), "c1", ours=False)
    assert heartbeat_response(client.heartbeat()).subscription_changed is True
    assert heartbeat_response(client.heartbeat(fingerprint=11)).subscription_changed is True
    assert heartbeat_response(client.heartbeat(fingerprint=11)).subscription_changed is False
    assert heartbeat_response(client.heartbeat(fingerprint=12)).subscription_changed is True


def test_without_subscriptions_those_told_before_stay() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.heartbeat(subscription_to("orders"), subscription_to("refunds"), fingerprint=11)
    client.heartbeat(fingerprint=11, without_subscriptions=True)
    assert set(connections(harness).subscriptions) == {"orders", "refunds"}


def test_an_unknown_member_without_subscriptions_is_asked_for_them() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    assert heartbeat_response(client.heartbeat(fingerprint=11, without_subscriptions=True)).subscription_changed is True
    assert ids(harness) == ["c1"]
    assert heartbeat_response(client.heartbeat(fingerprint=11)).subscription_changed is False


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_id", ["", "x" * 256, "a\nb"])
def test_an_id_that_cannot_be_one_is_refused(client_id: str) -> None:
    harness = BrokerHarness()
    assert FakeConsumer(harness, client_id).heartbeat().code == 29
    assert not harness.state.consumers.group_names()


def test_members_beyond_the_limit_are_refused_and_those_there_stay() -> None:
    harness = BrokerHarness(BrokerOptions(max_members=2))
    clients = [FakeConsumer(harness, f"c{number}") for number in range(3)]
    assert [client.heartbeat().code for client in clients] == [0, 0, 1]
    assert ids(harness) == ["c0", "c1"]
    assert clients[0].heartbeat().code == 0
    clients[0].unregister()
    assert clients[2].heartbeat().code == 0


def test_too_many_topics_are_refused() -> None:
    answer = FakeConsumer(BrokerHarness(), "c1").heartbeat(*(subscription_to(f"t{number}") for number in range(4_097)))
    assert answer.code == 29
    assert "4096" in (answer.remark or "")


def test_a_body_that_cannot_be_read_is_refused() -> None:
    harness = BrokerHarness()
    for body in (b"", b"{", b"[]", b'{"clientID":7', b'{"consumerDataSet":[]}'):
        assert harness.request(Code.HEART_BEAT, body=body).code != 0
    assert not harness.state.consumers.group_names()


# -- 46 ----------------------------------------------------------------------------------------------------------------


def check(harness: BrokerHarness, kind: str, expression: str) -> Command:
    body = CheckClientRequest(
        client_id="c1", group=GROUP, subscription=SubscriptionBody(topic="t", kind=kind, expression=expression)
    )
    return harness.request(Code.CHECK_CLIENT_CONFIG, body=encode_body(body))


def test_a_condition_is_looked_at_before_it_is_used() -> None:
    harness = BrokerHarness()
    assert check(harness, "TAG", "a || b").code == 0
    assert check(harness, "SQL92", "amount > 10 AND region = 'eu'").code == 0
    bad = check(harness, "SQL92", "amount >")
    assert bad.code == 23
    assert bad.remark
    assert harness.request(Code.CHECK_CLIENT_CONFIG, body=b"{}").code == 0


def test_conditions_can_be_switched_off() -> None:
    harness = BrokerHarness(BrokerOptions(property_filter=False))
    assert check(harness, "SQL92", "a = 1").code == 1
    assert check(harness, "TAG", "a").code == 0
