"""Selectors: the queue that other clients pick for a key, and clear errors where there is none."""

import json
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.producer.queue_selection import SELECTOR_NAMES, MessageQueueSelector, make_selector, select_queue
from steelyard.errors import ConfigurationError, SelectorFailed
from steelyard.model import Message, PublishList, Queue
from tests.balance.producer_fixtures import publish_lists

_GOLDEN = Path(__file__).parent.parent / "golden"
_MESSAGE = Message("orders", b"{}")


def _queues(count: int, broker: str = "broker-a") -> list[Queue]:
    return [Queue("orders", broker, number) for number in range(count)]


def test_a_key_goes_to_the_queue_that_java_picks() -> None:
    vectors = cast(
        "list[dict[str, object]]", json.loads((_GOLDEN / "allocation.json").read_text("utf-8"))["selectByHash"]
    )
    for vector in vectors:
        queues = _queues(cast("int", vector["n"]))
        assert select_queue(make_selector("hash"), queues, _MESSAGE, vector["key"]).queue_id == vector["index"]


@pytest.mark.parametrize(
    ("name", "key", "of_seven"),
    [
        # Java: Integer.hashCode, Long.hashCode and Boolean.hashCode, then |remainder|.
        ("hash", 10, 3),
        ("hash", -10, 3),
        ("hash", 2**33, 2),
        ("hash", -(2**40), 256 % 7),
        ("hash", -(2**31), 2),
        ("hash", True, 1231 % 7),
        ("hash", "polygenelubricants", 2),  # whose hash is the smallest number there is
        # Go: fnv.New32a of the text, unsigned.
        ("fnv1a", "foobar", 0xBF9CF968 % 7),
        ("fnv1a", "", 0x811C9DC5 % 7),
        # Guava's sipHash24 of the UTF-8 text, as a long, with the remainder that is never negative.
        ("siphash24", "foo哈哈😄2222哈哈", (0xF635F93D024A9AA2 - 2**64) % 7),
        ("sha256", "abc", 0xBA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD % 7),
        ("md5", "abc", 0x90015098 % 7),
    ],
)
def test_a_key_goes_where_the_other_clients_send_it(name: str, key: object, of_seven: int) -> None:
    assert select_queue(make_selector(name), _queues(7), _MESSAGE, key).queue_id == of_seven


@given(st.text(max_size=40), publish_lists(), st.sampled_from(["hash", "fnv1a", "md5", "sha256", "siphash24"]))
def test_the_same_key_has_the_same_queue(key: str, listed: PublishList, name: str) -> None:
    first, again = (select_queue(make_selector(name), listed.queues, _MESSAGE, key) for _ in range(2))
    assert first == again
    assert first in listed.queues


def test_without_an_argument_the_first_key_of_the_message_counts() -> None:
    keyed = Message("orders", b"{}", keys=["order-1", "customer-7"])
    assert select_queue(make_selector("hash"), _queues(9), keyed) == select_queue(
        make_selector("hash"), _queues(9), _MESSAGE, "order-1"
    )


@pytest.mark.parametrize(("key", "why"), [(None, "has no key"), (3.5, "has a float as its key"), (b"x", "a bytes")])
def test_a_message_without_a_usable_key_is_a_clear_error(key: object, why: str) -> None:
    with pytest.raises(SelectorFailed, match=why):
        select_queue(make_selector("hash"), _queues(3), _MESSAGE, key)


def test_random_asks_the_function_it_was_given() -> None:
    drawn = iter([5, -1, 2**64])
    chooses = make_selector("random", draw=lambda: next(drawn))
    assert [select_queue(chooses, _queues(4), _MESSAGE).queue_id for _ in range(3)] == [1, 3, 0]


def test_round_robin_takes_turns_for_each_topic_by_itself() -> None:
    chooses = make_selector("round-robin", start=2)
    other = Message("refunds", b"{}")
    assert [select_queue(chooses, _queues(3), _MESSAGE).queue_id for _ in range(4)] == [2, 0, 1, 2]
    assert select_queue(chooses, _queues(3), other).queue_id == 2


def test_the_machine_room_is_preferred_and_all_queues_are_used_where_it_has_none() -> None:
    queues = [*_queues(2, "east@a"), *_queues(2, "west@b"), *_queues(1, "plain")]
    near = make_selector("machine-room", rooms=["west"])
    assert Counter(select_queue(near, queues, _MESSAGE).broker for _ in range(6)) == {"west@b": 6}
    far = make_selector("machine-room", rooms=["north", "plain"])
    assert len({select_queue(far, queues, _MESSAGE) for _ in range(5)}) == 5


def test_a_selector_of_ones_own_sees_the_full_list_the_message_and_the_argument() -> None:
    seen: list[object] = []

    def last(queues: object, message: Message, argument: object) -> Queue | None:
        seen.extend([queues, message, argument])
        return _queues(3)[2]

    assert select_queue(last, _queues(3), _MESSAGE, "x").queue_id == 2
    assert seen == [tuple(_queues(3)), _MESSAGE, "x"]


def _raises(*_: object) -> Queue | None:
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("chooses", "why"),
    [
        (_raises, r"'_raises' raised ZeroDivisionError\('by nothing'\) for a message to 'orders'"),
        (lambda *_: None, "returned no queue"),
        (lambda *_: Queue("orders", "broker-z", 9), "returned orders@broker-z:9, which was not offered"),
    ],
)
def test_a_selector_that_fails_is_a_clear_error(chooses: MessageQueueSelector, why: str) -> None:
    with pytest.raises(SelectorFailed, match=why):
        select_queue(chooses, _queues(3), _MESSAGE)


def test_an_unknown_name_gets_the_nearest_and_a_missing_part_is_named() -> None:
    with pytest.raises(ConfigurationError, match="did you mean siphash24"):
        make_selector("siphash")
    with pytest.raises(ConfigurationError, match="needs rooms"):
        make_selector("machine-room")
    with pytest.raises(ConfigurationError, match="needs a function to draw"):
        make_selector("random")
    for name in SELECTOR_NAMES:
        assert callable(make_selector(name.upper(), draw=int, rooms=["r"]))
