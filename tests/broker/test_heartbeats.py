"""34, 35, 46: what a heartbeat is answered, what it makes, and what it may not do."""

import pytest
from tests.broker.client import GROUP, Client, connections, ids, wants
from tests.broker.desk import Desk
from tests.golden_frames import golden_frames

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import ClientCheck, ConsumerBeat, Heartbeat, ProducerBeat, SubscriptionBody
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter
from steelyard.wire.headers.group import HeartbeatAnswer
from steelyard.wire.peers import Reply


def heard(answer: Command) -> HeartbeatAnswer:
    assert answer.code == 0, answer.remark
    return answer.header(HeartbeatAnswer)


def test_a_java_heartbeat_is_answered_as_java_expects() -> None:
    answer = Client(Desk(), "c1", ours=False).beat()
    assert answer.texts() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert answer.version == 513


def test_ours_is_told_that_it_is_ours_and_which_interval_was_agreed() -> None:
    client = Client(Desk(), "c1")
    for asked_ms, agreed_ms in ((None, 3_000), (5_000, 5_000), (1, 1_000), (10**9, 30_000)):
        told = heard(client.beat(heartbeat_ms=asked_ms))
        assert (told.steelyard, told.heartbeat_ms) == ("1", agreed_ms)


def test_every_recorded_heartbeat_is_taken() -> None:
    desk = Desk()
    frames = [each for each in golden_frames() if each.request_code == Code.HEART_BEAT and not each.is_answer]
    assert len(frames) > 10
    for each in frames:
        (command,) = Splitter().feed(each.frame)
        replies = desk.broker.handle(command, desk.line(), desk.now_ms)
        answers = [reply.command for reply in replies if isinstance(reply, Reply) and reply.command.is_answer]
        assert [answer.code for answer in answers] == [0], each
    assert {"LabGroup", "LabPull"} <= set(desk.state.members.groups())
    assert desk.state.producers.next_of("LabPG") is not None


def test_a_heartbeat_makes_the_group_and_its_topic_of_retries() -> None:
    desk = Desk()
    Client(desk, "c1", ours=False).beat()
    assert desk.state.groups.get(GROUP) is not None
    topic = desk.state.topics.get(f"%RETRY%{GROUP}")
    assert topic is not None
    assert (topic.read_queues, topic.write_queues, topic.settings.permission) == (1, 1, 6)


def test_where_groups_are_not_made_java_is_passed_over_and_ours_is_told() -> None:
    desk = Desk(BrokerOptions(auto_create_groups=False))
    java = Client(desk, "c1", ours=False)
    java.producers = ("pg",)
    assert java.beat().code == 0
    assert Client(desk, "c2").beat().code == 26
    assert ids(desk) == []
    assert desk.state.producers.next_of("pg") == java.line


def test_one_group_that_cannot_be_does_not_take_the_others_off_the_air() -> None:
    desk = Desk()
    body = Heartbeat(
        client_id="c1",
        consumers=(ConsumerBeat(group="no/group"), ConsumerBeat(group="good")),
        producers=(ProducerBeat(group="pg"),),
    )
    assert desk.ask(Code.HEART_BEAT, body=encode_body(body)).code == 29
    assert ids(desk, "good") == ["c1"]
    assert desk.state.producers.next_of("pg") == desk.peer


# -- Java's second version ---------------------------------------------------------------------------------------------


def test_a_fingerprint_is_kept_by_client_so_that_two_that_differ_do_not_ask_each_other_again() -> None:
    desk = Desk()
    first, second = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    for client, fingerprint in ((first, 11), (second, 22)) * 3:
        assert heard(client.beat(fingerprint=fingerprint)).subscription_changed is False


def test_a_changed_fingerprint_asks_for_the_subscriptions_once_more() -> None:
    client = Client(Desk(), "c1", ours=False)
    assert heard(client.beat()).subscription_changed is True
    assert heard(client.beat(fingerprint=11)).subscription_changed is True
    assert heard(client.beat(fingerprint=11)).subscription_changed is False
    assert heard(client.beat(fingerprint=12)).subscription_changed is True


def test_without_subscriptions_those_told_before_stay() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat(wants("orders"), wants("refunds"), fingerprint=11)
    client.beat(fingerprint=11, without_subscriptions=True)
    assert set(connections(desk).subscriptions) == {"orders", "refunds"}


def test_a_stranger_without_subscriptions_is_asked_for_them() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    assert heard(client.beat(fingerprint=11, without_subscriptions=True)).subscription_changed is True
    assert ids(desk) == ["c1"]
    assert heard(client.beat(fingerprint=11)).subscription_changed is False


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_id", ["", "x" * 256, "a\nb"])
def test_an_id_that_cannot_be_one_is_refused(client_id: str) -> None:
    desk = Desk()
    assert Client(desk, client_id).beat().code == 29
    assert not desk.state.members.groups()


def test_members_beyond_the_limit_are_refused_and_those_there_stay() -> None:
    desk = Desk(BrokerOptions(max_members=2))
    clients = [Client(desk, f"c{number}") for number in range(3)]
    assert [client.beat().code for client in clients] == [0, 0, 1]
    assert ids(desk) == ["c0", "c1"]
    assert clients[0].beat().code == 0
    clients[0].leave()
    assert clients[2].beat().code == 0


def test_too_many_topics_are_refused() -> None:
    answer = Client(Desk(), "c1").beat(*(wants(f"t{number}") for number in range(4_097)))
    assert answer.code == 29
    assert "4096" in (answer.remark or "")


def test_a_body_that_cannot_be_read_is_refused() -> None:
    desk = Desk()
    for body in (b"", b"{", b"[]", b'{"clientID":7', b'{"consumerDataSet":[]}'):
        assert desk.ask(Code.HEART_BEAT, body=body).code != 0
    assert not desk.state.members.groups()


# -- 46 ----------------------------------------------------------------------------------------------------------------


def check(desk: Desk, kind: str, expression: str) -> Command:
    body = ClientCheck(
        client_id="c1", group=GROUP, subscription=SubscriptionBody(topic="t", kind=kind, expression=expression)
    )
    return desk.ask(Code.CHECK_CLIENT_CONFIG, body=encode_body(body))


def test_a_condition_is_looked_at_before_it_is_used() -> None:
    desk = Desk()
    assert check(desk, "TAG", "a || b").code == 0
    assert check(desk, "SQL92", "amount > 10 AND region = 'eu'").code == 0
    bad = check(desk, "SQL92", "amount >")
    assert bad.code == 23
    assert bad.remark
    assert desk.ask(Code.CHECK_CLIENT_CONFIG, body=b"{}").code == 0


def test_conditions_can_be_switched_off() -> None:
    desk = Desk(BrokerOptions(property_filter=False))
    assert check(desk, "SQL92", "a = 1").code == 1
    assert check(desk, "TAG", "a").code == 0
