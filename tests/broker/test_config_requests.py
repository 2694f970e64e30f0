"""The broker's settings under Java's names: read all, change some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.errors import ConfigurationError
from steelyard.model.reserved_names import DEFAULT_TOPIC
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TableVersion, decode_settings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.pull_requests import bodies, pull, pull_header

# What exportConfigs, exportMetrics and exportPopRecord of Apache's tools look at.
READ_BY_TOOLS = """
brokerClusterName brokerId brokerName brokerRole fileReservedTime filterServerNums flushDiskType maxMessageSize
messageDelayLevel msgTraceTopicName slaveReadEnable traceOn traceTopicEnable useTLS autoCreateTopicEnable
autoCreateSubscriptionGroup clientCallbackExecutorThreads
""".split()


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def settings(harness: BrokerHarness) -> dict[str, str]:
    return decode_settings(harness.request(Code.GET_BROKER_CONFIG).body)


def change(harness: BrokerHarness, text: str) -> Command:
    return harness.request(Code.UPDATE_BROKER_CONFIG, body=text.encode())


def version(harness: BrokerHarness) -> TableVersion:
    return decode_body(TableVersion, harness.request(Code.GET_BROKER_CONFIG).texts()["version"].encode())


def test_all_that_tools_read_is_there(harness: BrokerHarness) -> None:
    found = settings(harness)
    assert found.keys() >= set(READ_BY_TOOLS)
    assert found["brokerName"] == "broker-0"
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["messageDelayLevel"] == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert found["autoCreateTopicEnable"] == "true"


def test_a_change_shows_and_has_a_version(harness: BrokerHarness) -> None:
    before = version(harness)
    assert change(harness, "flushDiskType=SYNC_FLUSH\nmaxMessageSize=2048\nfileReservedTime=48\n").code == 0
    found = settings(harness)
    assert (found["flushDiskType"], found["maxMessageSize"], found["fileReservedTime"]) == ("SYNC_FLUSH", "2048", "48")
    assert version(harness).counter == before.counter + 1
    assert harness.state.options.is_sync
    assert harness.state.store.options.keep_ms == 48 * 3_600_000


def test_messages_can_be_kept_for_ever(harness: BrokerHarness) -> None:
    assert change(harness, "fileReservedTime=5").code == 0
    assert change(harness, "fileReservedTime=-1").code == 0
    assert harness.state.store.options.keep_ms is None
    assert settings(harness)["fileReservedTime"] == "-1"


def test_topics_are_made_by_sends_only_while_that_is_on(harness: BrokerHarness) -> None:
    assert change(harness, "autoCreateTopicEnable=false").code == 0
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x").code == ResponseCode.TOPIC_NOT_EXIST
    assert harness.state.topics.get(DEFAULT_TOPIC) is None
    assert change(harness, "autoCreateTopicEnable=true").code == 0
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x").code == 0


def test_groups_are_made_by_asking_only_while_that_is_on(harness: BrokerHarness) -> None:
    change(harness, "autoCreateSubscriptionGroup=false")
    ask = Code.GET_SUBSCRIPTIONGROUP_CONFIG
    assert harness.request(ask, {"group": "billing"}).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    change(harness, "autoCreateSubscriptionGroup=true")
    assert harness.request(ask, {"group": "billing"}).code == 0


@pytest.mark.parametrize(
    "name", ["brokerName", "listenPort", "storePathRootDir", "autoCreateTopicEnabled", "x" * 10_000]
)
def test_what_cannot_be_changed_is_refused_by_its_name(harness: BrokerHarness, name: str) -> None:
    before = settings(harness)
    answer = change(harness, f"maxMessageSize=2048\nfileReservedTime=2\n{name}=1\n")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert name[:80] in (answer.remark or "")
    assert settings(harness) == before


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
        ("brokerPermission", "2"),
        ("brokerPermission", "7"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_name(harness: BrokerHarness, name: str, value: str) -> None:
    before = settings(harness)
    answer = change(harness, f"enablePropertyFilter=false\n{name}={value}\n")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert name in (answer.remark or "")
    assert settings(harness) == before


@pytest.mark.parametrize(
    "text", ["slaveReadEnable=false", "longPollingEnable=true", "brokerName= broker-0 ", "maxMessageSize=4194304"]
)
def test_a_setting_may_be_given_the_value_that_it_has(harness: BrokerHarness, text: str) -> None:
    before = settings(harness)
    assert change(harness, text).code == 0
    assert settings(harness) == before


def test_how_many_messages_a_pull_gets_can_be_changed(harness: BrokerHarness) -> None:
    for number in range(5):
        harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"%d" % number)
    assert settings(harness)["maxTransferCountOnMessageInMemory"] == "1024"
    assert len(bodies(pull(harness, pull_header()))) == 5
    assert change(harness, "maxTransferCountOnMessageInMemory=2").code == 0
    assert len(bodies(pull(harness, pull_header()))) == 2


def test_a_broker_that_is_only_read_from_reports_it_to_name_servers_and_serves_readers(harness: BrokerHarness) -> None:
    assert harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x").code == 0
    before, topics = harness.state.topics.registration_table(), harness.state.topics
    assert change(harness, "brokerPermission=4").code == 0
    closed = topics.registration_table()
    assert {name: settings.permission for name, settings in closed.topics.items()} == {
        name: settings.permission & 4 for name, settings in before.topics.items()
    }
    assert closed.version != before.version
    assert topics.table().topics == before.topics, "what is saved is what topics may by themselves"
    assert len(bodies(pull(harness, pull_header()))) == 1
    assert change(harness, "brokerPermission=6").code == 0
    assert topics.registration_table().topics == before.topics


def test_a_broker_that_is_only_read_from_takes_what_is_sent_by_those_who_cannot_know(harness: BrokerHarness) -> None:
    def send(topic: str = "orders") -> int:
        return harness.request(Code.SEND_MESSAGE_V2, message(topic), b"x").code

    assert send() == 0
    harness.state.topics.put(structs.replace(harness.state.topics["orders"].settings, name="ordered", order=True), 0)
    change(harness, "brokerPermission=4")
    assert send() == 0
    assert send("ordered") == ResponseCode.NO_PERMISSION, "its senders do not go by the permission"
    harness.advance(30_000, step_ms=10_000)
    change(harness, "brokerPermission=4")
    assert send() == 0
    harness.advance(10_000, step_ms=10_000)
    refused = harness.request(Code.SEND_MESSAGE_V2, message("orders"), b"x")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.remark == "the broker[127.0.0.1] sending message is forbidden: its brokerPermission is 4"
    change(harness, "brokerPermission=6")
    assert send() == send("ordered") == 0


def test_a_broker_that_was_started_to_be_read_from_takes_nothing() -> None:
    harness = BrokerHarness(BrokerOptions(permission=4))
    assert settings(harness)["brokerPermission"] == "4"
    for code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE):
        assert harness.request(code, message("orders"), b"x").code == ResponseCode.NO_PERMISSION
    with pytest.raises(ConfigurationError, match="permission is 2"):
        BrokerOptions(permission=2)


def test_a_change_lasts_until_the_broker_is_started_again(harness: BrokerHarness) -> None:
    change(harness, "maxMessageSize=2048")
    harness.restart()
    assert settings(harness)["maxMessageSize"] == str(BrokerOptions().max_message_bytes)


@given(text=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_taken_or_refused(text: str) -> None:
    harness = BrokerHarness()
    answer = harness.request(Code.UPDATE_BROKER_CONFIG, body=text.encode(errors="replace"))
    assert answer.code in (0, ResponseCode.NO_PERMISSION, ResponseCode.INVALID_PARAMETER)
