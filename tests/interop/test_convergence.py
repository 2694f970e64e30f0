"""How long our group needs until every queue has exactly one owner again: on our brokers and on Apache's.

Members are processes of ours that report what they hold. A join counts from the moment in which a running process was
told to join, a goodbye from when it was told, a crash from the kill, a hang from the stop signal, new queues from the
request. `STEELYARD_CHANGES` says how many changes of each kind (10 unless told otherwise; a tenth of them for hangs,
each of which takes the time in which a broker believes in silence). Figures are shown by `-rP` and kept.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.backends import chosen
from tests.interop.mixed.broker_pairs import BrokerPair, running_pair
from tests.interop.mixed.figures import percentile, show
from tests.interop.mixed.mixed_group import MixedGroup, SettledChange
from tests.interop.mixed.reporting_members import OURS, MemberFleet

pytestmark = pytest.mark.timeout(3600)

CHANGES = int(os.environ.get("STEELYARD_CHANGES", "10"))
HANGS = max(1, CHANGES // 10)
MEMBERS, QUEUES = 4, 16
QUIET_S = 0.5
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=chosen())
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    """Run two brokers of one backend."""
    with running_pair(request.param, tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture
def troupe() -> Iterator[MemberFleet]:
    """Keep processes for members."""
    with MemberFleet() as troupe:
        yield troupe


@pytest.fixture
def party(troupe: MemberFleet, pair: BrokerPair) -> Iterator[MixedGroup]:
    """Let some members share the queues of a topic."""
    number = next(_numbers)
    queues = pair.make_topic(f"converging-{number}", QUEUES)
    troupe.ready(OURS, MEMBERS)
    party = MixedGroup(troupe, pair, f"convergers-{number}", {"name": "sticky"}, queues, quiet_s=QUIET_S)
    for _ in range(MEMBERS):
        party.join(OURS)
    yield party
    party.end()


def test_joins_and_goodbyes(party: MixedGroup, troupe: MemberFleet, tmp_path: Path) -> None:
    joins, leaves = [], []
    for _ in range(CHANGES):
        troupe.ready(OURS)
        joins.append(party.join(OURS))
        leaves.append(party.leave(party.members[0]))
    _show(party, {"join": joins, "leave": leaves}, tmp_path)


def test_kills(party: MixedGroup, troupe: MemberFleet, tmp_path: Path) -> None:
    kills = []
    for _ in range(CHANGES):
        kills.append(party.kill(party.members[0]))
        troupe.ready(OURS)
        party.join(OURS)
    _show(party, {"kill": kills}, tmp_path)


def test_hangs(party: MixedGroup, troupe: MemberFleet, tmp_path: Path) -> None:
    if not party.pair.is_ours:
        pytest.skip("Apache's broker believes in silence for two minutes")
    hangs = []
    for _ in range(HANGS):
        member = party.members[0]
        hangs.append(party.freeze(member))
        member.kill()
        troupe.ready(OURS)
        party.join(OURS)
    _show(party, {"hung": hangs}, tmp_path)


def test_queues_added(party: MixedGroup, tmp_path: Path) -> None:
    (topic,) = {queue.topic for queue in party.queues}
    grown = [party.grow(topic, len(party.queues) + 2) for _ in range(CHANGES)]
    _show(party, {"queues added": grown}, tmp_path)


def _show(party: MixedGroup, changes: dict[str, list[SettledChange]], folder: Path) -> None:
    rows = []
    for what, some in changes.items():
        times = [change.settled_ms for change in some]
        rows.append(
            {
                "change": what,
                "times": len(times),
                "p50 ms": percentile(times, 0.5),
                "p90 ms": percentile(times, 0.9),
                "p99 ms": percentile(times, 0.99),
                "most ms": max(times),
            }
        )
    show(f"until every queue has one owner, {MEMBERS} members, {QUEUES} queues, on {party.pair.backend}", rows, folder)
