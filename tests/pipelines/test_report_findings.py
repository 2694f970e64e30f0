"""What a report says in words: the figures it names, and the advice that goes with them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from steelyard.diagnostics.topic import measure_skew
from steelyard.model.finding import Severity
from steelyard.pipelines.report.contents import (
    KeyInQueue,
    KeyLoad,
    QueueLoad,
    ReportContents,
    TopicTraffic,
    report_findings,
    summary_line,
)
from steelyard.pipelines.report.ownership import LEAVE_REASON, LagSample, OwnershipEvent
from steelyard.pipelines.report.rebalance_history import build_history
from tests.pipelines.report_contents import START_MS, busy_contents, queues_of, traffic_of


def _said(study: ReportContents) -> str:
    return "\n".join(map(str, report_findings(study)))


def _messages(*numbers: int, keyed: bool = True) -> ReportContents:
    loads = tuple(
        QueueLoad(queue, many, many * 10, KeyInQueue("k", many // 10) if many and keyed else None)
        for queue, many in zip(queues_of(len(numbers)), numbers, strict=True)
    )
    keyed_ones = sum(numbers) if keyed else 0
    return ReportContents(
        topic="orders", at_ms=0, traffic=TopicTraffic(queues=loads, keyed=keyed_ones, distinct_keys=1_000)
    )


@given(st.dictionaries(st.integers(), st.integers(0, 10**9), min_size=1, max_size=64))
def test_skew_goes_from_even_to_all_in_one(loads: dict[int, int]) -> None:
    weighed = measure_skew(loads)
    assert 1 <= weighed.ratio <= len(loads) + 1e-6
    assert weighed.total == sum(loads.values())
    assert weighed.empty == list(loads.values()).count(0)
    if weighed.busiest is not None:
        assert loads[weighed.busiest] == max(loads.values())


@given(st.integers(1, 64), st.integers(1, 10**6))
def test_the_same_for_all_is_even(parts: int, each: int) -> None:
    weighed = measure_skew(dict.fromkeys(range(parts), each))
    assert weighed.ratio == 1
    assert not weighed.is_uneven


def test_what_chance_does_is_not_called_uneven() -> None:
    assert not measure_skew({"a": 2, "b": 6, "c": 4}).is_uneven
    assert measure_skew({"a": 2_000, "b": 6_000, "c": 4_000}).is_uneven


def test_a_busy_queue_is_named_with_its_heaviest_key() -> None:
    sentences = _said(busy_contents())
    assert "queue broker-a:3 has 5.5 \N{MULTIPLICATION SIGN} the mean; key customer-7 alone is 70 % of it" in sentences
    assert "more queues do not help" in sentences


def test_several_heavy_keys_are_parted_by_more_queues() -> None:
    assert "use more queues" in _said(_messages(100_000, 20_000, 20_000, 20_000))


def test_without_keys_the_sender_is_to_be_looked_at() -> None:
    assert "check how their producer selects queues" in _said(_messages(100_000, 20_000, 20_000, 20_000, keyed=False))


def test_even_queues_are_fine() -> None:
    (finding, *_) = report_findings(_messages(10_000, 10_100, 9_900, 10_000))
    assert finding.severity is Severity.OK
    assert finding.message.startswith("queues are even")


def test_an_empty_topic_reports_it() -> None:
    study = _messages(0, 0)
    assert _said(study) == "orders got no messages in this period"
    assert "0 messages" in summary_line(study)


def test_a_key_in_several_queues_is_told_where_keys_decide() -> None:
    first, second = queues_of(2)
    keys = tuple(
        KeyLoad(f"k{each}", 100 - each, 10, 2 if each == 3 else 1, first if each % 2 else second) for each in range(10)
    )
    traffic = TopicTraffic(
        queues=(QueueLoad(first, 500), QueueLoad(second, 500)), keys=keys, keyed=1_000, distinct_keys=10
    )
    assert "key k3 is in 2 queues" in _said(ReportContents(topic="orders", at_ms=0, traffic=traffic))


def test_members_are_compared_by_the_messages_of_their_queues() -> None:
    assert "the queues of till-3 got 1.4 \N{MULTIPLICATION SIGN} the mean of members" in _said(busy_contents(8, 3))
    assert "members are even: the queues of the busiest, till-1" in _said(busy_contents(16, 3))
    assert "members" not in _said(_messages(10, 10))


def test_overlaps_are_wrong_and_come_first() -> None:
    queue = queues_of(1)[0]
    events = [OwnershipEvent(0, "c1", (queue,)), OwnershipEvent(1_000, "c2", (queue,)), OwnershipEvent(1_400, "c1", ())]
    found = report_findings(replace(_messages(10, 10), history=build_history(events, "orders")))
    assert found[0].severity is Severity.ERROR
    assert "broker-a:0 had two owners, c1 and c2, for 400 ms" in found[0].message


def test_of_many_overlaps_the_first_is_named() -> None:
    queues = tuple(queues_of(8))
    events = [OwnershipEvent(0, "c1", queues), OwnershipEvent(1_000, "c2", queues), OwnershipEvent(1_400, "c1", ())]
    said = _said(replace(_messages(10, 10), history=build_history(events, "orders")))
    assert said.count("had two owners, c1 and c2") == 1
    assert "for 400 ms (and 7 more)" in said


def test_moves_that_were_not_needed_ask_for_sticky() -> None:
    first, second = queues_of(2)
    events = [
        OwnershipEvent(0, "c1", (first,)),
        OwnershipEvent(0, "c2", (second,)),
        OwnershipEvent(60_000, "c1", ()),
        OwnershipEvent(60_000, "c2", ()),
        OwnershipEvent(60_010, "c1", (second,)),
        OwnershipEvent(60_010, "c2", (first,)),
    ]
    said = _said(replace(_messages(10, 10), history=build_history(events, "orders")))
    assert "2 queues moved in 2 rebalances, and the minimum is 0" in said
    assert "strategy='sticky'" in said


def test_moves_that_were_needed_are_fine() -> None:
    found = {each.message: each.severity for each in report_findings(busy_contents(16, 3))}
    assert found["18 queues moved in 4 rebalances, and the minimum is 18"] is Severity.OK


def test_a_long_gap_is_named_with_its_queue_and_members() -> None:
    queue = queues_of(1)[0]
    events = [
        OwnershipEvent(0, "c1", (queue,)),
        OwnershipEvent(60_000, "c1", (), LEAVE_REASON),
        OwnershipEvent(66_000, "c2", (queue,)),
    ]
    found = report_findings(replace(_messages(10, 10), history=build_history(events, "orders")))
    said = next(each for each in found if "hand-over" in each.message)
    assert said.severity is Severity.WARNING
    assert "the longest left broker-a:0 without an owner for 6 s, between c1 and c2" in said.message


def test_warnings_of_the_group_are_left_to_group_explain() -> None:
    assert "group billing has 4 members and 2 queues" not in _said(busy_contents(2, 5))


def test_lag_that_grows_is_reported() -> None:
    said = _said(busy_contents(8, 3))
    assert "the lag grew by 3,481 messages in 59 s: the group does not keep up" in said
    steady = (LagSample(0, 9_000), LagSample(1_000, 9_000))
    assert "the lag grew" not in _said(replace(busy_contents(8, 3), lag_samples=steady))


def test_names_in_sentences_cannot_break_out_of_their_line() -> None:
    queue = queues_of(2)[0]
    evil = "evil\n\x1b[2J\u202egnp"
    traffic = replace(
        traffic_of(2),
        queues=(QueueLoad(queue, 10_000, 1, KeyInQueue(evil, 9_000)), QueueLoad(queues_of(2)[1], 10)),
        keys=(KeyLoad(evil, 9_000, 1, 1, queue),),
        keyed=10_010,
    )
    study = ReportContents(topic="orders", at_ms=START_MS, traffic=traffic)
    assert evil not in _said(study)
    assert all(finding.message.isprintable() for finding in report_findings(study))
    assert "evil\\n\\x1b[2J\\u202egnp" in _said(study)
