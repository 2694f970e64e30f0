"""Groups of Java's, Go's and our members: whoever comes, goes or dies, every queue has exactly one owner.

Members report themselves what they hold. All share by one of Java's strategies, on two brokers, a topic of sixteen
queues and one of seven. AVG, AVG_BY_CIRCLE, MACHINE_ROOM and CONFIG are shared by Java, Go and ours; CONSISTENT_HASH
and MACHINE_ROOM_NEARBY by Java and ours, since Go's are something else. Java and Go look by themselves every twenty
seconds, as users have them: it is the notices of brokers that make them quick.

What is measured is how long after each change the last member of each kind reported. `STEELYARD_INTEROP` says whose
brokers, as for the other tests here; figures are shown by `-rP` and kept (mixed/figures.py).
"""

import itertools
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median

import pytest

from steelyard.model import Queue
from tests.interop.backends import chosen
from tests.interop.clients import until
from tests.interop.mixed.broker_pairs import BrokerPair, running_pair
from tests.interop.mixed.command_line import consuming
from tests.interop.mixed.figures import show
from tests.interop.mixed.mixed_group import MixedGroup, SettledChange
from tests.interop.mixed.reporting_members import GO, JAVA, JAVA_4, JAVA_5, OURS, Held, MemberFleet
from tests.interop.mixed.strategies import SHARED_BY_ALL, SHARED_WITH_JAVA, Words

pytestmark = pytest.mark.timeout(900)

QUEUES = (16, 7)
SETTLED_S = 60
LATE_MS = 300
"""How much later than Java's our members may be done with a change, half of the times."""
HEARD_S = 2
"""How long members are watched that have nothing to do."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=chosen())
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    """Run two brokers of one backend."""
    with running_pair(request.param, tmp_path_factory.mktemp("pair")) as running:
        running.grow_up()
        yield running


@pytest.fixture(scope="module")
def troupe() -> Iterator[MemberFleet]:
    """Keep processes for members."""
    with MemberFleet() as troupe:
        yield troupe


@pytest.fixture
def queues(pair: BrokerPair) -> list[Queue]:
    """Make two topics that no other test knows."""
    return [queue for count in QUEUES for queue in pair.make_topic(f"mixed-{next(_numbers)}-of-{count}", count)]


def _name(allocate: Words) -> str:
    return str(allocate["name"])


@pytest.mark.parametrize("allocate", [*SHARED_BY_ALL, *SHARED_WITH_JAVA], ids=_name)
def test_every_queue_has_one_owner_whoever_comes_and_goes(
    troupe: MemberFleet, pair: BrokerPair, queues: list[Queue], tmp_path: Path, allocate: Words
) -> None:
    others = [JAVA_4, JAVA_5, *([GO] if allocate in SHARED_BY_ALL else [])]
    for kind in (OURS, OURS, *others):
        troupe.ready(kind)
    party = MixedGroup(troupe, pair, f"mixed-{next(_numbers)}", allocate, queues)
    party.join(JAVA_4, machine_room="west")
    party.join(OURS)
    for kind in others[1:]:
        party.join(kind)
    party.join(OURS, machine_room="west")
    party.leave(party.of(OURS))
    party.join(OURS)
    party.leave(party.of(others[-1]))
    party.join(others[-1])
    party.kill(party.of(OURS))
    party.kill(party.of(JAVA_4))
    party.join(JAVA_4)
    party.kill(party.of(JAVA_5))
    rows = [_row(each) for each in party.changes]
    show(f"{_name(allocate)} on {pair.backend}: ms until the last report", rows, tmp_path)
    party.end()
    late = [
        ours - (change.slowest_ms(JAVA) or 0)
        for change in party.changes
        if (ours := change.slowest_ms([OURS])) is not None and change.slowest_ms(JAVA) is not None
    ]
    # Ours take nothing that Java has not let go of, and on Apache's brokers wait a moment for a connection blip.
    assert median(late) <= LATE_MS, late


def test_members_with_lists_of_their_own_take_these_and_no_others(
    troupe: MemberFleet, pair: BrokerPair, queues: list[Queue]
) -> None:
    kinds, group = (JAVA_4, JAVA_5, GO, OURS), f"mixed-{next(_numbers)}"
    parts = [frozenset(queues[number :: len(kinds)]) for number in range(len(kinds))]
    members = [troupe.member(kind, sorted({queue.topic for queue in queues})) for kind in kinds]
    for member, part in zip(members, parts, strict=True):
        member.join(pair.name_server, group, {"name": "CONFIG", "queues": sorted(part)})

    def held() -> list[Held]:
        return [member.held() for member in members]

    until(held, lambda found: found == parts, seconds=SETTLED_S)
    # Whoever goes leaves its list to nobody: all others hear of it, and keep theirs.
    for kind in (JAVA_4, OURS):
        gone = next(member for member in members if member.kind == kind)
        members.remove(gone)
        parts.remove(gone.held())
        gone.leave()
        _wait_until_gone(pair, group, gone.id)
        end = time.monotonic() + HEARD_S
        while time.monotonic() < end:
            assert held() == parts
            time.sleep(0.05)
    for member in members:
        member.leave()


def test_the_command_line_shares_with_java_and_leaves_in_order(
    troupe: MemberFleet, pair: BrokerPair, queues: list[Queue]
) -> None:
    topics, group = sorted({queue.topic for queue in queues}), f"mixed-{next(_numbers)}"
    java = troupe.member(JAVA_4, topics)
    java.join(pair.name_server, group, {"name": "AVG"})
    until(java.held, lambda held: held == frozenset(queues), seconds=SETTLED_S)
    with consuming(pair.name_server, group, topics, "AVG") as member:
        both = until(
            lambda: (java.held(), member.held()),
            lambda held: [sorted(map(len, _by_topic(each))) for each in held] in ([[3, 8], [4, 8]], [[4, 8], [3, 8]]),
            seconds=SETTLED_S,
        )
        assert not both[0] & both[1]
        assert both[0] | both[1] == frozenset(queues)
        assert member.leave() == 0
        assert len(member.ids) == 1
    until(java.held, lambda held: held == frozenset(queues), seconds=SETTLED_S)
    java.leave()


def _by_topic(held: Held) -> list[list[Queue]]:
    topics = {queue.topic for queue in held}
    return [[queue for queue in held if queue.topic == topic] for topic in topics]


def _wait_until_gone(pair: BrokerPair, group: str, member: str) -> None:
    until(lambda: pair.listed(group), lambda listed: member not in {*chain(*listed.values())}, seconds=SETTLED_S)


def _row(change: SettledChange) -> dict[str, object]:
    return {
        "change": change.what,
        "ours": change.slowest_ms([OURS], without_joined=True),
        "java": change.slowest_ms(JAVA, without_joined=True),
        JAVA_4: change.slowest_ms([JAVA_4], without_joined=True),
        JAVA_5: change.slowest_ms([JAVA_5], without_joined=True),
        GO: change.slowest_ms([GO], without_joined=True),
        "joiner": change.took_ms.get(change.joined or ""),
        "all": change.settled_ms,
    }
