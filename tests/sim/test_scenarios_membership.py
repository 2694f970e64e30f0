"""Who is there, and who is told: lost notices, lists and routes that differ, ids that are missing or there twice."""

from collections.abc import Iterator, Sequence

from tests.sim.cluster import TOPIC
from tests.sim.mistakes import NOBODY_ASKED, UNLISTED_DROPS
from tests.sim.scene import Kind, Scene, fails_with, known, mistake, on, rule

from steelyard.balance import planning
from steelyard.balance.actions import StartAt
from steelyard.balance.allocate.average import Average
from steelyard.balance.lists import Lists
from steelyard.balance.member_options import MemberOptions
from steelyard.balance.planner import Planner
from steelyard.balance.planning import Group
from steelyard.broker.members import Members
from steelyard.broker.notices import Notices
from steelyard.model import Queue
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.facts import Moved, RoundBegan
from steelyard.sim.members import MemberProcess
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.codes import RequestCode as Code

_share, _sight = Planner.share, Lists.sight


def shared(*members: MemberProcess) -> list[int]:
    """Return how many queues of the topic each member owns."""
    return [sum(queue.topic == TOPIC for queue in member.member.assignment()) for member in members]


# -- notices ----------------------------------------------------------------------------------------------------------


@on(ours=known("poke-unheard"), apache=known("poke-unheard"))
def test_notices_all_lost_a_join_still_takes_a_second(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=4)
    scene.world.network.loses = lambda command: command.code == Code.NOTIFY_CONSUMER_IDS_CHANGED
    first = scene.member(1, is_steered=False)
    scene.until(lambda: shared(first) == [4])
    scene.run(1_500)
    second = scene.member(2, is_steered=False)
    with fails_with(bug):
        scene.until(lambda: shared(first, second) == [2, 2], within_ms=1_300)


STORMY = mistake(
    "every change is told, and looked at, at once",
    *known("looks-without-a-gap").swaps,
    rule(Notices, "changed", lambda *_: True),
)


@on(ours=STORMY, apache=known("looks-without-a-gap"))
def test_eight_joins_at_once_cost_few_rounds(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=8)
    members = []
    for number in range(1, 9):
        members.append(scene.member(number, is_steered=False))
        scene.run(10)
    scene.until(lambda: shared(*members) == [1] * 8)
    scene.run(1_000)
    with fails_with(bug):
        assert len(scene.facts(RoundBegan)) <= 32


# -- views that differ ------------------------------------------------------------------------------------------------


@on(ours=known("one-list-for-all"), apache=known("one-list-for-all"))
def test_brokers_disagree_about_members(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2, brokers=2)
    first = scene.member(1, is_steered=False)
    scene.until(lambda: shared(first) == [4])
    scene.world.network.part("10.0.2.2@2@sy1", scene.broker.name)
    second = scene.member(2, is_steered=False)
    scene.run(4_000)
    with fails_with(bug):
        # The first broker does not list the second member, which has its share of the other's queues all the same.
        assert {member.member.members for member in (first, second)} == {(first.name, second.name)}
        assert shared(first, second) == [2, 2]
    scene.world.network.join(second.name, scene.broker.name)
    scene.until(lambda: shared(first, second) == [2, 2], within_ms=10_000)


@on(ours=UNLISTED_DROPS, apache=UNLISTED_DROPS)
def test_own_id_missing_drops_nothing(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2)
    member, other = (scene.member(number, is_steered=False) for number in (1, 2))
    scene.until(lambda: shared(member, other) in ([1, 1], [2, 0], [0, 2]), within_ms=4_000)
    scene.run(2_000)
    before, since_ms = scene.owners(member, other), scene.world.now_ms()
    beats = scene.keep_requests(member, Code.HEART_BEAT)
    forget(scene, member)
    scene.run(6_000)
    assert not is_listed(scene, member)
    beats.release()
    scene.run(2_000)
    with fails_with(bug):
        assert is_listed(scene, member)
        assert scene.owners(member, other) == before
        mine = [each for each in scene.facts(Moved) if isinstance(each, Moved) and each.member == member.name]
        assert not [each for each in mine if each.at_ms >= since_ms and each.before == "OWNED"]


def forget(scene: Scene, member: MemberProcess) -> None:
    """Let the broker not list a member that is connected."""
    broker = scene.broker
    if isinstance(broker, ApacheBrokerProcess):
        group = broker.state.registry.get(member.options.group)
        assert group is not None
        for number in [number for number, client in group.lines.items() if client == member.name]:
            broker.state.registry.drop(number)
    else:
        assert broker.broker is not None
        members = broker.broker.state.members
        for each in members:
            if each.id == member.name:
                members.remove(each)


def is_listed(scene: Scene, member: MemberProcess) -> bool:
    """Say whether the broker lists a member."""
    broker = scene.broker
    if isinstance(broker, ApacheBrokerProcess):
        group = broker.state.registry.get(member.options.group)
        return group is not None and member.name in group.lines.values()
    assert broker.broker is not None
    return member.name in [each.id for each in broker.broker.state.members]


@on(ours=known("lock-taken-over"), apache=NOBODY_ASKED)
def test_routes_differ_between_members(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2, name_servers=2)
    members = [scene.member(number, is_steered=False, strategy=Average(), name_server=number - 1) for number in (1, 2)]
    scene.until(lambda: shared(*members) == [1, 1], within_ms=4_000)
    contested = scene.queues[1]
    scene.world.network.jam(scene.broker.name, scene.names[1].name)
    scene.make_topic(scene.broker, TOPIC, 6)
    scene.queues += [Queue(TOPIC, scene.broker.name, number) for number in range(2, 6)]
    scene.until(lambda: all(contested in (member.member.plan or ()) for member in members), within_ms=8_000)
    scene.run(2_000)
    scene.world.network.release(scene.broker.name, scene.names[1].name)
    scene.run(12_000)
    with fails_with(bug):
        assert [scene.hands(queue) for queue in scene.queues] == [1] * 6
        assert shared(*members) == [3, 3]


def _all_share(options: MemberOptions, group: Group) -> Iterator[tuple[Sequence[str], list[str]]]:
    del options
    yield group.members, sorted(group.queues)


ALL_SHARE = mistake("a topic is shared with who does not read it", swap(planning, "_by_sharers", _all_share))


@on(ours=ALL_SHARE)
def test_unequal_subscriptions_leave_no_queue_unread(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=4)
    scene.make_topic(scene.broker, "audits", 4)
    audits = [Queue("audits", scene.broker.name, number) for number in range(4)]
    scene.run(1_000)
    both = scene.member(1, is_steered=False, topics=(TOPIC, "audits"))
    one = scene.member(2, is_steered=False)
    scene.run(3_000)
    with fails_with(bug):
        assert all(scene.is_owned_by(both, queue) for queue in audits)
        assert shared(both, one) == [2, 2]


NO_RIVALS = mistake("two processes may have one id", rule(Members, "rival", lambda *_: None))


@on(ours=NO_RIVALS)
def test_one_id_twice_is_refused(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=4)
    first = scene.member(1, is_steered=False)
    scene.until(lambda: len(first.member.assignment()) >= 4)
    second = scene.member(1, is_steered=False)
    scene.run(5_000)
    with fails_with(bug):
        assert len([queue for queue in first.member.assignment() if queue.topic == TOPIC]) == 4
        assert second.member.assignment() == ()
        assert any("does not take" in sentence for _, sentence in scene.reports())


# -- queues that are new ----------------------------------------------------------------------------------------------


@on(ours=known("new-queue-from-its-end"), apache=known("new-queue-from-its-end"))
def test_queues_added_start_at_their_first_message(kind: Kind, bug: Bug | None) -> None:
    scene = Scene(kind, queues=2)
    member = scene.member(1, is_steered=False, start=StartAt.LAST)
    scene.until(lambda: shared(member) == [2])
    scene.make_topic(scene.broker, TOPIC, 4)
    for number in (2, 3):
        scene.send(f"new-{number}", TOPIC, number)
    scene.run(8_000)
    with fails_with(bug):
        assert sorted(scene.starts()) == ["new-2", "new-3"]
