"""The demo's proof counts honestly, and its pictures say what moved and why."""

from collections import Counter
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from steelyard.balance.ledger import Standing
from steelyard.cli.demo.pictures import Pictures
from steelyard.cli.demo.proof import Proof
from steelyard.model import Queue

QUEUES = [Queue("orders", broker, number) for broker in ("broker-0", "broker-1") for number in range(4)]


def proof(sent: int, handled: list[tuple[int, str]], killed: str = "") -> Proof:
    made = Proof()
    for number in range(sent):
        made.note_sent(number, "broker-0")
    for number, member in handled:
        made.note_handled(number, member)
    if killed:
        made.note_killed(killed)
    return made


def test_all_handled_once_is_proof() -> None:
    verdict = proof(2, [(0, "c1"), (1, "c2")]).verdict()
    assert (verdict.sent, verdict.handled, verdict.lost, verdict.twice, verdict.twice_by_crash) == (2, 2, 0, 0, 0)
    assert verdict.holds


@pytest.mark.parametrize(
    ("handled", "killed"),
    [
        ([(0, "c1")], ""),  # one is lost
        ([(0, "c1"), (1, "c1"), (1, "c2")], ""),  # no crash explains the second time
        ([(0, "c1"), (1, "c1"), (1, "c3")], "c2"),  # nor does that of somebody else
        ([(0, "c1"), (1, "c2"), (1, "c2")], "c2"),  # nor does it explain twice by the same
        ([(0, "c1"), (1, "c2"), (1, "c1"), (1, "c3")], "c2"),  # nor a third time
    ],
)
def test_what_no_crash_explains_is_no_proof(handled: list[tuple[int, str]], killed: str) -> None:
    assert not proof(2, handled, killed).verdict().holds


def test_a_second_time_because_of_a_crash_is_counted_apart() -> None:
    verdict = proof(2, [(0, "c1"), (1, "c2"), (1, "c1")], "c2").verdict()
    assert (verdict.twice, verdict.twice_by_crash, verdict.holds) == (0, 1, True)


def test_a_failed_send_and_nothing_sent_are_no_proof() -> None:
    made = proof(1, [(0, "c1")])
    made.note_failed()
    assert not made.verdict().holds
    assert not Proof().verdict().holds


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["c1", "c2", "c3"])), max_size=20))
def test_every_message_is_counted_in_one_place(handled: list[tuple[int, str]]) -> None:
    made = proof(6, handled, "c2")
    verdict = made.verdict()
    again = sum(times > 1 for times in Counter(number for number, _ in handled).values())
    assert verdict.twice + verdict.twice_by_crash == again
    assert verdict.lost + verdict.handled == 6
    assert made.is_all_handled() is (verdict.lost == 0)


def test_pictures_fit_and_say_what_moved_and_why() -> None:
    out = StringIO()
    page = Pictures(Console(file=out, width=80, markup=False), QUEUES)
    page.head()
    page.row("c1 is alone", {"c1": QUEUES})
    page.row("c2 joins", {"c1": QUEUES[:4], "c2": QUEUES[4:]})
    page.row("c1 is killed (-9)", {"c2": QUEUES})
    page.shares("before", Counter({"broker-0": 3, "broker-1": 1}))
    page.standing(Standing("broker-1", 803, 410, 0.0, 12_000, 10_000, "it took 803 ms"))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines] == [
        ["broker-0", "broker-1", "each"],
        ["c1", "is", "alone", "1111", "1111", "8"],
        ["c2", "joins", "1111", "2222", "4/4"],
        "4 queues from c1 to c2: c1 had 4 more than its share".split(),
        "4 moved, and 4 is the least possible".split(),
        ["c1", "is", "killed", "(-9)", "2222", "2222", "8"],
        "4 queues from c1 to c2: c1 left".split(),
        "4 moved, and 4 is the least possible".split(),
        ["before", "broker-0", "75", "%", "broker-1", "25", "%"],
        "ledger: broker-1 usually takes 410 ms; avoided for 2.0 s: it took 803 ms".split(),
    ]
