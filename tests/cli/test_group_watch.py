"""A group is drawn as it is: who has what, what changed between two looks, and what looks wrong."""

from datetime import datetime
from io import StringIO

from rich.console import Console, RenderableType

from steelyard.cli.group_watch import changes_between, group_grid, group_table
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.diagnostics.group import ProgressSample, WaitingQueue
from steelyard.model import Queue

QUEUES = [Queue("orders", broker, number) for broker in ("broker-0", "broker-1") for number in range(2)]
FIRST, SECOND = "10.0.0.7@c1#1#17#ab@sy1", "10.0.0.7@c2#2#17#cd@sy1"


def view(*owners: str | None, at_ms: int = 0, stuck: Queue | None = None) -> GroupDescription:
    locked = {queue: owner for queue, owner in zip(QUEUES, owners, strict=True) if owner is not None}
    ids = sorted({owner for owner in owners if owner is not None})
    facts = GroupFacts(
        group="billing",
        at_ms=at_ms,
        members=tuple(MemberDescription(each, ours=True, strategy="STICKY", topics=("orders",)) for each in ids),
        topics=frozenset({"orders"}),
        queues=tuple(QUEUES),
        locked=locked,
        our_brokers=frozenset({"broker-0", "broker-1"}),
        progress={queue: ProgressSample(at_ms, 5, 5 + place) for place, queue in enumerate(QUEUES)},
        waiting={} if stuck is None else {stuck: WaitingQueue(stuck, at_ms - 200_000, 5, 1, at_ms - 240_000)},
    )
    return describe_group(facts)


def drawn(picture: RenderableType, width: int = 100) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, markup=False).print(picture)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_every_queue_has_a_row_with_owner_lag_and_reason() -> None:
    rows = [line.split(maxsplit=5) for line in drawn(group_table(view(FIRST, FIRST, SECOND, None)))]
    assert rows[1] == ["orders@broker-0:0", "c1", "-", "0", "-", "as STICKY plans it"]
    assert rows[2][:4] == ["orders@broker-0:1", "c1", "-", "1"]
    assert rows[4][:4] == ["orders@broker-1:1", "nobody", "-", "3"]
    assert "goes to c2" in rows[4][5]


def test_a_queue_without_progress_says_so_before_its_plan() -> None:
    seen = view(FIRST, FIRST, SECOND, SECOND, at_ms=400_000, stuck=QUEUES[1])
    rows = [line.split(maxsplit=5) for line in drawn(group_table(seen))]
    assert rows[2] == ["orders@broker-0:1", "c1", "-", "1", "-", "no progress for 3 min 20 s; as STICKY plans it"]
    assert rows[1][5] == "as STICKY plans it"


def test_the_grid_has_a_row_for_each_member_and_one_for_what_nobody_has() -> None:
    lines = drawn(group_grid(view(FIRST, FIRST, SECOND, None)))
    assert "group billing has 2 members and 4 queues" in lines[0]
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:7]}
    assert rows["c1"] == ["11", "..", "2", "1"]
    assert rows["c2"] == ["..", "2.", "1", "2"]
    assert rows["nobody"] == ["..", ".x", "1", "3"]
    assert any("orders@broker-1:1" in line for line in lines[7:])


def test_a_narrow_terminal_folds_and_leaves_nothing_out() -> None:
    for picture in (group_grid(view(FIRST, FIRST, SECOND, None)), group_table(view(FIRST, FIRST, SECOND, None))):
        assert "…" not in "".join(drawn(picture, width=40))


def test_the_first_description_is_the_whole_group() -> None:
    lines = list(changes_between(None, view(FIRST, FIRST, SECOND, SECOND, at_ms=61_005)))
    assert {datetime.fromisoformat(line.split()[0]).timestamp() for line in lines} == {61.005}
    assert "group billing has 2 members and 4 queues of orders" in lines[0]
    assert "c2 has 2 queues" in lines[2]


def test_between_two_descriptions_only_changes_are_shown() -> None:
    before = view(FIRST, FIRST, FIRST, FIRST)
    assert list(changes_between(before, view(FIRST, FIRST, FIRST, FIRST, at_ms=5))) == []
    lines = list(changes_between(before, view(FIRST, FIRST, SECOND, SECOND)))
    assert [line.partition(" ")[2] for line in lines] == [
        "c2 joined",
        "orders@broker-1:0 goes from c1 to c2: c1 had 2 more than its share",
        "orders@broker-1:1 goes from c1 to c2: c1 had one more than its share",
    ]
    lines = list(changes_between(view(FIRST, FIRST, SECOND, SECOND), view(FIRST, FIRST, SECOND, None)))
    assert "orders@broker-1:1 has no owner" in lines[0]
    assert lines[1].partition(" ")[2].startswith("look: ")
