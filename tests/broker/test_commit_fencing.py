"""Commits of members that lost their queue count no more."""

import pytest

from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Peer
from steelyard.wire.headers.group import CommitOffset
from tests.broker.broker_harness import BrokerHarness
from tests.broker.pull_requests import bodies, make_topic, pull, pull_header, send_heartbeat, store_messages


class Case:
    """A queue that one of two members holds."""

    def __init__(self, harness: BrokerHarness) -> None:
        self.harness = harness
        make_topic(harness)
        store_messages(harness, [b"x"] * 50)
        self.owner, self.other, self.nobody = harness.connect(), harness.connect(), harness.connect()
        send_heartbeat(harness, "owner", self.owner)
        send_heartbeat(harness, "other", self.other)
        lock = harness.state.queue_locks.acquire(
            "billing", ("orders", 0), "owner", harness.now_ms, until_ms=harness.now_ms + 60_000, is_lease=False
        )
        assert lock is not None
        self.epoch = lock.epoch
        self.commit(10, self.owner)

    def commit(self, offset: int, peer: Peer, epoch: int | None = None) -> int:
        """Commit on a connection; return the code of the answer."""
        header = CommitOffset("billing", "orders", 0, offset, epoch)
        return self.harness.request(RequestCode.UPDATE_CONSUMER_OFFSET, header, peer=peer).code

    @property
    def now(self) -> tuple[int | None, int]:
        """What is committed, and how many commits were refused."""
        offsets = self.harness.state.offsets
        return offsets.get("billing", "orders", 0), offsets.fenced_commits


@pytest.fixture
def case() -> Case:
    """Open a broker with a held queue, where 10 is committed."""
    return Case(BrokerHarness())


def test_the_owner_commits_forth_and_back_with_its_epoch_or_without(case: Case) -> None:
    assert case.commit(12, case.owner) == 0
    assert case.commit(20, case.owner, case.epoch) == 0
    assert case.commit(15, case.owner) == 0
    assert case.now == (15, 0)


def test_another_member_is_refused_whatever_it_commits(case: Case) -> None:
    assert case.commit(5, case.other) == 16
    assert case.commit(40, case.other) == 16
    assert case.commit(40, case.other, case.epoch) == 16
    assert case.now == (10, 3)


def test_another_epoch_is_refused_even_to_the_owner(case: Case) -> None:
    assert case.commit(40, case.owner, case.epoch - 1) == 16
    assert case.commit(40, case.nobody, case.epoch + 1) == 16
    assert case.now == (10, 2)


def test_a_connection_of_nobody_may_go_on_but_not_back(case: Case) -> None:
    assert case.commit(9, case.nobody) == 16
    assert case.commit(10, case.nobody) == 0
    assert case.commit(11, case.nobody) == 0
    assert case.now == (11, 1)


def test_a_queue_that_nobody_holds_takes_what_comes(case: Case) -> None:
    case.harness.now_ms += 60_000
    assert case.commit(3, case.other) == 0
    assert case.commit(2, case.nobody) == 0
    assert case.now == (2, 0)
    assert case.harness.state.offsets.backward_commits == 2


def test_a_queue_that_nobody_holds_is_not_taken_back_under_an_epoch(case: Case) -> None:
    case.harness.now_ms += 60_000
    assert case.commit(9, case.nobody, case.epoch) == 16
    assert case.commit(9, case.owner, case.epoch) == 16
    assert case.commit(10, case.owner, case.epoch) == 0
    assert case.commit(12, case.owner, case.epoch) == 0
    assert case.now == (12, 2)


def test_a_commit_that_comes_with_a_pull_is_evaluated_the_same_and_the_pull_is_served(case: Case) -> None:
    answer = pull(case.harness, pull_header(20, flags=5, commit=20, most=2), peer=case.other)
    assert (bodies(answer), case.now) == ([b"x"] * 2, (10, 1))
    pull(case.harness, pull_header(20, flags=5, commit=20), peer=case.owner)
    assert case.now == (20, 1)


def test_a_one_way_commit_that_is_refused_is_counted_and_not_answered(case: Case) -> None:
    header = CommitOffset("billing", "orders", 0, 40)
    case.harness.send(RequestCode.UPDATE_CONSUMER_OFFSET, header, peer=case.other, oneway=True)
    assert (case.now, case.harness.sent_to(case.other)) == ((10, 1), [])
