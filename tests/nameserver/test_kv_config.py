"""Settings by namespace and key, and the name server's own: 100, 101, 102, 219, 318, 319; and what is saved of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.nameserver import NameServerOptions
from steelyard.nameserver.validation import MAX_KEY_VALUE_BYTES, MAX_KEY_VALUES
from steelyard.wire.bodies.common import KVTable, decode_settings
from steelyard.wire.headers.nameserver import KVConfigResponse
from tests.nameserver.nameserver_harness import NameServerHarness


def put(harness: NameServerHarness, namespace: str, key: str, value: str) -> int:
    return harness.request(100, {"namespace": namespace, "key": key, "value": value}).code


def test_a_value_is_put_told_listed_and_deleted() -> None:
    harness = NameServerHarness()
    assert put(harness, "ns", "k", "v") == 0
    assert harness.request(101, {"namespace": "ns", "key": "k"}).header(KVConfigResponse).value == "v"
    assert harness.request(219, {"namespace": "ns"}).body == b'{"table":{"k":"v"}}'
    assert harness.request(102, {"namespace": "ns", "key": "k"}).code == 0
    answer = harness.request(101, {"namespace": "ns", "key": "k"})
    assert (answer.code, answer.remark) == (22, "No config item, Namespace: ns Key: k")
    assert harness.request(102, {"namespace": "ns", "key": "k"}).code == 0


def test_a_namespace_is_not_found_until_it_was_used() -> None:
    harness = NameServerHarness()
    answer = harness.request(219, {"namespace": "ns"})
    assert (answer.code, answer.remark) == (22, "No config item, Namespace: ns")
    put(harness, "ns", "k", "v")
    harness.request(102, {"namespace": "ns", "key": "k"})
    assert harness.read(KVTable, 219, {"namespace": "ns"}).table == {}


def test_a_put_without_a_value_says_how_to_delete() -> None:
    answer = NameServerHarness().request(100, {"namespace": "ns", "key": "k"})
    assert answer.code == 29
    assert "102" in (answer.remark or "")


def test_an_empty_value_is_a_value() -> None:
    harness = NameServerHarness()
    assert put(harness, "ns", "k", "") == 0
    assert harness.request(101, {"namespace": "ns", "key": "k"}).code == 0


def test_settings_have_a_limit_in_number_and_room_comes_back() -> None:
    harness = NameServerHarness()
    for number in range(MAX_KEY_VALUES - 1):
        assert put(harness, "ns", str(number), "") == 0
    assert put(harness, "ns", "one more", "") == 1
    assert put(harness, "ns", "0", "changed") == 0
    harness.request(102, {"namespace": "ns", "key": "0"})
    assert put(harness, "ns", "one more", "") == 0


def test_settings_have_a_limit_in_bytes() -> None:
    harness = NameServerHarness()
    value = "x" * 32_000
    codes = [put(harness, "ns", str(number), value) for number in range(MAX_KEY_VALUE_BYTES // len(value) + 1)]
    assert codes[0] == 0
    assert codes[-1] == 1
    assert put(harness, "ns", "0", "") == 0
    assert put(harness, "ns", "last", value) == 0


def test_namespaces_that_are_empty_make_room() -> None:
    harness = NameServerHarness()
    for number in range(MAX_KEY_VALUES + 2):
        assert put(harness, f"ns{number}", "k", "v") == 0
        harness.request(102, {"namespace": f"ns{number}", "key": "k"})


def test_what_was_put_outlives_the_process() -> None:
    harness = NameServerHarness()
    assert not harness.core.has_unsaved_changes
    put(harness, "ns", "k", "v")
    assert harness.core.has_unsaved_changes
    saved = harness.core.export_state()
    assert not harness.core.has_unsaved_changes
    assert json.loads(saved)["configTable"] == {"ns": {"k": "v"}}
    again = NameServerHarness(saved=saved)
    assert again.request(101, {"namespace": "ns", "key": "k"}).header(KVConfigResponse).value == "v"
    again.request(102, {"namespace": "ns", "key": "k"})
    assert again.core.has_unsaved_changes
    assert json.loads(again.core.export_state())["configTable"] == {}
    again.request(102, {"namespace": "ns", "key": "k"})
    assert not again.core.has_unsaved_changes


_NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=9)
_PUTS = st.lists(st.tuples(_NAMES, _NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=20)), max_size=9)


@given(_PUTS)
def test_any_settings_are_read_back(puts: list[tuple[str, str, str]]) -> None:
    harness = NameServerHarness()
    want: dict[str, dict[str, str]] = {}
    for namespace, key, value in puts:
        assert put(harness, namespace, key, value) == 0
        want.setdefault(namespace, {})[key] = value
    again = NameServerHarness(saved=harness.core.export_state())
    for namespace, entries in want.items():
        assert again.read(KVTable, 219, {"namespace": namespace}).table == entries


def test_apache_s_file_is_read() -> None:
    harness = NameServerHarness(saved=b'{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"a:2"}}}')
    assert harness.read(KVTable, 219, {"namespace": "ORDER_TOPIC_CONFIG"}).table == {"orders": "a:2"}


def test_a_setting_may_be_given_the_value_that_it_has() -> None:
    harness = NameServerHarness(NameServerOptions(port=7000))
    shown = decode_settings(harness.request(319).body)
    assert shown["listenPort"] == "7000"
    assert harness.request(318, body=b"listenPort=7000\nclusterTest=false\n").code == 0
    assert harness.request(318, body=b"listenPort=7001\n").code == 16
    assert decode_settings(harness.request(319).body) == shown


@pytest.mark.parametrize("saved", [b"{", b'{"configTable":7}', b'{"settings":{"listenPort":"1"}}', b"\xff"])
def test_a_file_that_cannot_be_used_is_named_and_not_overwritten(saved: bytes) -> None:
    with pytest.raises(ConfigurationError, match="saved settings of the name server"):
        NameServerHarness(saved=saved)


def test_the_name_server_s_own_settings_are_reported() -> None:
    settings = decode_settings(NameServerHarness().request(319).body)
    assert settings["orderMessageEnable"] == "true"
    assert settings["needWaitForService"] == "false"
    assert list(settings) == sorted(settings)


def test_a_switch_is_changed_at_once_and_saved() -> None:
    harness = NameServerHarness()
    assert harness.request(318, body=b"enableTopicList=FALSE\n").code == 0
    assert harness.core.options == NameServerOptions(lists_topics=False)
    assert harness.request(311).code == 1
    assert harness.core.has_unsaved_changes
    again = NameServerHarness(saved=harness.core.export_state())
    assert again.core.options.lists_topics is False
    again.request(318, body=b"enableTopicList=true")
    assert NameServerHarness(saved=again.core.export_state()).core.options == NameServerOptions()


@pytest.mark.parametrize(
    "name", ["listenPort", "kvConfigPath", "configBlackList", "rocketmqHome", "needWaitForService"]
)
def test_what_cannot_be_changed_is_a_16_that_names_it_and_changes_nothing(name: str) -> None:
    harness = NameServerHarness()
    answer = harness.request(318, body=f"enableTopicList=false\n{name}=1\n".encode())
    assert answer.code == 16
    assert name in (answer.remark or "")
    assert harness.core.options == NameServerOptions()
    assert not harness.core.has_unsaved_changes


def test_what_nobody_knows_is_passed_over_as_apache_s_does() -> None:
    harness = NameServerHarness()
    answer = harness.request(318, body=b"noSuchThing=1")
    assert (answer.code, answer.remark) == (0, None)
    assert not harness.core.has_unsaved_changes
    assert harness.request(318).code == 0


def test_a_value_that_is_neither_true_nor_false_is_refused() -> None:
    harness = NameServerHarness()
    answer = harness.request(318, body=b"enableTopicList=ture")
    assert answer.code == 29
    assert "enableTopicList" in (answer.remark or "")
    assert harness.core.options == NameServerOptions()
