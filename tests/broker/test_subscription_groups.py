"""The table of groups: settings with Apache's defaults, created on first use if that is allowed."""

import pytest
from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.broker.subscription_groups import SubscriptionGroups
from steelyard.errors import GroupNotFound, InvalidParameter, ServerFailed
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupTable

_NOW = 1_700_000_000_000


def test_the_groups_of_apaches_tools_are_always_there() -> None:
    groups = SubscriptionGroups(BrokerOptions(), None, _NOW)
    assert {"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"} <= {group.name for group in groups}


def test_a_group_is_made_with_apaches_defaults() -> None:
    made = SubscriptionGroups(BrokerOptions(), None, _NOW).get_or_create("billing", _NOW)
    assert (made.max_retries, made.retry_queues, made.consume_enabled, made.broadcast_enabled) == (16, 1, True, True)


def test_where_groups_are_not_made_by_themselves_only_those_of_the_system_are() -> None:
    groups = SubscriptionGroups(BrokerOptions(auto_create_groups=False), None, _NOW)
    with pytest.raises(GroupNotFound) as caught:
        groups.get_or_create("billing", _NOW)
    assert caught.value.code == 26
    assert groups.get_or_create("CID_RMQ_SYS_x", _NOW).name == "CID_RMQ_SYS_x"


def test_bad_names_and_too_many_groups_are_refused() -> None:
    groups = SubscriptionGroups(BrokerOptions(max_groups=9), None, _NOW)
    with pytest.raises(InvalidParameter):
        groups.get_or_create("a/b", _NOW)
    groups.get_or_create("one", _NOW)
    with pytest.raises(ServerFailed):
        groups.get_or_create("two", _NOW)


def test_a_saved_table_comes_back() -> None:
    groups = SubscriptionGroups(BrokerOptions(), None, _NOW)
    groups.put(structs.replace(groups.get_or_create("billing", _NOW), max_retries=3), _NOW)
    saved = decode_body(SubscriptionGroupTable, encode_body(groups.table()))
    again = SubscriptionGroups(BrokerOptions(), saved, _NOW)
    found = again.get("billing")
    assert found is not None
    assert found.max_retries == 3
    assert again.version.counter > groups.version.counter


def test_a_change_counts_and_the_same_again_does_not() -> None:
    groups = SubscriptionGroups(BrokerOptions(), None, _NOW)
    made = groups.get_or_create("billing", _NOW)
    groups.put(made, _NOW)
    assert groups.changes == 1
    assert groups.remove("billing", _NOW)
    assert not groups.remove("billing", _NOW)
    assert groups.changes == 2
