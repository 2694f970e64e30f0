"""Consumer groups, as administrators make, change, list and delete them."""

import pytest
from msgspec.structs import replace
from tests.broker.desk import Desk
from tests.golden_frames import golden_frames

from steelyard.broker.options import BrokerOptions
from steelyard.model.names import SYSTEM_GROUPS
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.groups import GroupSettings, GroupSettingsList, GroupTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.frames import Splitter


@pytest.fixture
def desk() -> Desk:
    return Desk()


def settings(desk: Desk, group: str) -> GroupSettings:
    answer = desk.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})
    assert answer.code == 0, answer.remark
    return decode_body(GroupSettings, answer.body)


@pytest.mark.parametrize("release", ["4.9.7", "5.5.0"])
def test_a_group_is_made_as_java_asks_for_it(desk: Desk, release: str) -> None:
    (frame,) = (
        each.frame for each in golden_frames() if each.release == release and each.code == 200 and not each.is_answer
    )
    (asked,) = Splitter().feed(frame)
    assert desk.ask(asked.code, asked.texts(), asked.body).code == 0
    # What 4.9 does not say is what 5.5 would have said.
    assert settings(desk, "LabGroup") == desk.state.groups.planned("LabGroup")
    assert settings(desk, "LabGroup").consume_timeout_minutes == 15


def test_a_group_is_changed_and_keeps_what_was_not_said(desk: Desk) -> None:
    made = replace(desk.state.groups.planned("billing"), orderly=True, max_retries=3)
    desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(made))
    body = b'{"groupName":"billing","consumeEnable":false,"retryMaxTimes":5}'
    assert desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    assert settings(desk, "billing") == replace(made, consume_enabled=False, max_retries=5)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"groupName":1.5}', b'{"groupName":', b"\xff"])
def test_what_is_no_group_is_refused(desk: Desk, body: bytes) -> None:
    before = len(desk.state.groups)
    assert desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code != 0
    assert len(desk.state.groups) == before


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 121])
def test_bad_names_are_refused(desk: Desk, name: str) -> None:
    wanted = GroupSettings(name=name)
    alone = desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(wanted))
    both = GroupSettingsList(groups=(GroupSettings(name="billing"), wanted))
    together = desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=encode_body(both))
    assert alone.code == together.code == ResponseCode.INVALID_PARAMETER
    assert desk.state.groups.get("billing") is None


def test_attributes_that_mean_nothing_are_refused(desk: Desk) -> None:
    wanted = GroupSettings(name="billing", attributes={"+colour": "blue"})
    answer = desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(wanted))
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_many_groups_are_made_together(desk: Desk) -> None:
    both = GroupSettingsList(groups=(GroupSettings(name="billing"), GroupSettings(name="audit", max_retries=2)))
    assert desk.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=encode_body(both)).code == 0
    assert settings(desk, "audit").max_retries == 2


def test_asking_for_a_group_makes_it_where_that_is_allowed(desk: Desk) -> None:
    assert settings(desk, "billing").name == "billing"
    assert desk.state.groups.get("billing") is not None
    strict = Desk(BrokerOptions(auto_create_groups=False))
    answer = strict.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "billing"})
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_groups_are_told_whole_or_in_pages(desk: Desk) -> None:
    answer = desk.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    whole = decode_body(GroupTable, answer.body)
    assert sorted(whole.groups) == sorted(SYSTEM_GROUPS)
    assert answer.texts() == {"totalGroupNum": str(len(SYSTEM_GROUPS))}
    assert whole.version is not None
    assert whole.forbidden == {}
    version = encode_body(whole.version).decode()
    fields = {"groupSeq": "6", "dataVersion": version, "maxGroupNum": "2000"}
    page = decode_body(GroupTable, desk.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields).body)
    assert list(page.groups) == list(whole.groups)[6:]


@pytest.mark.parametrize(
    ("fields", "is_kept"),
    [({}, True), ({"cleanOffset": "false"}, True), ({"cleanOffset": "true"}, False), ({"removeOffset": "true"}, False)],
)
def test_a_deleted_group_may_take_its_offsets_along(desk: Desk, fields: dict[str, str], is_kept: bool) -> None:
    settings(desk, "billing")
    desk.state.offsets.put("billing", "orders", 0, 7)
    desk.state.rates.pulled("billing", "orders", 1, 1)
    assert desk.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing", **fields}).code == 0
    assert desk.state.groups.get("billing") is None
    assert (desk.state.offsets.get("billing", "orders", 0) == 7) is is_kept
    assert desk.state.rates.of_group("billing", "orders") is None
    assert desk.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing"}).code == 0
