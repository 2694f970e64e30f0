"""One connection makes groups and topics in bursts that applications need, and not for ever."""

from tests.broker.client import Client, wants
from tests.broker.desk import Desk, message

from steelyard.broker.options import BrokerOptions
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

_FEW = BrokerOptions(new_names=10, new_names_per_s=2)


def made(desk: Desk, name: str, peer: Peer | None = None) -> Command:
    return desk.ask(Code.SEND_MESSAGE_V2, message(name), b"x", peer=peer)


def test_who_makes_too_many_topics_is_told_to_come_later_and_does() -> None:
    desk = Desk(_FEW)
    assert [made(desk, f"topic-{number}").code for number in range(10)] == [0] * 10
    refused = made(desk, "one-more")
    assert (refused.code, desk.state.topics.get("one-more")) == (ResponseCode.SYSTEM_BUSY, None)
    assert "try again later" in (refused.remark or "")
    desk.now_ms += 500
    assert made(desk, "one-more").code == 0
    assert made(desk, "another").code == ResponseCode.SYSTEM_BUSY


def test_who_made_too_many_topics_uses_them_as_ever_and_others_make_theirs() -> None:
    desk = Desk(_FEW)
    for number in range(11):
        made(desk, f"topic-{number}")
    assert made(desk, "topic-3").code == 0
    other = desk.line()
    assert made(desk, "others", other).code == 0
    desk.hang_up(other)


def test_a_heartbeat_with_new_groups_counts_them_and_their_topics_of_retries() -> None:
    desk = Desk(_FEW)
    line = desk.line()
    codes = []
    for number in range(6):
        client = Client(desk, "one", ours=False, group=f"group-{number}")
        client.line = line
        codes.append(client.beat(wants()).code)
    assert codes == [0] * 5 + [ResponseCode.SYSTEM_BUSY]
    assert desk.state.groups.get("group-5") is None


def test_ordinary_bursts_are_taken() -> None:
    desk = Desk()
    groups = b",".join(b'{"groupName":"g%d","subscriptionDataSet":[{"topic":"t"}]}' % each for each in range(200))
    assert desk.ask(Code.HEART_BEAT, {}, b'{"clientID":"app","consumerDataSet":[%b]}' % groups).code == 0
    assert {made(desk, f"topic-{number}").code for number in range(1_000)} == {0}


def test_what_the_broker_makes_by_itself_is_not_counted() -> None:
    desk = Desk(BrokerOptions(new_names=1, new_names_per_s=1))
    made(desk, "orders")
    desk.tick()
    for number in range(5):
        desk.state.topics.dead_letters(f"group-{number}", desk.now_ms)
