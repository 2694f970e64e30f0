"""The last lists of members, one of each broker."""

from steelyard.balance.group.events import MemberFacts, MemberListReceived
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.member_lists import MemberLists
from steelyard.balance.group.options import MemberOptions
from steelyard.model import Queue, Subscription

IDS = ("1@sy1", "2@sy1")
QUEUES = tuple(Queue("t", "a", number) for number in range(3))


def listed(owners: dict[Queue, str], *, settled: bool) -> MemberListReceived:
    return MemberListReceived(
        "a", IDS, is_settled=settled, members=tuple(MemberFacts(each) for each in IDS), owners=owners
    )


def test_while_a_restarted_broker_learns_its_owners_those_of_before_count() -> None:
    options = MemberOptions("g", IDS[0], {"t": Subscription("t")})
    lists = MemberLists(options, BrokerSessions(options))
    first, second, third = QUEUES
    lists.update(listed({first: IDS[0], second: IDS[0], third: IDS[1]}, settled=True), 0)
    lists.update(listed({second: IDS[1]}, settled=False), 1_000)
    assert lists.snapshot(["a"], 1_000).owners == {first: IDS[0], second: IDS[1], third: IDS[1]}
    lists.update(listed({second: IDS[1]}, settled=True), 4_000)
    assert lists.snapshot(["a"], 4_000).owners == {second: IDS[1]}
