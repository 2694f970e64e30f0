"""One connection makes groups and topics in bursts that applications need, and not for ever."""

from steelyard.broker.options import BrokerOptions
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.fake_consumer import FakeConsumer, subscription_to

_FEW = BrokerOptions(new_names=10, new_names_per_s=2)


def made(harness: BrokerHarness, name: str, peer: Peer | None = None) -> Command:
    return harness.request(Code.SEND_MESSAGE_V2, message(name), b"x", peer=peer)


def test_who_makes_too_many_topics_is_told_to_come_later_and_does() -> None:
    harness = BrokerHarness(_FEW)
    assert [made(harness, f"topic-{number}").code for number in range(10)] == [0] * 10
    refused = made(harness, "one-more")
    assert (refused.code, harness.state.topics.get("one-more")) == (ResponseCode.SYSTEM_BUSY, None)
    assert "try again later" in (refused.remark or "")
    harness.now_ms += 500
    assert made(harness, "one-more").code == 0
    assert made(harness, "another").code == ResponseCode.SYSTEM_BUSY


def test_who_made_too_many_topics_uses_them_as_ever_and_others_make_theirs() -> None:
    harness = BrokerHarness(_FEW)
    for number in range(11):
        made(harness, f"topic-{number}")
    assert made(harness, "topic-3").code == 0
    other = harness.connect()
    assert made(harness, "others", other).code == 0
    harness.disconnect(other)


def test_a_heartbeat_with_new_groups_counts_them_and_their_topics_of_retries() -> None:
    harness = BrokerHarness(_FEW)
    own_peer = harness.connect()
    codes = []
    for number in range(6):
        client = FakeConsumer(harness, "one", ours=False, group=f"group-{number}")
        client.connection = own_peer
        codes.append(client.heartbeat(subscription_to()).code)
    assert codes == [0] * 5 + [ResponseCode.SYSTEM_BUSY]
    assert harness.state.groups.get("group-5") is None


def test_ordinary_bursts_are_taken() -> None:
    harness = BrokerHarness()
    groups = b",".join(b'{"groupName":"g%d","subscriptionDataSet":[{"topic":"t"}]}' % each for each in range(200))
    assert harness.request(Code.HEART_BEAT, {}, b'{"clientID":"app","consumerDataSet":[%b]}' % groups).code == 0
    assert {made(harness, f"topic-{number}").code for number in range(1_000)} == {0}


def test_what_the_broker_makes_by_itself_is_not_counted() -> None:
    harness = BrokerHarness(BrokerOptions(new_names=1, new_names_per_s=1))
    made(harness, "orders")
    harness.tick()
    for number in range(5):
        harness.state.topics.get_or_create_dead_letters(f"group-{number}", harness.now_ms)
