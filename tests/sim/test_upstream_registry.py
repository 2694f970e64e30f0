"""What went wrong upstream with who is in a group, told as what happens here: each with the mistake put back.

| | upstream | here |
|---|---|---|
| R1 | members ask one broker each, and hear different lists | different_lists_still_own_every_queue_once |
| R2 | a client with two lines counts twice | a_phantom_line_moves_nothing, one_client_on_two_lines_is_one_member |
| R3 | two processes under one id | a_second_process_under_one_id…, an_id_that_is_listed_twice_is_told_of |
| R4 | not on the list: everything is dropped | a_broker_that_forgot_its_members_takes_nothing_from_them |
| R5 | no list counts as balanced, until 20 s later | a_list_that_did_not_come_is_asked_for_soon |
| R6 | nobody is told when a silent member is dropped | members_are_told_of_one_that_fell_silent |
| R7 | one live group keeps all groups of its line alive | a_group_that_a_client_no_longer_speaks_of_grows_old |
| R8 | a heartbeat waits for dead name servers | a_heartbeat_is_answered_in_time_whatever_name_servers_do |
| R9 | each change is told to every group at once | a_storm_of_joins_costs_few_notices |
| R10 | the last heartbeat decides what all members want | members_with_other_topics_do_not_take_them_from_each_other |
| R11 | members with other fingerprints are asked again for ever | two_fingerprints_do_not_flip |
| R12 | a lock is kept when a heartbeat has nothing to say | cannot be: heartbeats take no lock |
| R13 | a heartbeat says that it has no subscriptions and brings them | cannot be: ours always bring them and say so |
| R22 | a lock of the group sends retries to the dead letters | a_lock_of_the_group_sends_no_retry_to_the_dead_letters |

The others are in test_upstream_consumers.py.
"""

from collections.abc import Callable

from msgspec.structs import replace
from tests.balance.crowd import NAMES, Crowd
from tests.broker.client import Client, ids, view, wants
from tests.broker.desk import Desk, message
from tests.broker.reader import make_topic, pull, pull_header
from tests.sim.apache_guest import Guest
from tests.sim.cluster import GROUP, Cluster
from tests.sim.scene import Scene
from tests.sim.talker import Talker
from tests.sim.upstream import apache_of, fails_with, held_by, join, upstream, with_java

from steelyard.balance import lists
from steelyard.balance.allocate import Average
from steelyard.balance.member_options import Times
from steelyard.balance.rounds import NEVER_MS, BackOff
from steelyard.balance.routes import Routes
from steelyard.broker import members as registry
from steelyard.broker import membership
from steelyard.broker.members import Beat, Heard, Member, MemberGroup, Members
from steelyard.broker.notices import Notices
from steelyard.broker.requests import send as sends
from steelyard.broker.state import State
from steelyard.broker.storing import Place
from steelyard.broker.wants import Subscriptions
from steelyard.sim.facts import Planned
from steelyard.sim.line import Line
from steelyard.sim.planted.bug import Bug, swap
from steelyard.sim.servers import BrokerProcess, NameServerProcess
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import HeartbeatAnswer
from steelyard.wire.headers.send import SendShort

# -- R1 to R5: what members make of lists ------------------------------------------------------------------------------


def _one_broker_each(routes: Routes, brokers: list[str]) -> tuple[str, ...]:
    """Ask one broker only: as chance has it, the second member another one than the rest."""
    is_second = routes._options.id.startswith("10.0.2.2@")
    return tuple(brokers[:1] if is_second else brokers[-1:])


@upstream("each member asks one broker who is in the group", swap(Routes, "_choose", _one_broker_each))
def test_members_that_hear_different_lists_still_own_every_queue_once(bug: Bug | None) -> None:
    scene = Scene("apache", brokers=2, queues=4)
    members = [scene.member(number, is_steered=False, strategy=Average()) for number in (1, 2)]
    scene.run(5_000)
    scene.world.network.part("10.0.2.3@3@sy1", "b1")
    members.append(scene.member(3, is_steered=False, strategy=Average()))
    scene.run(10_000)
    listed = apache_of(scene).state.registry.get(GROUP)
    assert listed is not None
    assert len(listed.lines) == 2, "one broker misses a member"
    with fails_with(bug):
        assert held_by(*members) == dict.fromkeys(scene.queues, 1)


@with_java
def test_a_phantom_line_moves_nothing(bug: Bug | None) -> None:
    scene = Scene("apache", queues=6)
    members = [join(scene, number, bug) for number in (1, 2)]
    scene.run(25_000)
    assert held_by(*members) == dict.fromkeys(scene.queues, 1)
    Guest(scene.world, "phantom", apache_of(scene)).beat(members[0].name)
    scene.run(25_000)
    with fails_with(bug):
        assert held_by(*members) == dict.fromkeys(scene.queues, 1)


def _id_of_each_line(group: MemberGroup) -> list[str]:
    return sorted(member.id for member in group.members.values() for _ in member.lines)


@upstream("members are counted by line", swap(MemberGroup, "ids", property(_id_of_each_line)))
def test_one_client_on_two_lines_is_one_member(bug: Bug | None) -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    client.reconnect()
    with fails_with(bug):
        assert ids(desk) == ["c1"]


@upstream(
    "nobody minds two processes under one id",
    swap(Members, "rival", lambda _members, _beat, _now_ms: None),
    swap(Member, "is_twice", property(lambda _member: False)),
)
def test_a_second_process_under_one_id_is_refused_or_at_least_told_of(bug: Bug | None) -> None:
    desk = Desk()
    Client(desk, "c1").beat()
    second = Client(desk, "c1", instance="another process").beat()
    for _ in range(2):
        Client(desk, "j1", ours=False, group="java").beat()
    with fails_with(bug):
        assert "give every member an id of its own" in (second.remark or "")
    with fails_with(bug):
        assert any("j1 on several lines" in sentence for sentence in view(desk, "java").hazards or ())


@upstream("what a list shows is not looked at", swap(lists, "duplicate_ids", lambda _group, _ids: []))
def test_an_id_that_is_listed_twice_is_told_of(bug: Bug | None) -> None:
    scene = Scene("apache", queues=2)
    member = scene.member(1, is_steered=False)
    scene.run(2_000)
    Guest(scene.world, "phantom", apache_of(scene)).beat(member.name)
    scene.run(60_000)
    told = [sentence for kind, sentence in scene.reports() if kind == "hazard" and "more than once" in sentence]
    with fails_with(bug):
        assert len(told) == 1


@with_java
def test_a_broker_that_forgot_its_members_takes_nothing_from_them(bug: Bug | None) -> None:
    scene = Scene("apache", queues=4)
    members = [join(scene, 1, bug, version="4.9")]
    scene.run(10_000)
    members.append(join(scene, 2, bug, version="4.9"))
    scene.run(35_000)
    assert held_by(*members) == dict.fromkeys(scene.queues, 1)
    broker = apache_of(scene)
    restarted_ms = scene.world.now_ms()
    broker.crash()
    broker.restart()
    scene.run(40_000)
    plans = [fact for fact in scene.facts(Planned) if isinstance(fact, Planned) and fact.at_ms > restarted_ms]
    with fails_with(bug):
        assert not plans, "nobody changed anything"


@upstream("no list is as good as a balanced group", swap(BackOff, "after", lambda _wait, _now_ms: NEVER_MS))
def test_a_list_that_did_not_come_is_asked_for_soon(bug: Bug | None) -> None:
    crowd = Crowd({"a": {"t": 4}}, times=Times(round_soon_ms=20_000))
    crowd.brokers["a"].is_silent = True
    member = crowd.join(NAMES[0], "t")
    crowd.run(4_000)
    crowd.brokers["a"].is_silent = False
    crowd.run(8_000)
    with fails_with(bug):
        assert len(member.plan) == 4


# -- R6 to R11: what a broker makes of heartbeats ----------------------------------------------------------------------


def _gone_quietly(_state: State, _member: Member, _now_ms: int) -> None:
    """Tell nobody."""


@upstream("nobody is told of a silent member that was dropped", swap(membership, "_gone", _gone_quietly))
def test_members_are_told_of_one_that_fell_silent(bug: Bug | None) -> None:
    desk = Desk()
    silent, other = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    silent.beat()
    for _ in range(4):
        other.beat()
        desk.advance(29_000, step_ms=1_000)
    other.notices()
    desk.advance(10_000, step_ms=1_000)
    assert ids(desk) == ["c2"]
    with fails_with(bug):
        assert other.notices() == 1


_heard = Members.heard


def _refresh_the_line(members: Members, beat: Beat, now_ms: int) -> Heard:
    """Take a heartbeat of one group for one of every group on the line."""
    heard = _heard(members, beat, now_ms)
    for member in members._on_line[beat.peer.number].values():
        member.seen_ms = now_ms
    return heard


@upstream("all groups of a line share one time", swap(Members, "heard", _refresh_the_line))
def test_a_group_that_a_client_no_longer_speaks_of_grows_old(bug: Bug | None) -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    former = Client(desk, "c1", ours=False, group="former")
    former.line = client.line
    former.beat()
    for _ in range(5):
        client.beat()
        desk.advance(30_000, step_ms=1_000)
    assert ids(desk) == ["c1"]
    with fails_with(bug):
        assert ids(desk, "former") == []


_hear = BrokerProcess.heard


def _hear_after_registering(broker: BrokerProcess, line: Line, command: Command) -> None:
    """Register the group's topic first, with one name server after the other."""
    servers = [each for each in broker.world.processes.values() if isinstance(each, NameServerProcess)]
    dead = sum(not server.is_alive for server in servers)
    if command.code == RequestCode.HEART_BEAT and dead:
        broker.after(3_000 * dead, lambda: _hear(broker, line, command))
    else:
        _hear(broker, line, command)


@upstream("a heartbeat waits for all name servers", swap(BrokerProcess, "heard", _hear_after_registering))
def test_a_heartbeat_is_answered_in_time_whatever_name_servers_do(bug: Bug | None) -> None:
    cluster = Cluster(name_servers=3)
    for server in cluster.names[1:]:
        server.kill("vanished")
    client = Talker(cluster.world, "c1", cluster.brokers[0].options.address)
    cluster.run(100)
    client.say_beat()
    cluster.run(1_500)
    with fails_with(bug):
        assert client.opaque in client.answers, "Java's clients wait for 3 s"


@upstream("every change is told at once", swap(Notices, "changed", lambda _notices, _group, _now_ms: True))
def test_a_storm_of_joins_costs_few_notices(bug: Bug | None) -> None:
    desk = Desk()
    bystander = Client(desk, "b1", group="another")
    bystander.beat()
    bystander.notices()
    clients = [Client(desk, f"c{number:02d}", ours=False) for number in range(40)]
    for client in clients:
        client.beat()
        desk.advance(5, step_ms=5)
    desk.advance(1_000)
    told = [client.notices() for client in clients]
    assert bystander.notices() == 0
    assert min(told) >= 1, "the last change reaches everybody"
    with fails_with(bug):
        assert max(told) <= 3


def _of_who_spoke_last(group: MemberGroup) -> Subscriptions:
    return max(group.members.values(), key=lambda member: member.seen_ms).subscriptions


@upstream(
    "a heartbeat overwrites what the group wants", swap(MemberGroup, "subscriptions", property(_of_who_spoke_last))
)
def test_members_with_other_topics_do_not_take_them_from_each_other(bug: Bug | None) -> None:
    desk = Desk()
    make_topic(desk, "orders")
    make_topic(desk, "refunds")
    first, second = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    first.beat(wants("orders"))
    desk.advance(10)
    second.beat(wants("refunds"))
    # Another line of the first one, which no member is known by, reads what the group wants.
    answers = [
        pull(desk, pull_header(topic=topic, flags=0, wanted=None, kind=None)).code for topic in ("orders", "refunds")
    ]
    assert any("other topics than most" in sentence for sentence in view(desk).hazards or ())
    with fails_with(bug):
        assert answers == [19, 19]


def _asks_again_by_group(kept: dict[str, int]) -> Callable[[Member, Beat], bool]:
    def asks_again(member: Member, beat: Beat) -> bool:
        known, kept[member.group] = kept.get(member.group), beat.fingerprint
        return known is not None and known != beat.fingerprint

    return asks_again


@upstream("a group has one fingerprint", swap(registry, "_asks_again", _asks_again_by_group({})))
def test_two_fingerprints_do_not_flip(bug: Bug | None) -> None:
    desk = Desk()
    clients = [Client(desk, f"c{number}", ours=False) for number in (1, 2)]
    for number, client in enumerate(clients, 1):
        client.beat(fingerprint=number)
    again = [
        client.beat(fingerprint=number, without_subscriptions=True).header(HeartbeatAnswer).subscription_changed
        for _ in range(3)
        for number, client in enumerate(clients, 1)
    ]
    with fails_with(bug):
        assert not any(again)


# -- R22 ---------------------------------------------------------------------------------------------------------------

_retry_or_dead = sends._retry_or_dead


def _dead_if_locked(state: State, header: SendShort, place: Place, properties: dict[str, str], now_ms: int) -> Place:
    """Take any lock of the group for a sign that its messages come in order, and so are given up."""
    if next(state.locks.of("billing", now_ms), None) is not None:
        header = replace(header, reconsume_times=1_000)
    return _retry_or_dead(state, header, place, properties, now_ms)


@upstream("retries of a group that holds a lock are dead letters", swap(sends, "_retry_or_dead", _dead_if_locked))
def test_a_lock_of_the_group_sends_no_retry_to_the_dead_letters(bug: Bug | None) -> None:
    desk = Desk()
    make_topic(desk, "orders", queues=2)
    orderly, concurrent = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    orderly.beat()
    concurrent.beat()
    assert orderly.lock(0)
    retry = message("%RETRY%billing", "UNIQ_KEY\x01U1\x02RETRY_TOPIC\x01orders\x02DELAY\x011\x02", reconsume_times=1)
    assert desk.ask(RequestCode.SEND_MESSAGE_V2, retry, b"again", peer=concurrent.line).code == 0
    desk.advance(2_000)
    with fails_with(bug):
        assert [record.body for record in desk.topic("%RETRY%billing")] == [b"again"]
