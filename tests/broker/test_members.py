"""Who is in a group: members by id, however many lines they have, and whatever way they go."""

import pytest
from tests.broker.client import GROUP, Client, connections, ids, view, wants
from tests.broker.desk import Desk

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.heartbeat import MessageModel

GRACE_MS = BrokerOptions().line_grace_ms


# -- joining and going -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "java"])
def test_a_member_joins_by_its_heartbeat_and_leaves_by_its_goodbye(*, ours: bool) -> None:
    desk = Desk()
    first, second = Client(desk, "c1", ours=ours), Client(desk, "c2", ours=ours)
    first.beat()
    second.beat()
    assert ids(desk) == ["c1", "c2"]
    assert first.leave().code == 0
    assert ids(desk) == ["c2"]
    second.leave()
    assert ids(desk) == []


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "java"])
def test_a_line_that_closes_takes_its_member_after_the_grace(*, ours: bool) -> None:
    desk = Desk()
    client, other = Client(desk, "c1", ours=ours), Client(desk, "c2")
    client.beat()
    other.beat()
    client.close()
    desk.advance(GRACE_MS - 1)
    assert ids(desk) == ["c1", "c2"]
    desk.advance(1)
    assert ids(desk) == ["c2"]


def test_a_line_blip_moves_nothing() -> None:
    desk = Desk()
    client, other = Client(desk, "c1"), Client(desk, "c2")
    client.beat()
    other.beat()
    held = client.lock(0)
    desk.advance(1_000)
    before = view(desk)
    other.notices()
    client.close()
    desk.advance(GRACE_MS - 100)
    client.reconnect()
    desk.advance(5 * GRACE_MS)
    assert view(desk) == before
    assert other.notices() == 0
    assert client.renew(held) == held


def test_whoever_missed_a_notice_while_its_line_was_closed_gets_it_when_it_is_back() -> None:
    desk = Desk()
    client, other = Client(desk, "c1"), Client(desk, "c2")
    client.beat()
    desk.advance(1_000)
    client.close()
    other.beat()
    client.reconnect()
    assert client.notices() == 1


def test_silence_takes_a_member_of_ours_after_four_of_its_beats() -> None:
    desk = Desk()
    client, other = Client(desk, "c1"), Client(desk, "c2")
    client.beat(heartbeat_ms=2_000)
    for _ in range(10):
        other.beat()
        desk.advance(790)
    assert ids(desk) == ["c1", "c2"]
    desk.advance(600)
    assert ids(desk) == ["c2"]
    assert [each.peer for each in desk.hangups] == [client.line]


def test_silence_takes_a_java_member_after_two_minutes_and_the_others_are_told() -> None:
    desk = Desk()
    client, other = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    client.beat()
    for _ in range(4):
        other.beat()
        desk.advance(29_900, step_ms=500)
    other.beat()
    other.notices()
    assert ids(desk) == ["c1", "c2"]
    desk.advance(1_000)
    assert ids(desk) == ["c2"]
    assert other.notices() == 1


def test_a_group_that_a_live_client_no_longer_speaks_of_grows_old() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.group = "given-up"
    client.beat()
    client.group = GROUP
    for _ in range(5):
        client.beat()
        desk.advance(30_000, step_ms=500)
    assert ids(desk, "given-up") == []
    assert ids(desk) == ["c1"]
    assert not desk.hangups


def test_a_late_goodbye_of_a_replaced_line_changes_nothing() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    old = client.line
    client.reconnect()
    client.leave(line=old)
    assert ids(desk) == ["c1"]


def test_a_goodbye_counts_on_any_line_once_the_members_own_is_closed() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    client.close()
    client.leave(line=desk.line())
    assert ids(desk) == []


def test_a_line_that_speaks_under_another_id_is_another_member() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    client.lock(0)
    client.id = "c2"
    client.beat()
    assert ids(desk) == ["c2"]
    assert client.lock(0) == {0: 0}


# -- one id, several lines ---------------------------------------------------------------------------------------------


def test_a_client_that_reconnects_before_its_old_line_is_gone_counts_once() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.beat()
    old = client.line
    client.reconnect()
    assert ids(desk) == ["c1"]
    (line,) = connections(desk).connections
    assert line.client_address == client.line.address
    desk.hang_up(old)
    desk.advance(1_000)
    assert ids(desk) == ["c1"]
    assert view(desk).hazards is None


def test_ours_gives_its_old_line_up_and_what_comes_late_on_it_is_refused() -> None:
    desk = Desk()
    client = Client(desk, "c1")
    client.beat()
    old = client.line
    client.reconnect()
    assert view(desk).hazards is None
    late = client.beat(line=old)
    assert late.code == 1
    assert "newer line" in (late.remark or "")
    assert client.beat().code == 0


def test_one_id_twice_is_refused() -> None:
    desk = Desk()
    first = Client(desk, "c1", instance="one")
    second = Client(desk, "c1", instance="two")
    first.beat()
    answer = second.beat()
    assert answer.code == 1
    assert first.line.address in (answer.remark or "")
    first.leave()
    assert second.beat().code == 0


def test_one_id_twice_is_let_in_once_the_first_is_silent_or_its_line_closed() -> None:
    desk = Desk()
    first, second = Client(desk, "c1", instance="one"), Client(desk, "c1", instance="two")
    first.beat()
    first.close()
    assert second.beat().code == 0


def test_javas_are_let_in_listed_once_and_told_of() -> None:
    desk = Desk()
    first, second = Client(desk, "c1", ours=False), Client(desk, "c1", ours=False)
    assert first.beat().code == second.beat().code == 0
    desk.advance(1_000)
    first.beat()
    second.beat()
    assert ids(desk) == ["c1"]
    assert len(connections(desk).connections) == 1
    told_by_lines = connections(desk).steelyard
    assert told_by_lines is not None
    for told in (view(desk).hazards, told_by_lines.hazards):
        (hazard,) = told or ()
        assert first.line.address in hazard
        assert second.line.address in hazard
        assert "they read the same queues, and each handles all messages of them" in hazard
        assert "unread" not in hazard
    assert [note for note in desk.state.notes if "c1" in note] == [hazard]
    second.close()
    desk.advance(1_000)
    assert ids(desk) == ["c1"]
    assert view(desk).hazards is None


def test_javas_are_refused_too_if_the_options_say_so() -> None:
    desk = Desk(BrokerOptions(refuse_duplicates=True))
    first, second = Client(desk, "c1", ours=False), Client(desk, "c1", ours=False)
    assert first.beat().code == 0
    assert second.beat().code == 1
    assert first.beat().code == 0


def test_broadcasting_members_may_share_an_id() -> None:
    desk = Desk()
    for _ in range(2):
        assert Client(desk, "10.0.0.1@DEFAULT", ours=False, model=MessageModel.BROADCASTING).beat().code == 0
    assert view(desk).hazards is None


# -- what members want -------------------------------------------------------------------------------------------------


def test_a_topic_stays_as_long_as_one_member_wants_it() -> None:
    desk = Desk()
    first, second = Client(desk, "c1", ours=False), Client(desk, "c2", ours=False)
    for _ in range(3):
        first.beat(wants("orders", "paid", 5))
        second.beat(wants("orders", "paid", 4), wants("refunds"))
        assert set(connections(desk).subscriptions) == {"orders", "refunds"}
        assert connections(desk).subscriptions["orders"].version == 5
    second.leave()
    assert set(connections(desk).subscriptions) == {"orders"}


def test_what_a_gone_member_wanted_does_not_rule_those_who_stay() -> None:
    desk = Desk()
    first, second = Client(desk, "c1"), Client(desk, "c2")
    first.beat(wants("orders", "old", 1))
    second.beat(wants("orders", "new", 2))
    assert connections(desk).subscriptions["orders"].expression == "new"
    second.leave()
    assert connections(desk).subscriptions["orders"].expression == "old"


def test_members_that_disagree_are_named_once() -> None:
    desk = Desk()
    for client_id in ("c1", "c2"):
        Client(desk, client_id, ours=False).beat(wants("orders", "paid || sent"))
    odd = Client(desk, "c3", ours=False)
    odd.beat(wants("orders", "sent||paid", 7))
    assert view(desk).hazards is None
    odd.beat(wants("orders", "lost", 8))
    desk.advance(2_000)
    (hazard,) = view(desk).hazards or ()
    assert "filter orders differently (c3 by lost, most by paid || sent)" in hazard
    assert desk.state.notes.count(hazard) == 1
    odd.leave()
    assert view(desk).hazards is None


def test_queues_stay_unread_only_where_a_member_is_not_ours() -> None:
    desk = Desk()
    first, odd = Client(desk, "c1"), Client(desk, "c2")
    first.beat(wants("orders"))
    odd.beat(wants("orders"), wants("refunds"))
    assert view(desk).hazards is None, "each topic is shared among its subscribers"
    Client(desk, "java", ours=False).beat(wants("orders"))
    (hazard,) = view(desk).hazards or ()
    assert "other topics than most (c2, in refunds): all topics are shared among all members" in hazard
    assert "stay unread" in hazard


def test_members_that_broadcast_may_want_what_they_like() -> None:
    desk = Desk()
    for client_id, topic in (("c1", "orders"), ("c2", "refunds")):
        Client(desk, client_id, ours=False, model=MessageModel.BROADCASTING).beat(wants(topic))
    assert view(desk).hazards is None


def test_members_that_disagree_are_refused_if_the_options_say_so() -> None:
    desk = Desk(BrokerOptions(refuse_unequal=True))
    assert Client(desk, "c1", ours=False).beat(wants("orders", "paid")).code == 0
    odd = Client(desk, "c2", ours=False)
    answer = odd.beat(wants("orders", "sent"))
    assert answer.code == 1
    assert "c1" in (answer.remark or "")
    assert "orders" in (answer.remark or "")
    assert odd.beat(wants("orders", "paid", 9)).code == 0


def test_a_group_where_some_broadcast_and_some_share_is_told_of() -> None:
    desk = Desk()
    Client(desk, "c1", ours=False).beat()
    Client(desk, "c2", ours=False, model=MessageModel.BROADCASTING).beat()
    (hazard,) = view(desk).hazards or ()
    assert "c2" in hazard
