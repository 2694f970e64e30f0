"""Consumer groups, as administrators make, change, list and delete them."""

import pytest
from msgspec.structs import replace

from steelyard.broker.options import BrokerOptions
from steelyard.model.reserved_names import SYSTEM_GROUPS
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupConfigList, SubscriptionGroupTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.frames import FrameDecoder
from tests.broker.broker_harness import BrokerHarness
from tests.golden_frames import golden_frames


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def settings(harness: BrokerHarness, group: str) -> SubscriptionGroupConfig:
    answer = harness.request(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
    assert answer.code == 0, answer.remark
    return decode_body(SubscriptionGroupConfig, answer.body)


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_a_group_is_made_as_java_asks_for_it(harness: BrokerHarness, release: str) -> None:
    (frame,) = (
        each.frame for each in golden_frames() if each.release == release and each.code == 200 and not each.is_answer
    )
    (asked,) = FrameDecoder().feed(frame)
    assert harness.request(asked.code, asked.texts(), asked.body).code == 0
    # What 4.9 does not say is what 5.5 would have said.
    assert settings(harness, "LabGroup") == harness.state.groups.settings_or_default("LabGroup")
    assert settings(harness, "LabGroup").consume_timeout_minutes == 15


def test_a_group_is_changed_and_keeps_what_was_not_said(harness: BrokerHarness) -> None:
    made = replace(harness.state.groups.settings_or_default("billing"), orderly=True, max_retries=3)
    harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(made))
    body = b'{"groupName":"billing","consumeEnable":false,"retryMaxTimes":5}'
    assert harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    assert settings(harness, "billing") == replace(made, consume_enabled=False, max_retries=5)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"groupName":1.5}', b'{"groupName":', b"\xff"])
def test_what_is_no_group_is_refused(harness: BrokerHarness, body: bytes) -> None:
    before = len(harness.state.groups)
    assert harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code != 0
    assert len(harness.state.groups) == before


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 121])
def test_bad_names_are_refused(harness: BrokerHarness, name: str) -> None:
    wanted = SubscriptionGroupConfig(name=name)
    alone = harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(wanted))
    both = SubscriptionGroupConfigList(groups=(SubscriptionGroupConfig(name="billing"), wanted))
    together = harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=encode_body(both))
    assert alone.code == together.code == ResponseCode.INVALID_PARAMETER
    assert harness.state.groups.get("billing") is None


def test_attributes_that_mean_nothing_are_refused(harness: BrokerHarness) -> None:
    wanted = SubscriptionGroupConfig(name="billing", attributes={"+colour": "blue"})
    answer = harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(wanted))
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_many_groups_are_made_together(harness: BrokerHarness) -> None:
    both = SubscriptionGroupConfigList(
        groups=(SubscriptionGroupConfig(name="billing"), SubscriptionGroupConfig(name="audit", max_retries=2))
    )
    assert harness.request(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=encode_body(both)).code == 0
    assert settings(harness, "audit").max_retries == 2


def test_asking_for_a_group_makes_it_where_that_is_allowed(harness: BrokerHarness) -> None:
    assert settings(harness, "billing").name == "billing"
    assert harness.state.groups.get("billing") is not None
    strict = BrokerHarness(BrokerOptions(auto_create_groups=False))
    answer = strict.request(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "billing"})
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_groups_are_reported_whole_or_in_pages(harness: BrokerHarness) -> None:
    answer = harness.request(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    whole = decode_body(SubscriptionGroupTable, answer.body)
    assert sorted(whole.groups) == sorted(SYSTEM_GROUPS)
    assert answer.texts() == {"totalGroupNum": str(len(SYSTEM_GROUPS))}
    assert whole.version is not None
    assert whole.forbidden == {}
    version = encode_body(whole.version).decode()
    fields = {"groupSeq": "6", "dataVersion": version, "maxGroupNum": "2000"}
    page = decode_body(SubscriptionGroupTable, harness.request(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields).body)
    assert list(page.groups) == list(whole.groups)[6:]


@pytest.mark.parametrize(
    ("fields", "is_kept"),
    [({}, True), ({"cleanOffset": "false"}, True), ({"cleanOffset": "true"}, False), ({"removeOffset": "true"}, False)],
)
def test_a_deleted_group_may_take_its_offsets_along(
    harness: BrokerHarness, fields: dict[str, str], is_kept: bool
) -> None:
    settings(harness, "billing")
    harness.state.offsets.put("billing", "orders", 0, 7)
    harness.state.traffic.record_pulled("billing", "orders", 1, 1)
    assert harness.request(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing", **fields}).code == 0
    assert harness.state.groups.get("billing") is None
    assert (harness.state.offsets.get("billing", "orders", 0) == 7) is is_kept
    assert harness.state.traffic.group_counter("billing", "orders") is None
    assert harness.request(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing"}).code == 0
