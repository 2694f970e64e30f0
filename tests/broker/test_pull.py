"""Pulling: what is asked, what comes, and where it goes on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.broker.desk import Desk
from tests.broker.reader import beat, bodies, make_topic, place, pull, pull_header, put, start_pull
from tests.golden_frames import GoldenFrame, golden_frames

from steelyard.broker import offsets
from steelyard.broker.filters import sql_rules
from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.groups import GroupSettings
from steelyard.wire.bodies.heartbeat import MessageModel, SubscriptionBody
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter
from steelyard.wire.headers.pull import PullAnswer


@pytest.fixture
def desk() -> Desk:
    """Open a broker with one topic of one queue."""
    found = Desk()
    make_topic(found)
    return found


def test_messages_come_in_order_with_the_place_to_go_on_and_the_ends_of_the_queue(desk: Desk) -> None:
    put(desk, [b"a", b"b", b"c"])
    answer = pull(desk, pull_header(1))
    assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"b", b"c"])
    assert place(answer) == PullAnswer(0, 3, 0, 3, None, 0, 0)


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
@pytest.mark.parametrize("header_type", HeaderType)
def test_both_kinds_of_pull_and_of_header_give_the_same(desk: Desk, code: int, header_type: HeaderType) -> None:
    put(desk, [b"a"])
    answer = pull(desk, pull_header(), code=code, header_type=header_type)
    assert (bodies(answer), answer.header_type) == ([b"a"], header_type)


@pytest.mark.parametrize(
    ("stored", "offset", "code", "status", "following"),
    [
        (0, 0, 19, "NO_MESSAGE_IN_QUEUE", 0),
        (0, 7, 21, "NO_MESSAGE_IN_QUEUE", 0),
        (0, -1, 21, "NO_MESSAGE_IN_QUEUE", 0),
        (3, -1, 21, "OFFSET_TOO_SMALL", 0),
        (3, -(1 << 63), 21, "OFFSET_TOO_SMALL", 0),
        (3, 3, 19, "OFFSET_OVERFLOW_ONE", 3),
        (3, 4, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (3, (1 << 63) - 1, 21, "OFFSET_OVERFLOW_BADLY", 3),
        (3, 0, 0, "FOUND", 3),
    ],
)
def test_each_state_of_a_queue_has_its_code_and_its_place_to_go_on(
    desk: Desk, stored: int, offset: int, code: int, status: str, following: int
) -> None:
    put(desk, [b"x"] * stored)
    answer = pull(desk, pull_header(offset))
    assert (answer.code, answer.remark, place(answer).next_begin_offset) == (code, status, following)
    assert (place(answer).min_offset, place(answer).max_offset) == (0, stored)


def test_an_offset_below_the_first_message_that_is_left_goes_on_there(desk: Desk) -> None:
    put(desk, [b"x"] * 5)
    desk.state.store.forget_topic(b"orders")
    put(desk, [b"new"])
    answer = pull(desk, pull_header(2))
    assert (answer.code, answer.remark, place(answer).next_begin_offset) == (21, "OFFSET_TOO_SMALL", 5)
    assert bodies(pull(desk, pull_header(5))) == [b"new"]


def test_tags_are_filtered_and_the_filtered_are_passed(desk: Desk) -> None:
    for number in range(9):
        put(desk, [b"%d" % number], tag="A" if number % 3 == 0 else "B")
    answer = pull(desk, pull_header(wanted="A || C"))
    assert (bodies(answer), place(answer).next_begin_offset) == ([b"0", b"3", b"6"], 9)
    nothing = pull(desk, pull_header(wanted="C"))
    assert (nothing.code, nothing.remark) == (20, "NO_MATCHED_MESSAGE")
    assert place(nothing).next_begin_offset == 9


def test_a_filter_that_matches_nothing_looks_at_a_limited_number_and_goes_on(desk: Desk) -> None:
    put(desk, [b"x"] * 2_000, tag="B")
    put(desk, [b"found"], tag="A")
    offset, pulls, answer = 0, 0, pull(desk, pull_header(wanted="A"))
    while answer.code == 20:
        assert offset < place(answer).next_begin_offset <= offset + 800
        offset, pulls = place(answer).next_begin_offset, pulls + 1
        answer = pull(desk, pull_header(offset, wanted="A"))
    assert (bodies(answer), pulls) == ([b"found"], 2)


def test_a_condition_on_properties_is_judged_by_the_broker(desk: Desk) -> None:
    for number in range(6):
        put(desk, [b"%d" % number], properties=b"amount\x01%d\x02" % number)
    answer = pull(desk, pull_header(wanted="amount > 1 AND amount <> 3", kind="SQL92"))
    assert (bodies(answer), place(answer).next_begin_offset) == ([b"2", b"4", b"5"], 6)
    part = pull(desk, pull_header(wanted="amount > 1 AND amount <> 3", kind="SQL92", most=2))
    assert (bodies(part), place(part).next_begin_offset) == ([b"2", b"4"], 5)
    nothing = pull(desk, pull_header(wanted="amount > 9", kind="SQL92"))
    assert (nothing.code, place(nothing).next_begin_offset) == (20, 6)


@pytest.fixture
def failing_condition(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a condition whose judging has a bug: it raises for a property of 0E."""

    def read(text: str) -> float:
        return float(text)

    monkeypatch.setattr(sql_rules, "fraction_of", read)
    return "amount > 10.5"


def test_a_message_on_which_the_judging_fails_does_not_match_and_the_queue_goes_on(
    desk: Desk, failing_condition: str
) -> None:
    for amount in (b"11", b"0E", b"12", b"0E", b"13"):
        put(desk, [amount], properties=b"amount\x01%b\x02" % amount)
    answer = pull(desk, pull_header(wanted=failing_condition, kind="SQL92"))
    assert (bodies(answer), place(answer).next_begin_offset) == ([b"11", b"12", b"13"], 5)
    (note,) = desk.state.notes
    assert note == (
        "the condition of group billing on orders cannot be judged for the message at queue 0, offset 1: "
        "ValueError(\"could not convert string to float: '0E'\"); it and all like it do not match"
    )


def test_that_the_judging_failed_is_told_once_for_each_condition_of_a_group(desk: Desk, failing_condition: str) -> None:
    put(desk, [b"x"] * 50, properties=b"amount\x010E\x02")
    for _ in range(3):
        for group in ("billing", "audit"):
            for wanted in (failing_condition, f"{failing_condition} OR TRUE"):
                nothing = pull(desk, pull_header(wanted=wanted, kind="SQL92", group=group))
                assert (nothing.code, place(nothing).next_begin_offset) == (20, 50)
    assert [note.split()[4] for note in desk.state.notes] == ["billing", "billing", "audit", "audit"]


def test_a_pull_that_waits_is_woken_by_what_matches_behind_a_message_on_which_the_judging_fails(
    desk: Desk, failing_condition: str
) -> None:
    beat(
        desk,
        "one",
        desk.peer,
        subscriptions=[SubscriptionBody(topic="orders", expression=failing_condition, kind="SQL92")],
    )
    waiting = [start_pull(desk, pull_header(flags=0)), start_pull(desk, pull_header(wanted="*"))]
    put(desk, [b"bad"], properties=b"amount\x010E\x02")
    assert desk.answer(waiting[0]) is None
    assert desk.answer(waiting[1]) is not None
    put(desk, [b"good"], properties=b"amount\x0111\x02")
    answer = desk.answer(waiting[0])
    assert answer is not None
    assert (bodies(answer), place(answer).next_begin_offset) == ([b"good"], 2)
    assert len(desk.state.notes) == 1


def test_a_property_that_is_nearly_a_number_blocks_no_queue(desk: Desk) -> None:
    for amount in (b"0E", b"11"):
        put(desk, [amount], properties=b"amount\x01%b\x02" % amount)
    answer = pull(desk, pull_header(wanted="amount > 10.5", kind="SQL92"))
    assert (bodies(answer), place(answer).next_begin_offset) == ([b"11"], 2)
    assert not desk.state.notes


def test_a_condition_finds_the_properties_of_long_topics_and_of_senders_with_ipv6() -> None:
    desk, name = Desk(), "%RETRY%" + "long" * 40
    make_topic(desk, name)
    for host in ("127.0.0.1", "::1"):
        desk.peer = desk.line(host)
        put(desk, [host.encode()], name, properties=b"x\x011\x02")
    assert bodies(pull(desk, pull_header(topic=name, wanted="x = 1", kind="SQL92"))) == [b"127.0.0.1", b"::1"]


@pytest.mark.parametrize(("kind", "wanted"), [("SQL92", "amount >"), ("SQL92", None), ("TAG", "||"), ("FOO", "x")])
def test_a_filter_that_cannot_be_read_is_refused_and_never_taken_for_none(desk: Desk, kind: str, wanted: str) -> None:
    put(desk, [b"x"])
    assert pull(desk, pull_header(kind=kind, wanted=wanted)).code == 23


def test_java_clients_get_32_messages_and_256_kib_as_from_apache(desk: Desk) -> None:
    put(desk, [b"x" * 100] * 40)
    assert len(bodies(pull(desk, pull_header(most_bytes=262_144)))) == 32
    put(desk, [b"y" * 100_000] * 5)
    for most_bytes in (None, 262_144, 2_147_483_647):
        assert len(bodies(pull(desk, pull_header(40, most_bytes=most_bytes)))) == 2


def test_who_asks_for_many_messages_and_bytes_gets_them_within_limits(desk: Desk) -> None:
    put(desk, [b"x" * 10_000] * 600)
    assert len(bodies(pull(desk, pull_header(most=1_024)))) == 25
    assert len(bodies(pull(desk, pull_header(most=1_024, most_bytes=1 << 20)))) == 103
    many = pull(desk, pull_header(most=2_000_000_000, most_bytes=2_147_483_647))
    assert 4_000_000 < len(many.body) <= 4 << 20


@pytest.mark.parametrize("most", [0, -1, -(1 << 31)])
@pytest.mark.parametrize("most_bytes", [None, 0, -5, 1])
def test_at_least_one_message_comes_whatever_is_asked_for(desk: Desk, most: int, most_bytes: int | None) -> None:
    put(desk, [b"x" * 300_000] * 2)
    assert len(bodies(pull(desk, pull_header(most=most, most_bytes=most_bytes)))) == 1


def test_scattered_messages_come_whole(desk: Desk) -> None:
    make_topic(desk, "other")
    for number in range(40):
        put(desk, [b"%d" % number], flush=False)
        put(desk, [b"between"], "other", flush=False)
    desk.flush()
    assert bodies(pull(desk, pull_header())) == [b"%d" % number for number in range(32)]


def test_no_topic_is_17_and_no_queue_is_29(desk: Desk) -> None:
    assert pull(desk, pull_header(topic="nowhere")).code == 17
    for queue_id in (-1, 1, 2_147_483_647):
        assert pull(desk, pull_header(queue_id=queue_id)).code == 29


def test_checks_are_made_in_the_order_of_apache(desk: Desk) -> None:
    desk.state.groups.put(GroupSettings(name="off", consume_enabled=False), desk.now_ms)
    wrong = pull_header(group="off", topic="nowhere", queue_id=7, wanted="x >", kind="SQL92")
    codes = [pull(desk, wrong).code]
    for mended in ({"consumer_group": "billing"}, {"topic": "orders"}, {"queue_id": 0}, {"subscription": "x > 1"}):
        wrong = structs.replace(wrong, **mended)
        codes.append(pull(desk, wrong).code)
    assert codes == [16, 17, 29, 23, 19]


def test_a_bad_group_is_refused_before_anything_is_made(desk: Desk) -> None:
    before = len(desk.state.groups)
    assert pull(desk, pull_header(group="../etc")).code == 29
    assert len(desk.state.groups) == before


def test_an_unknown_group_is_made_unless_that_is_not_wanted(desk: Desk) -> None:
    assert pull(desk, pull_header()).code == 19
    assert desk.state.groups.get("billing") is not None
    strict = Desk(BrokerOptions(auto_create_groups=False))
    make_topic(strict)
    assert pull(strict, pull_header()).code == 26


def forbidden(answer: Command) -> tuple[int, str | None]:
    """Return the code of a refusal, and why Java says it is forbidden."""
    return answer.code, answer.texts().get("forbiddenType")


def test_what_is_forbidden_says_why(desk: Desk) -> None:
    desk.state.groups.put(GroupSettings(name="off", consume_enabled=False), desk.now_ms)
    assert forbidden(pull(desk, pull_header(group="off"))) == (16, "2")
    make_topic(desk, "shut", permission=2)
    assert forbidden(pull(desk, pull_header(topic="shut"))) == (16, "3")
    desk.state.groups.put(GroupSettings(name="loud", broadcast_enabled=False), desk.now_ms)
    beat(desk, "a", desk.peer, group="loud", model=MessageModel.BROADCASTING)
    assert forbidden(pull(desk, pull_header(group="loud", flags=0))) == (16, "4")


def test_a_pull_without_a_filter_takes_what_the_group_subscribed_to(desk: Desk) -> None:
    put(desk, [b"a"], tag="A")
    put(desk, [b"b"], tag="B")
    bare = pull_header(flags=0, wanted=None, version=7)
    assert pull(desk, bare).code == 24
    beat(desk, "one", desk.peer, subscriptions=[SubscriptionBody(topic="else", version=7)])
    assert pull(desk, bare).code == 24
    beat(desk, "one", desk.peer, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=6)])
    assert pull(desk, bare).code == 25
    beat(desk, "one", desk.peer, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=7)])
    assert bodies(pull(desk, bare)) == [b"b"]


def test_a_condition_of_the_group_that_cannot_be_read_is_27(desk: Desk) -> None:
    beat(desk, "one", desk.line())
    wanted = SubscriptionBody(topic="orders", kind="SQL92", expression="x >", version=1)
    found = desk.state.members.group("billing")
    assert found is not None
    found.wants.newest["orders"] = wanted
    assert pull(desk, pull_header(flags=0)).code == 27


def test_conditions_can_be_switched_off() -> None:
    desk = Desk(BrokerOptions(property_filter=False))
    make_topic(desk)
    assert pull(desk, pull_header(kind="SQL92", wanted="x = 1")).code == 1
    assert pull(desk, pull_header()).code == 19


def test_a_commit_comes_with_a_pull_only_if_its_flag_says_so(desk: Desk) -> None:
    put(desk, [b"x"] * 9)
    pull(desk, pull_header(3, commit=3))
    assert desk.state.offsets.get("billing", "orders", 0) is None
    pull(desk, pull_header(3, commit=3, flags=5))
    assert desk.state.offsets.get("billing", "orders", 0) == 3
    pull(desk, pull_header(3, commit=-1, flags=5))
    assert desk.state.offsets.get("billing", "orders", 0) == 3


def test_a_commit_for_which_there_is_no_room_does_not_keep_a_pull_from_reading(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_MOST_BYTES", 0)
    put(desk, [b"x"])
    assert bodies(pull(desk, pull_header(commit=0, flags=5))) == [b"x"]
    assert desk.state.offsets.get("billing", "orders", 0) is None


def test_where_a_pull_ended_is_remembered(desk: Desk) -> None:
    put(desk, [b"x"] * 9)
    pull(desk, pull_header(3, most=2))
    assert desk.state.offsets.pulled("billing", "orders", 0) == 5


PULLS = [frame for frame in golden_frames() if frame.request_code in (11, 361) and frame.release == "5.5.0"]


@pytest.mark.parametrize("frame", [frame for frame in PULLS if frame.is_answer], ids=str)
def test_answers_have_the_fields_that_apache_5_5_gives(desk: Desk, frame: GoldenFrame) -> None:
    (apache,) = Splitter().feed(frame.frame)
    if apache.remark == "OFFSET_RESET":
        desk.state.groups.known("billing", desk.now_ms)
        desk.state.offsets.reset("billing", "orders", 0, 0)
    stored = place(apache).max_offset
    put(desk, [b"x"] * stored, tag="TagA")
    wanted = "TagB" if apache.code == 20 else "*"
    offset = {"FOUND": 0, "OFFSET_OVERFLOW_BADLY": 9_999, "OFFSET_OVERFLOW_ONE": stored}.get(apache.remark or "", 0)
    answer = pull(desk, pull_header(offset, wanted=wanted))
    assert (answer.code, answer.remark, answer.texts()) == (apache.code, apache.remark, apache.texts())


@pytest.mark.parametrize(
    "frame", [frame for frame in golden_frames() if not frame.is_answer and frame.code in (11, 361)], ids=str
)
def test_pulls_that_java_clients_sent_are_understood(frame: GoldenFrame) -> None:
    (asked,) = Splitter().feed(frame.frame)
    desk, texts = Desk(), asked.texts()
    make_topic(desk, texts["topic"], 8)
    beat(
        desk,
        "one",
        desk.peer,
        group=texts["consumerGroup"],
        subscriptions=[SubscriptionBody(topic=texts["topic"], version=int(texts["subVersion"]))],
    )
    put(desk, [b"x"] * (int(texts["queueOffset"]) % 100 + 1), texts["topic"], int(texts["queueId"]), tag="TagB")
    answer = desk.ask(asked.code, texts, header_type=asked.header_type)
    assert answer.code in {0, 20, 21}, answer.remark


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_message_is_delivered_once_and_in_order_whatever_is_sent_filtered_and_restarted(
    data: st.DataObject,
) -> None:
    desk = Desk(segment_bytes=1 << 14)
    make_topic(desk)
    model: list[tuple[str, bytes]] = []
    readers = {wanted: (0, list[bytes]()) for wanted in ("*", "A", "B || C", "SQL")}
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["put", "put", "pull", "pull", "restart", "crash"]))
        if step == "put":
            for tag in data.draw(st.lists(st.sampled_from("ABCD"), max_size=12)):
                body = b"%d" % len(model) * data.draw(st.integers(1, 300))
                model.append((tag, body))
                put(desk, [body], tag=tag, properties=b"n\x01%d\x02" % (len(model) % 3), flush=False)
            desk.flush()
        elif step == "restart":
            desk.save(everything=True)
            desk.restart()
        elif step == "crash":
            desk.save(everything=True)
            desk.crash()
        else:
            pull_once(desk, readers, data.draw(st.sampled_from(list(readers))), data.draw(st.integers(1, 5)))
    for wanted in readers:
        while pull_once(desk, readers, wanted, 32):
            pass
    for wanted, (offset, seen) in readers.items():
        assert seen == [body for at, (tag, body) in enumerate(model) if is_wanted(wanted, tag, at)]
        assert offset == len(model)


def is_wanted(wanted: str, tag: str, at: int) -> bool:
    """Say whether a reader wants the message at an offset."""
    return (at + 1) % 3 == 1 if wanted == "SQL" else wanted == "*" or tag in wanted.split(" || ")


def pull_once(desk: Desk, readers: dict[str, tuple[int, list[bytes]]], wanted: str, most: int) -> bool:
    """Pull for one reader and note what came; say whether there may be more."""
    offset, seen = readers[wanted]
    kind, expression = ("SQL92", "n = 1") if wanted == "SQL" else ("TAG", wanted)
    answer = pull(desk, pull_header(offset, kind=kind, wanted=expression, most=most, most_bytes=2_000))
    if answer.code == 19:
        return False
    following = place(answer).next_begin_offset
    assert answer.code in {0, 20}
    assert following > offset
    readers[wanted] = (following, seen + bodies(answer))
    return True


def test_hostile_numbers_are_refused_or_answered_and_cost_nothing(desk: Desk) -> None:
    extremes = (-(1 << 63), -1, (1 << 63) - 1)
    put(desk, [b"x"])
    for offset in extremes:
        for wait_ms in extremes:
            for version in extremes:
                header = pull_header(offset, wait_ms=wait_ms, version=version, commit=offset, flags=1 | 4)
                assert pull(desk, header).code == 21
    assert pull(desk, structs.replace(pull_header(), sys_flag=-1)).code == 0


def test_members_that_disagree_each_get_what_they_themselves_want(desk: Desk) -> None:
    put(desk, [b"a"], tag="A")
    put(desk, [b"b"], tag="B")
    mine, other = desk.line(), desk.line()
    beat(desk, "me", mine, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)])
    beat(desk, "other", other, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=2)])
    assert bodies(pull(desk, pull_header(flags=0, version=1), peer=mine)) == [b"a"]
    assert bodies(pull(desk, pull_header(flags=0, version=2), peer=other)) == [b"b"]
    assert bodies(pull(desk, pull_header(flags=0, version=2))) == [b"b"]


def test_a_member_whose_heartbeat_is_behind_is_served_as_its_group_is(desk: Desk) -> None:
    put(desk, [b"a"], tag="A")
    mine, other = desk.line(), desk.line()
    beat(desk, "me", mine, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)])
    beat(desk, "other", other, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=2)])
    assert bodies(pull(desk, pull_header(flags=0, version=2), peer=mine)) == [b"a"]
    assert pull(desk, pull_header(flags=0, version=3), peer=mine).code == 25
