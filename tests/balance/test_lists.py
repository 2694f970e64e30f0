"""What brokers last said of the group, one list each."""

from steelyard.balance.events import GroupSeen, MemberFacts
from steelyard.balance.lines import Lines
from steelyard.balance.lists import Lists
from steelyard.balance.member_options import MemberOptions
from steelyard.model import Queue, Subscription

IDS = ("1@sy1", "2@sy1")
QUEUES = tuple(Queue("t", "a", number) for number in range(3))


def said(owners: dict[Queue, str], *, settled: bool) -> GroupSeen:
    return GroupSeen("a", IDS, settled=settled, members=tuple(MemberFacts(each) for each in IDS), owners=owners)


def test_while_a_restarted_broker_hears_who_owns_what_the_owners_of_before_count() -> None:
    options = MemberOptions("g", IDS[0], {"t": Subscription("t")})
    lists = Lists(options, Lines(options))
    first, second, third = QUEUES
    lists.note(said({first: IDS[0], second: IDS[0], third: IDS[1]}, settled=True), 0)
    lists.note(said({second: IDS[1]}, settled=False), 1_000)
    assert lists.sight(["a"], 1_000).owners == {first: IDS[0], second: IDS[1], third: IDS[1]}
    lists.note(said({second: IDS[1]}, settled=True), 4_000)
    assert lists.sight(["a"], 4_000).owners == {second: IDS[1]}
