"""Who owned which queue when: from what members wrote, and from what was seen of a group while it was watched."""

import json
from io import BytesIO
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.diagnostics.group import ProgressSample
from steelyard.errors import ConnectionClosed, TransportError
from steelyard.model import Queue
from steelyard.pipelines.report.ownership import (
    LEAVE_REASON,
    POLL_INTERVAL_S,
    OwnershipEvent,
    QueueHolding,
    merge_events,
    queue_holdings,
    read_events,
    watch_group,
)
from steelyard.pipelines.report.rebalance_history import build_history
from tests.pipelines.report_contents import queues_of

_QUEUE, _OTHER = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def _line(**changes: object) -> bytes:
    line = {"at_ms": 5, "id": "c1", "queues": [["orders", "broker-a", 0]], "why": "c1 came"}
    return json.dumps(line | changes).encode() + b"\n"


def test_lines_of_members_are_read_and_others_are_counted() -> None:
    lines = read_events(BytesIO(b"steelyard: joined\n" + _line() + b"\n{}\n" + _line(queues=[], why=LEAVE_REASON)))
    assert lines.events == (OwnershipEvent(5, "c1", (_QUEUE,), "c1 came"), OwnershipEvent(5, "c1", (), LEAVE_REASON))
    assert lines.skipped_lines == 2
    assert [event.is_leave for event in lines.events] == [False, True]


def test_what_is_no_event_is_passed_over() -> None:
    wrong: list[bytes] = [
        _line(at_ms=-1),
        _line(at_ms=10**30),
        _line(at_ms="5"),
        _line(queues=[["orders", "broker-a"]]),
        _line(queues="orders"),
        _line(id=None),
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
    ]
    lines = read_events(BytesIO(b"".join(wrong)))
    assert (lines.events, lines.skipped_lines) == ((), len(wrong))


def test_a_line_without_an_end_is_not_read_as_a_whole() -> None:
    lines = read_events(BytesIO(b"x" * (9 << 20) + b"\n" + _line()))
    assert len(lines.events) == 1


def test_there_is_a_most_of_events() -> None:
    lines = read_events(BytesIO(_line() * 5), most=3)
    assert len(lines.events) == 3
    assert lines.is_truncated


@given(st.binary(max_size=300))
def test_any_bytes_are_read(noise: bytes) -> None:
    lines = read_events(BytesIO(noise + b"\n" + _line()))
    assert lines.events[-1].id == "c1"


def _view(at_ms: int, owners: dict[str, list[Queue]], lag: int = 0) -> GroupDescription:
    queues = tuple(queue for mine in owners.values() for queue in mine)
    return describe_group(
        GroupFacts(
            group="billing",
            at_ms=at_ms,
            members=tuple(MemberDescription(name, ours=True) for name in owners),
            queues=queues,
            locked={queue: name for name, mine in owners.items() for queue in mine},
            our_brokers=frozenset({"broker-a"}),
            progress={queue: ProgressSample(at_ms, 0, lag) for queue in queues},
        )
    )


class _Descriptions:
    """A group that looks different each time; None stands for a server that does not answer."""

    def __init__(self, *descriptions: GroupDescription | None) -> None:
        self.descriptions = list(descriptions)

    def describe(self, name: str, earlier: GroupDescription | None = None) -> GroupDescription:
        """Return the next look."""
        del name, earlier
        look = self.descriptions.pop(0)
        if look is None:
            raise ConnectionClosed("broker-a went away")
        return look


def test_watching_a_group_shows_its_moves_and_its_lag() -> None:
    descriptions = _Descriptions(
        _view(0, {"c1": [_QUEUE, _OTHER]}, lag=10),
        None,
        _view(10_000, {"c1": [_QUEUE], "c2": [_OTHER]}, lag=7),
        _view(20_000, {"c2": [_QUEUE, _OTHER]}),
    )
    slept: list[float] = []
    seen = watch_group(descriptions, "billing", "orders", for_s=3 * POLL_INTERVAL_S, sleep=slept.append)
    assert slept == [POLL_INTERVAL_S] * 3
    assert seen.failed_polls == 1
    assert [(each.at_ms, each.messages) for each in seen.lag_samples] == [(0, 20), (10_000, 14), (20_000, 0)]
    told = build_history(seen.events, "orders")
    observed = "observed by polling"
    assert told.holdings == (
        QueueHolding(_QUEUE, 0, 20_000, "c1", released=True, why=observed),
        QueueHolding(_QUEUE, 20_000, 20_000, "c2", why=observed),
        QueueHolding(_OTHER, 0, 10_000, "c1", released=True, why=observed),
        QueueHolding(_OTHER, 10_000, 20_000, "c2", why=observed),
    )
    assert [(over.after.queue, over.before.member, over.after.member) for over in told.handovers] == [
        (_OTHER, "c1", "c2"),
        (_QUEUE, "c1", "c2"),
    ]
    assert not told.overlaps
    assert told.changes[-1].left == ("c1",)


def test_without_a_time_to_watch_there_is_one_poll() -> None:
    seen = watch_group(_Descriptions(_view(0, {"c1": [_QUEUE]})), "billing", "orders", for_s=0, sleep=lambda _: None)
    assert seen.view is not None
    assert len(seen.events) == 1


def test_a_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(TransportError):
        watch_group(_Descriptions(None), "billing", "orders", for_s=0, sleep=lambda _: None)


def test_who_wrote_itself_is_believed() -> None:
    reported = [OwnershipEvent(5, "c1", (_QUEUE,))]
    seen = [OwnershipEvent(7, "c1", (_QUEUE, _OTHER)), OwnershipEvent(7, "c2", (_OTHER,))]
    assert merge_events(reported, seen) == [*reported, seen[1]]


def test_events_of_no_queue_of_the_topic_have_no_holdings() -> None:
    assert queue_holdings([], "orders") == []
    assert queue_holdings([OwnershipEvent(1, "c1", ())], "orders") == []
    assert queue_holdings([OwnershipEvent(1, "c1", (Queue("prices", "broker-a", 0),))], "orders") == []


def test_a_member_that_still_claims_a_queue_later_has_it() -> None:
    held = queue_holdings(
        [
            OwnershipEvent(0, "c1", (_QUEUE,)),
            OwnershipEvent(1_000, "c2", (_QUEUE,)),
            OwnershipEvent(3_000, "c1", (_QUEUE, _OTHER)),
        ],
        "orders",
    )
    assert [(each.member, each.acquired_ms, each.ended_ms) for each in held if each.queue == _QUEUE] == [
        ("c1", 0, 3_000),
        ("c2", 1_000, 3_000),
    ]


def test_the_holding_of_a_killed_member_ends_with_its_last_event() -> None:
    held = queue_holdings(
        [
            OwnershipEvent(0, "c1", (_QUEUE,)),
            OwnershipEvent(5_000, "c1", (_QUEUE, _OTHER)),
            OwnershipEvent(20_000, "c2", (_QUEUE, _OTHER)),
            OwnershipEvent(40_000, "c3", ()),
        ],
        "orders",
    )
    assert held == [
        QueueHolding(_QUEUE, 0, 5_000, "c1"),
        QueueHolding(_QUEUE, 20_000, 40_000, "c2"),
        QueueHolding(_OTHER, 5_000, 5_000, "c1"),
        QueueHolding(_OTHER, 20_000, 40_000, "c2"),
    ]


_QUEUES = queues_of(6)
_EVENTS = st.lists(
    st.builds(
        OwnershipEvent,
        st.integers(0, 60_000),
        st.sampled_from(["c1", "c2", "c3"]),
        st.sets(st.sampled_from(_QUEUES)).map(lambda some: tuple(sorted(some))),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_holdings_of_a_member_never_overlap_whatever_the_events_are(events: list[OwnershipEvent]) -> None:
    held = queue_holdings(events, "orders")
    assert {each.queue for each in held} == {queue for event in events for queue in event.queues}
    assert held == sorted(held)
    times = [event.at_ms for event in events]
    assert all(min(times) <= each.acquired_ms <= each.ended_ms <= max(times) for each in held)
    by_member = sorted(held, key=lambda each: (each.member, each.queue, each.acquired_ms))
    for _, mine in groupby(by_member, key=lambda each: (each.member, each.queue)):
        assert all(one.ended_ms <= then.acquired_ms for one, then in pairwise(mine))
