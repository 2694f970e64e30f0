"""Reading what members wrote, and what was seen of a group while it was watched."""

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group.diagnostics import ProgressSample
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.errors import ConnectionClosed, TransportError
from steelyard.model import Queue
from steelyard.pipelines.balance_report import POLL_INTERVAL_S, merge_events, watch_group
from steelyard.pipelines.report.rebalance_history import LEAVE_REASON, OwnershipEvent, build_history, read_events

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


class _Looks:
    """A group that looks different each time; None stands for a server that does not answer."""

    def __init__(self, *looks: GroupDescription | None) -> None:
        self.looks = list(looks)

    def describe(self, name: str, earlier: GroupDescription | None = None) -> GroupDescription:
        """Return the next look."""
        del name, earlier
        look = self.looks.pop(0)
        if look is None:
            raise ConnectionClosed("broker-a went away")
        return look


def test_watching_a_group_shows_its_moves_and_its_lag() -> None:
    looks = _Looks(
        _view(0, {"c1": [_QUEUE, _OTHER]}, lag=10),
        None,
        _view(10_000, {"c1": [_QUEUE], "c2": [_OTHER]}, lag=7),
        _view(20_000, {"c2": [_QUEUE, _OTHER]}),
    )
    slept: list[float] = []
    seen = watch_group(looks, "billing", "orders", for_s=3 * POLL_INTERVAL_S, sleep=slept.append)
    assert slept == [POLL_INTERVAL_S] * 3
    assert seen.failed_polls == 1
    assert [(each.at_ms, each.messages) for each in seen.lag_samples] == [(0, 20), (10_000, 14), (20_000, 0)]
    told = build_history(seen.events)
    assert told is not None
    assert [(over.queue, over.before, over.after) for over in told.handovers] == [
        (_OTHER, "c1", "c2"),
        (_QUEUE, "c1", "c2"),
    ]
    assert not told.overlaps
    assert told.changes[-1].left == ("c1",)


def test_without_a_time_to_watch_there_is_one_look() -> None:
    seen = watch_group(_Looks(_view(0, {"c1": [_QUEUE]})), "billing", "orders", for_s=0, sleep=lambda _: None)
    assert seen.view is not None
    assert len(seen.events) == 1


def test_a_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(TransportError):
        watch_group(_Looks(None), "billing", "orders", for_s=0, sleep=lambda _: None)


def test_who_wrote_itself_is_believed() -> None:
    told = [OwnershipEvent(5, "c1", (_QUEUE,))]
    seen = [OwnershipEvent(7, "c1", (_QUEUE, _OTHER)), OwnershipEvent(7, "c2", (_OTHER,))]
    assert merge_events(told, seen) == [*told, seen[1]]
