"""Pulling: what is asked, what comes, and where it goes on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from steelyard.broker import filters, offsets
from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.groups import SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import MessageModel, SubscriptionBody
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.pull import PullMessageResponse
from tests.broker.broker_harness import BrokerHarness
from tests.broker.pull_requests import (
    bodies,
    make_topic,
    pull,
    pull_fields,
    pull_header,
    send_heartbeat,
    start_pull,
    store_messages,
)
from tests.golden_frames import GoldenFrame, golden_frames


@pytest.fixture
def harness() -> BrokerHarness:
    """Open a broker with one topic of one queue."""
    found = BrokerHarness()
    make_topic(found)
    return found


def test_messages_come_in_order_with_the_place_to_go_on_and_the_ends_of_the_queue(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a", b"b", b"c"])
    answer = pull(harness, pull_header(1))
    assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"b", b"c"])
    assert pull_fields(answer) == PullMessageResponse(0, 3, 0, 3, None, 0, 0)


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
@pytest.mark.parametrize("header_type", HeaderType)
def test_both_kinds_of_pull_and_of_header_give_the_same(
    harness: BrokerHarness, code: int, header_type: HeaderType
) -> None:
    store_messages(harness, [b"a"])
    answer = pull(harness, pull_header(), code=code, header_type=header_type)
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
    harness: BrokerHarness, stored: int, offset: int, code: int, status: str, following: int
) -> None:
    store_messages(harness, [b"x"] * stored)
    answer = pull(harness, pull_header(offset))
    assert (answer.code, answer.remark, pull_fields(answer).next_begin_offset) == (code, status, following)
    assert (pull_fields(answer).min_offset, pull_fields(answer).max_offset) == (0, stored)


def test_an_offset_below_the_first_message_that_is_left_goes_on_there(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 5)
    harness.state.store.delete_topic(b"orders")
    store_messages(harness, [b"new"])
    answer = pull(harness, pull_header(2))
    assert (answer.code, answer.remark, pull_fields(answer).next_begin_offset) == (21, "OFFSET_TOO_SMALL", 5)
    assert bodies(pull(harness, pull_header(5))) == [b"new"]


def test_tags_are_filtered_and_the_filtered_are_passed(harness: BrokerHarness) -> None:
    for number in range(9):
        store_messages(harness, [b"%d" % number], tag="A" if number % 3 == 0 else "B")
    answer = pull(harness, pull_header(wanted="A || C"))
    assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"0", b"3", b"6"], 9)
    nothing = pull(harness, pull_header(wanted="C"))
    assert (nothing.code, nothing.remark) == (20, "NO_MATCHED_MESSAGE")
    assert pull_fields(nothing).next_begin_offset == 9


def test_a_filter_that_matches_nothing_looks_at_a_limited_number_and_goes_on(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 2_000, tag="B")
    store_messages(harness, [b"found"], tag="A")
    offset, pulls, answer = 0, 0, pull(harness, pull_header(wanted="A"))
    while answer.code == 20:
        assert offset < pull_fields(answer).next_begin_offset <= offset + 800
        offset, pulls = pull_fields(answer).next_begin_offset, pulls + 1
        answer = pull(harness, pull_header(offset, wanted="A"))
    assert (bodies(answer), pulls) == ([b"found"], 2)


def test_a_condition_on_properties_is_evaluated_by_the_broker(harness: BrokerHarness) -> None:
    for number in range(6):
        store_messages(harness, [b"%d" % number], properties=b"amount\x01%d\x02" % number)
    answer = pull(harness, pull_header(wanted="amount > 1 AND amount <> 3", kind="SQL92"))
    assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"2", b"4", b"5"], 6)
    part = pull(harness, pull_header(wanted="amount > 1 AND amount <> 3", kind="SQL92", most=2))
    assert (bodies(part), pull_fields(part).next_begin_offset) == ([b"2", b"4"], 5)
    nothing = pull(harness, pull_header(wanted="amount > 9", kind="SQL92"))
    assert (nothing.code, pull_fields(nothing).next_begin_offset) == (20, 6)


@pytest.fixture
def failing_condition(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a condition whose judging has a bug: it raises for a property of 0E."""

    def read(text: str) -> float:
        return float(text)

    monkeypatch.setattr(filters, "parse_fraction", read)
    return "amount > 10.5"


def test_a_message_on_which_the_evaluation_fails_does_not_match_and_the_queue_goes_on(
    harness: BrokerHarness, failing_condition: str
) -> None:
    for amount in (b"11", b"0E", b"12", b"0E", b"13"):
        store_messages(harness, [amount], properties=b"amount\x01%b\x02" % amount)
    answer = pull(harness, pull_header(wanted=failing_condition, kind="SQL92"))
    assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"11", b"12", b"13"], 5)
    (note,) = harness.state.warnings
    assert note == (
        "the filter of group billing on orders cannot be evaluated for the message at queue 0, offset 1: "
        "ValueError(\"could not convert string to float: '0E'\"); it and all like it do not match"
    )


def test_that_the_evaluation_failed_is_reported_once_for_each_condition_of_a_group(
    harness: BrokerHarness, failing_condition: str
) -> None:
    store_messages(harness, [b"x"] * 50, properties=b"amount\x010E\x02")
    for _ in range(3):
        for group in ("billing", "audit"):
            for wanted in (failing_condition, f"{failing_condition} OR TRUE"):
                nothing = pull(harness, pull_header(wanted=wanted, kind="SQL92", group=group))
                assert (nothing.code, pull_fields(nothing).next_begin_offset) == (20, 50)
    assert [note.split()[4] for note in harness.state.warnings] == ["billing", "billing", "audit", "audit"]


def test_a_pull_that_waits_is_woken_by_what_matches_behind_a_message_on_which_the_evaluation_fails(
    harness: BrokerHarness, failing_condition: str
) -> None:
    send_heartbeat(
        harness,
        "one",
        harness.peer,
        subscriptions=[SubscriptionBody(topic="orders", expression=failing_condition, kind="SQL92")],
    )
    waiting = [start_pull(harness, pull_header(flags=0)), start_pull(harness, pull_header(wanted="*"))]
    store_messages(harness, [b"bad"], properties=b"amount\x010E\x02")
    assert harness.pop_response(waiting[0]) is None
    assert harness.pop_response(waiting[1]) is not None
    store_messages(harness, [b"good"], properties=b"amount\x0111\x02")
    answer = harness.pop_response(waiting[0])
    assert answer is not None
    assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"good"], 2)
    assert len(harness.state.warnings) == 1


def test_a_property_that_is_nearly_a_number_blocks_no_queue(harness: BrokerHarness) -> None:
    for amount in (b"0E", b"11"):
        store_messages(harness, [amount], properties=b"amount\x01%b\x02" % amount)
    answer = pull(harness, pull_header(wanted="amount > 10.5", kind="SQL92"))
    assert (bodies(answer), pull_fields(answer).next_begin_offset) == ([b"11"], 2)
    assert not harness.state.warnings


def test_a_condition_finds_the_properties_of_long_topics_and_of_senders_with_ipv6() -> None:
    harness, name = BrokerHarness(), "%RETRY%" + "long" * 40
    make_topic(harness, name)
    for host in ("127.0.0.1", "::1"):
        harness.peer = harness.connect(host)
        store_messages(harness, [host.encode()], name, properties=b"x\x011\x02")
    assert bodies(pull(harness, pull_header(topic=name, wanted="x = 1", kind="SQL92"))) == [b"127.0.0.1", b"::1"]


@pytest.mark.parametrize(("kind", "wanted"), [("SQL92", "amount >"), ("SQL92", None), ("TAG", "||"), ("FOO", "x")])
def test_a_filter_that_cannot_be_read_is_refused_and_never_taken_for_none(
    harness: BrokerHarness, kind: str, wanted: str
) -> None:
    store_messages(harness, [b"x"])
    assert pull(harness, pull_header(kind=kind, wanted=wanted)).code == 23


def test_java_clients_get_32_messages_and_256_kib_as_from_apache(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x" * 100] * 40)
    assert len(bodies(pull(harness, pull_header(most_bytes=262_144)))) == 32
    store_messages(harness, [b"y" * 100_000] * 5)
    for most_bytes in (None, 262_144, 2_147_483_647):
        assert len(bodies(pull(harness, pull_header(40, most_bytes=most_bytes)))) == 2


def test_who_asks_for_many_messages_and_bytes_gets_them_within_limits(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x" * 10_000] * 600)
    assert len(bodies(pull(harness, pull_header(most=1_024)))) == 25
    assert len(bodies(pull(harness, pull_header(most=1_024, most_bytes=1 << 20)))) == 103
    many = pull(harness, pull_header(most=2_000_000_000, most_bytes=2_147_483_647))
    assert 4_000_000 < len(many.body) <= 4 << 20


@pytest.mark.parametrize("most", [0, -1, -(1 << 31)])
@pytest.mark.parametrize("most_bytes", [None, 0, -5, 1])
def test_at_least_one_message_comes_whatever_is_asked_for(
    harness: BrokerHarness, most: int, most_bytes: int | None
) -> None:
    store_messages(harness, [b"x" * 300_000] * 2)
    assert len(bodies(pull(harness, pull_header(most=most, most_bytes=most_bytes)))) == 1


def test_scattered_messages_come_whole(harness: BrokerHarness) -> None:
    make_topic(harness, "other")
    for number in range(40):
        store_messages(harness, [b"%d" % number], flush=False)
        store_messages(harness, [b"between"], "other", flush=False)
    harness.flush()
    assert bodies(pull(harness, pull_header())) == [b"%d" % number for number in range(32)]


def test_no_topic_is_17_and_no_queue_is_29(harness: BrokerHarness) -> None:
    assert pull(harness, pull_header(topic="nowhere")).code == 17
    for queue_id in (-1, 1, 2_147_483_647):
        assert pull(harness, pull_header(queue_id=queue_id)).code == 29


def test_checks_are_made_in_the_order_of_apache(harness: BrokerHarness) -> None:
    harness.state.groups.put(SubscriptionGroupConfig(name="off", consume_enabled=False), harness.now_ms)
    wrong = pull_header(group="off", topic="nowhere", queue_id=7, wanted="x >", kind="SQL92")
    codes = [pull(harness, wrong).code]
    for mended in ({"consumer_group": "billing"}, {"topic": "orders"}, {"queue_id": 0}, {"subscription": "x > 1"}):
        wrong = structs.replace(wrong, **mended)
        codes.append(pull(harness, wrong).code)
    assert codes == [16, 17, 29, 23, 19]


def test_a_bad_group_is_refused_before_anything_is_made(harness: BrokerHarness) -> None:
    before = len(harness.state.groups)
    assert pull(harness, pull_header(group="../etc")).code == 29
    assert len(harness.state.groups) == before


def test_an_unknown_group_is_made_unless_that_is_not_wanted(harness: BrokerHarness) -> None:
    assert pull(harness, pull_header()).code == 19
    assert harness.state.groups.get("billing") is not None
    strict = BrokerHarness(BrokerOptions(auto_create_groups=False))
    make_topic(strict)
    assert pull(strict, pull_header()).code == 26


def forbidden(answer: Command) -> tuple[int, str | None]:
    """Return the code of a refusal, and why Java says it is forbidden."""
    return answer.code, answer.texts().get("forbiddenType")


def test_what_is_forbidden_gives_the_reason(harness: BrokerHarness) -> None:
    harness.state.groups.put(SubscriptionGroupConfig(name="off", consume_enabled=False), harness.now_ms)
    assert forbidden(pull(harness, pull_header(group="off"))) == (16, "2")
    make_topic(harness, "shut", permission=2)
    assert forbidden(pull(harness, pull_header(topic="shut"))) == (16, "3")
    harness.state.groups.put(SubscriptionGroupConfig(name="loud", broadcast_enabled=False), harness.now_ms)
    send_heartbeat(harness, "a", harness.peer, group="loud", model=MessageModel.BROADCASTING)
    assert forbidden(pull(harness, pull_header(group="loud", flags=0))) == (16, "4")


def test_a_pull_without_a_filter_takes_what_the_group_subscribed_to(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"], tag="A")
    store_messages(harness, [b"b"], tag="B")
    bare = pull_header(flags=0, wanted=None, version=7)
    assert pull(harness, bare).code == 24
    send_heartbeat(harness, "one", harness.peer, subscriptions=[SubscriptionBody(topic="else", version=7)])
    assert pull(harness, bare).code == 24
    send_heartbeat(
        harness, "one", harness.peer, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=6)]
    )
    assert pull(harness, bare).code == 25
    send_heartbeat(
        harness, "one", harness.peer, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=7)]
    )
    assert bodies(pull(harness, bare)) == [b"b"]


def test_a_condition_of_the_group_that_cannot_be_read_is_27(harness: BrokerHarness) -> None:
    send_heartbeat(harness, "one", harness.connect())
    wanted = SubscriptionBody(topic="orders", kind="SQL92", expression="x >", version=1)
    found = harness.state.consumers.group("billing")
    assert found is not None
    found.member_subscriptions.newest["orders"] = wanted
    assert pull(harness, pull_header(flags=0)).code == 27


def test_conditions_can_be_switched_off() -> None:
    harness = BrokerHarness(BrokerOptions(property_filter=False))
    make_topic(harness)
    assert pull(harness, pull_header(kind="SQL92", wanted="x = 1")).code == 1
    assert pull(harness, pull_header()).code == 19


def test_a_commit_comes_with_a_pull_only_if_its_flag_says_so(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 9)
    pull(harness, pull_header(3, commit=3))
    assert harness.state.offsets.get("billing", "orders", 0) is None
    pull(harness, pull_header(3, commit=3, flags=5))
    assert harness.state.offsets.get("billing", "orders", 0) == 3
    pull(harness, pull_header(3, commit=-1, flags=5))
    assert harness.state.offsets.get("billing", "orders", 0) == 3


def test_a_commit_for_which_there_is_no_room_does_not_keep_a_pull_from_reading(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_MAX_BYTES", 0)
    store_messages(harness, [b"x"])
    assert bodies(pull(harness, pull_header(commit=0, flags=5))) == [b"x"]
    assert harness.state.offsets.get("billing", "orders", 0) is None


def test_where_a_pull_ended_is_remembered(harness: BrokerHarness) -> None:
    store_messages(harness, [b"x"] * 9)
    pull(harness, pull_header(3, most=2))
    assert harness.state.offsets.pulled_in("billing", "orders").get(0) == 5


PULLS = [frame for frame in golden_frames() if frame.request_code in (11, 361) and frame.release == "5.5.0"]


@pytest.mark.parametrize("frame", [frame for frame in PULLS if frame.is_answer], ids=str)
def test_answers_have_the_fields_that_apache_5_5_gives(harness: BrokerHarness, frame: GoldenFrame) -> None:
    (apache,) = FrameDecoder().feed(frame.frame)
    if apache.remark == "OFFSET_RESET":
        harness.state.groups.get_or_create("billing", harness.now_ms)
        harness.state.offsets.reset("billing", "orders", 0, 0)
    stored = pull_fields(apache).max_offset
    store_messages(harness, [b"x"] * stored, tag="TagA")
    wanted = "TagB" if apache.code == 20 else "*"
    offset = {"FOUND": 0, "OFFSET_OVERFLOW_BADLY": 9_999, "OFFSET_OVERFLOW_ONE": stored}.get(apache.remark or "", 0)
    answer = pull(harness, pull_header(offset, wanted=wanted))
    assert (answer.code, answer.remark, answer.texts()) == (apache.code, apache.remark, apache.texts())


@pytest.mark.parametrize(
    "frame", [frame for frame in golden_frames() if not frame.is_answer and frame.code in (11, 361)], ids=str
)
def test_pulls_that_java_clients_sent_are_understood(frame: GoldenFrame) -> None:
    (asked,) = FrameDecoder().feed(frame.frame)
    harness, texts = BrokerHarness(), asked.texts()
    make_topic(harness, texts["topic"], 8)
    send_heartbeat(
        harness,
        "one",
        harness.peer,
        group=texts["consumerGroup"],
        subscriptions=[SubscriptionBody(topic=texts["topic"], version=int(texts["subVersion"]))],
    )
    store_messages(
        harness, [b"x"] * (int(texts["queueOffset"]) % 100 + 1), texts["topic"], int(texts["queueId"]), tag="TagB"
    )
    answer = harness.request(asked.code, texts, header_type=asked.header_type)
    assert answer.code in {0, 20, 21}, answer.remark


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_message_is_delivered_once_and_in_order_whatever_is_sent_filtered_and_restarted(
    data: st.DataObject,
) -> None:
    harness = BrokerHarness(segment_bytes=1 << 14)
    make_topic(harness)
    model: list[tuple[str, bytes]] = []
    readers = {wanted: (0, list[bytes]()) for wanted in ("*", "A", "B || C", "SQL")}
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["put", "put", "pull", "pull", "restart", "crash"]))
        if step == "put":
            for tag in data.draw(st.lists(st.sampled_from("ABCD"), max_size=12)):
                body = b"%d" % len(model) * data.draw(st.integers(1, 300))
                model.append((tag, body))
                store_messages(harness, [body], tag=tag, properties=b"n\x01%d\x02" % (len(model) % 3), flush=False)
            harness.flush()
        elif step == "restart":
            harness.save(everything=True)
            harness.restart()
        elif step == "crash":
            harness.save(everything=True)
            harness.crash()
        else:
            pull_once(harness, readers, data.draw(st.sampled_from(list(readers))), data.draw(st.integers(1, 5)))
    for wanted in readers:
        while pull_once(harness, readers, wanted, 32):
            pass
    for wanted, (offset, seen) in readers.items():
        assert seen == [body for at, (tag, body) in enumerate(model) if is_wanted(wanted, tag, at)]
        assert offset == len(model)


def is_wanted(wanted: str, tag: str, at: int) -> bool:
    """Say whether a reader wants the message at an offset."""
    return (at + 1) % 3 == 1 if wanted == "SQL" else wanted == "*" or tag in wanted.split(" || ")


def pull_once(harness: BrokerHarness, readers: dict[str, tuple[int, list[bytes]]], wanted: str, most: int) -> bool:
    """Pull for one reader and note what came; say whether there may be more."""
    offset, seen = readers[wanted]
    kind, expression = ("SQL92", "n = 1") if wanted == "SQL" else ("TAG", wanted)
    answer = pull(harness, pull_header(offset, kind=kind, wanted=expression, most=most, most_bytes=2_000))
    if answer.code == 19:
        return False
    following = pull_fields(answer).next_begin_offset
    assert answer.code in {0, 20}
    assert following > offset
    readers[wanted] = (following, seen + bodies(answer))
    return True


def test_hostile_numbers_are_refused_or_answered_and_cost_nothing(harness: BrokerHarness) -> None:
    extremes = (-(1 << 63), -1, (1 << 63) - 1)
    store_messages(harness, [b"x"])
    for offset in extremes:
        for wait_ms in extremes:
            for version in extremes:
                header = pull_header(offset, wait_ms=wait_ms, version=version, commit=offset, flags=1 | 4)
                assert pull(harness, header).code == 21
    assert pull(harness, structs.replace(pull_header(), sys_flag=-1)).code == 0


def test_members_that_disagree_each_get_what_they_themselves_want(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"], tag="A")
    store_messages(harness, [b"b"], tag="B")
    mine, other = harness.connect(), harness.connect()
    send_heartbeat(harness, "me", mine, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)])
    send_heartbeat(harness, "other", other, subscriptions=[SubscriptionBody(topic="orders", expression="B", version=2)])
    assert bodies(pull(harness, pull_header(flags=0, version=1), peer=mine)) == [b"a"]
    assert bodies(pull(harness, pull_header(flags=0, version=2), peer=other)) == [b"b"]
    assert bodies(pull(harness, pull_header(flags=0, version=2))) == [b"b"]


def test_a_member_whose_heartbeat_is_behind_is_served_as_its_group_is(harness: BrokerHarness) -> None:
    store_messages(harness, [b"a"], tag="A")
    mine, other = harness.connect(), harness.connect()
    send_heartbeat(harness, "me", mine, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=1)])
    send_heartbeat(harness, "other", other, subscriptions=[SubscriptionBody(topic="orders", expression="A", version=2)])
    assert bodies(pull(harness, pull_header(flags=0, version=2), peer=mine)) == [b"a"]
    assert pull(harness, pull_header(flags=0, version=3), peer=mine).code == 25
