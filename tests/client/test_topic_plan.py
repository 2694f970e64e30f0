"""What is wished of a topic: what was not said stays, a wish that came true is over, and all changes are told."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.validation import apply_attribute_changes, parse_attribute_changes
from steelyard.client.admin.topic_plan import BrokerTopicConfig, TopicChange, TopicSpec
from steelyard.errors import ConfigurationError
from steelyard.model import Permission

COUNTS = st.integers(1, 65_536)
RIGHTS = st.integers(0, 15).map(Permission)
NAMES = st.sampled_from(["message.type", "reserve.time", "queue.type"])
VALUES = st.sampled_from(["a", "b", "5"])

SETUPS = st.builds(
    BrokerTopicConfig,
    COUNTS,
    COUNTS,
    RIGHTS,
    st.booleans(),
    st.dictionaries(NAMES, VALUES).map(lambda found: dict(sorted(found.items()))),
)
WISHES = st.builds(
    TopicSpec,
    name=st.just("orders"),
    queues=st.none() | COUNTS,
    read_queues=st.none() | COUNTS,
    write_queues=st.none() | COUNTS,
    permission=st.none() | RIGHTS,
    order=st.none() | st.booleans(),
    attributes=st.dictionaries(NAMES, st.none() | VALUES),
)


@given(WISHES, st.none() | SETUPS)
def test_a_wish_that_is_fulfilled_changes_nothing_more(wish: TopicSpec, before: BrokerTopicConfig | None) -> None:
    after = wish.apply_to(before)
    assert wish.apply_to(after) == after
    assert TopicChange("orders", "broker-a", after, wish.apply_to(after)).what == "keep"


@given(SETUPS)
def test_what_is_not_said_stays(before: BrokerTopicConfig) -> None:
    assert TopicSpec(name="orders").apply_to(before) == before


@given(WISHES, SETUPS)
def test_a_change_is_reported_in_words_exactly_if_there_is_one(wish: TopicSpec, before: BrokerTopicConfig) -> None:
    change = TopicChange("orders", "broker-a", before, wish.apply_to(before))
    rights = sum(Permission) - 9
    # Bits that are not for clients are no words of theirs.
    is_seen = replace(before, permission=Permission(before.permission & rights)) != replace(
        change.after, permission=Permission(change.after.permission & rights)
    )
    assert bool(change.details) or not is_seen
    assert not (change.details and change.what == "keep")


@given(WISHES, SETUPS)
def test_a_broker_that_is_told_of_changed_attributes_has_those_wished_for(
    wish: TopicSpec, before: BrokerTopicConfig
) -> None:
    change = TopicChange("orders", "broker-a", before, wish.apply_to(before))
    known = dict.fromkeys(("message.type", "reserve.time", "queue.type"), lambda _: True)
    assert (
        apply_attribute_changes(known, before.attributes, parse_attribute_changes(change.attribute_changes()))
        == change.after.attributes
    )


@given(SETUPS, SETUPS)
def test_queues_that_are_hidden_are_those_that_could_be_read_before(
    before: BrokerTopicConfig, after: BrokerTopicConfig
) -> None:
    hidden = TopicChange("orders", "broker-a", before, after).hidden
    assert len(hidden) == max(0, before.read_queues - after.read_queues)
    assert TopicChange("orders", "broker-a", None, after).hidden == range(after.read_queues, 0)


@pytest.mark.parametrize("attributes", [{"": "a"}, {"a,b": "c"}, {"a": "b,+c=d"}, {"a=b": "c"}])
def test_an_attribute_cannot_smuggle_in_another(attributes: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="cannot have the attribute"):
        TopicSpec(name="orders", attributes=attributes)
