"""The broker's settings under Java's names: read all, change some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.desk import Desk, message

from steelyard.broker.options import BrokerOptions
from steelyard.model.names import DEFAULT_TOPIC
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.settings_text import decode_settings
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command

# What exportConfigs, exportMetrics and exportPopRecord of Apache's tools look at.
READ_BY_TOOLS = """
brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType maxMessageSize
messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable
autoCreateSubscriptionGroup clientCallbackExecutorThreads
""".split()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def settings(desk: Desk) -> dict[str, str]:
    return decode_settings(desk.ask(Code.GET_BROKER_CONFIG).body)


def change(desk: Desk, text: str) -> Command:
    return desk.ask(Code.UPDATE_BROKER_CONFIG, body=text.encode())


def version(desk: Desk) -> TableVersion:
    return decode_body(TableVersion, desk.ask(Code.GET_BROKER_CONFIG).texts()["version"].encode())


def test_all_that_tools_read_is_there(desk: Desk) -> None:
    found = settings(desk)
    assert found.keys() >= set(READ_BY_TOOLS)
    assert found["brokerName"] == "broker-0"
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["messageDelayLevel"] == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert found["autoCreateTopicEnable"] == "true"


def test_a_change_shows_and_has_a_version(desk: Desk) -> None:
    before = version(desk)
    assert change(desk, "flushDiskType=SYNC_FLUSH\nmaxMessageSize=2048\nfileReservedTime=48\n").code == 0
    found = settings(desk)
    assert (found["flushDiskType"], found["maxMessageSize"], found["fileReservedTime"]) == ("SYNC_FLUSH", "2048", "48")
    assert version(desk).counter == before.counter + 1
    assert desk.state.options.is_sync
    assert desk.state.store.options.keep_ms == 48 * 3_600_000


def test_messages_can_be_kept_for_ever(desk: Desk) -> None:
    assert change(desk, "fileReservedTime=5").code == 0
    assert change(desk, "fileReservedTime=-1").code == 0
    assert desk.state.store.options.keep_ms is None
    assert settings(desk)["fileReservedTime"] == "-1"


def test_topics_are_made_by_sends_only_while_that_is_on(desk: Desk) -> None:
    assert change(desk, "autoCreateTopicEnable=false").code == 0
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"x").code == ResponseCode.TOPIC_NOT_EXIST
    assert desk.state.topics.get(DEFAULT_TOPIC) is None
    assert change(desk, "autoCreateTopicEnable=true").code == 0
    assert desk.ask(Code.SEND_MESSAGE_V2, message("orders"), b"x").code == 0


def test_groups_are_made_by_asking_only_while_that_is_on(desk: Desk) -> None:
    change(desk, "autoCreateSubscriptionGroup=false")
    ask = Code.GET_SUBSCRIPTIONGROUP_CONFIG
    assert desk.ask(ask, {"group": "billing"}).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    change(desk, "autoCreateSubscriptionGroup=true")
    assert desk.ask(ask, {"group": "billing"}).code == 0


@pytest.mark.parametrize(
    "name", ["brokerName", "listenPort", "storePathRootDir", "autoCreateTopicEnabled", "x" * 10_000]
)
def test_what_cannot_be_changed_is_refused_by_its_name(desk: Desk, name: str) -> None:
    before = settings(desk)
    answer = change(desk, f"maxMessageSize=2048\nfileReservedTime=2\n{name}=1\n")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert name[:80] in (answer.remark or "")
    assert settings(desk) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxMessageSize", "0"),
        ("maxMessageSize", "9" * 5_000),
        ("maxMessageSize", "many"),
        ("autoCreateTopicEnable", "yes"),
        ("flushDiskType", "sync"),
        ("fileReservedTime", "0"),
        ("fileReservedTime", "soon"),
        ("transactionTimeOut", ""),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_name(desk: Desk, name: str, value: str) -> None:
    before = settings(desk)
    answer = change(desk, f"enablePropertyFilter=false\n{name}={value}\n")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert name in (answer.remark or "")
    assert settings(desk) == before


def test_a_change_lasts_until_the_broker_is_started_again(desk: Desk) -> None:
    change(desk, "maxMessageSize=2048")
    desk.restart()
    assert settings(desk)["maxMessageSize"] == str(BrokerOptions().max_message_bytes)


@given(text=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_taken_or_refused(text: str) -> None:
    desk = Desk()
    answer = desk.ask(Code.UPDATE_BROKER_CONFIG, body=text.encode(errors="replace"))
    assert answer.code in (0, ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER)
