"""A group of ours under churn, on our brokers and on Apache's: nothing is lost, and only a crash makes work twice.

Every member is a process that writes down what it begins and ends. `STEELYARD_CHURN` says how many messages flow in
each trial, 10,000 unless told otherwise; `STEELYARD_INTEROP` says whose brokers. Figures are shown by `-rP`.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.churn.handler_log import HandlerRun, out_of_order, overlaps, repeats
from tests.churn.member import Orders
from tests.churn.steady_producer import SteadyProducer
from tests.churn.trial import Trial, crashes, rolling_restart, up_and_down
from tests.interop.backends import chosen
from tests.interop.mixed.broker_pairs import BrokerPair, running_pair
from tests.interop.mixed.figures import show

pytestmark = pytest.mark.timeout(1800)

MESSAGES = int(os.environ.get("STEELYARD_CHURN", "10000"))
A_SECOND = min(2500, MESSAGES // 40)
"""So that they flow for as long as members come and go."""
QUEUES = 16
MOST = 8
PATIENCE_S = 180
COMMIT_NS = 1_000_000_000
SLACK_NS = 1_000_000_000
"""A commit is sent each second; on a busy machine it and its answer take a while."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=chosen())
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    """Run two brokers of one backend."""
    with running_pair(request.param, tmp_path_factory.mktemp("pair")) as running:
        yield running


def _trial(pair: BrokerPair, folder: Path, *, orderly: bool, handling_ms: float = 0) -> Trial:
    number = next(_numbers)
    queues = pair.make_topic(f"churn-{number}", QUEUES)
    orders = Orders(
        pair.name_server, f"churners-{number}", queues[0].topic, "", orderly=orderly, handling_ms=handling_ms
    )
    return Trial(SteadyProducer(pair, queues, MESSAGES, A_SECOND), orders, folder)


def _planned(trial: Trial) -> list[Callable[[], None]]:
    return [*up_and_down(trial, MOST), *rolling_restart(trial, MOST // 2)]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_planned_changes_lose_nothing_and_repeat_nothing(pair: BrokerPair, tmp_path: Path, *, orderly: bool) -> None:
    trial = _trial(pair, tmp_path, orderly=orderly)
    handlings = trial.run(_planned(trial), patience_s=PATIENCE_S)
    again, disorder = repeats(handlings), out_of_order(handlings) if orderly else []
    together = list(overlaps(handlings)) if orderly else []
    _show(f"planned churn, {'orderly' if orderly else 'concurrent'}, on {pair.backend}", trial, handlings, tmp_path)
    assert not again, _some(again)
    assert not disorder
    assert not together


def test_a_kill_repeats_no_more_than_was_not_committed(pair: BrokerPair, tmp_path: Path) -> None:
    trial = _trial(pair, tmp_path, orderly=False, handling_ms=2)
    handlings = trial.run(crashes(trial, 4, 8), patience_s=PATIENCE_S)
    _show(f"kills, concurrent, on {pair.backend}", trial, handlings, tmp_path)
    killed_ns = {member.log.stem: member.killed_ns for member in trial.gone if member.killed_ns is not None}
    for found in repeats(handlings).values():
        first, *others = found
        assert len(others) == 1, found
        assert first.member in killed_ns, found
        assert first.end_ns is None or first.end_ns > killed_ns[first.member] - COMMIT_NS - SLACK_NS, found


def test_order_is_kept_through_kills(pair: BrokerPair, tmp_path: Path) -> None:
    if not pair.is_ours:
        pytest.skip("Apache's broker keeps the locks of a dead member for a minute")
    trial = _trial(pair, tmp_path, orderly=True)
    handlings = trial.run(crashes(trial, 4, 8), patience_s=PATIENCE_S)
    _show(f"kills, orderly, on {pair.backend}", trial, handlings, tmp_path)
    assert not out_of_order(handlings)
    assert not list(overlaps(handlings))


def _show(title: str, trial: Trial, handlings: list[HandlerRun], folder: Path) -> None:
    under_way = sum(each.end_ns is None for each in handlings)
    again = repeats(handlings)
    killed_ns = {member.log.stem: member.killed_ns for member in trial.gone if member.killed_ns is not None}
    row = {
        "sent": len(trial.flow.sent),
        "lost": len(trial.flow.sent - {each.uid for each in handlings if each.end_ns is not None}),
        "twice": len(again),
        "members": len(trial.gone),
        "killed": len(killed_ns),
        "under way at kills": under_way,
        "oldest repeat, ms before its kill": max(
            (
                (killed_ns[found[0].member] - found[0].end_ns) // 1_000_000
                for found in again.values()
                if found[0].end_ns is not None and found[0].member in killed_ns
            ),
            default=None,
        ),
    }
    show(title, [row], folder)


def _some(again: dict[str, list[HandlerRun]]) -> str:
    return f"{len(again)} messages were handled twice, such as {list(again.values())[:3]}"
