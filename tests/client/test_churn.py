"""Members that come and go while messages flow lose nothing and handle nothing twice: the short version.

The long ones, with members in processes of their own and Apache's brokers too, are in tests/interop.
"""

from pathlib import Path

import pytest

from tests.churn.handler_log import out_of_order, overlaps, repeats
from tests.churn.member import Orders
from tests.churn.steady_producer import SteadyProducer
from tests.churn.trial import LocalMember, Trial, up_and_down
from tests.interop.backends import OURS
from tests.interop.mixed.broker_pairs import running_pair

MESSAGES, A_SECOND = 3000, 1500
QUEUES, MOST = 6, 3


@pytest.mark.timeout(120)
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_planned_changes_lose_nothing_and_repeat_nothing(tmp_path: Path, *, orderly: bool) -> None:
    with running_pair(OURS, tmp_path) as pair:
        queues = pair.make_topic("orders", QUEUES)
        orders = Orders(pair.name_server, "billing", "orders", "", orderly=orderly)
        trial = Trial(SteadyProducer(pair, queues, MESSAGES, A_SECOND), orders, tmp_path, LocalMember)
        handlings = trial.run([*up_and_down(trial, MOST), trial.replace], patience_s=60)
    assert {each.uid for each in handlings} == trial.flow.sent
    assert len(trial.flow.sent) == MESSAGES
    assert not repeats(handlings)
    if orderly:
        assert not out_of_order(handlings)
        assert not list(overlaps(handlings))
