"""Names are validated before anything else: no name leaves the data directory, none is too long for a record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.validation import check_broker, check_cluster, check_group, check_topic
from steelyard.errors import ConfigurationError, InvalidParameter
from steelyard.model.reserved_names import is_system_topic


@pytest.mark.parametrize("name", ["orders", "%RETRY%billing", "%DLQ%billing", "a|b", "A-1_2", "x" * 127])
def test_names_that_java_takes_are_taken(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "a\0", "a\n", "é", "x" * 128, "CON:", "a\\b"])
def test_names_that_could_leave_the_directory_or_a_record_are_refused(name: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        check_topic(name)
    assert caught.value.code == 29
    with pytest.raises(InvalidParameter):
        check_group(name or "a b")
    for check in (check_broker, check_cluster):
        with pytest.raises(ConfigurationError):
            check(name)


def test_a_broker_may_report_its_machine_room() -> None:
    check_broker("east@broker-a")
    for name in ("@broker-a", "east@", "east@broker@a", "@"):
        with pytest.raises(ConfigurationError):
            check_broker(name)
    with pytest.raises(ConfigurationError):
        check_cluster("east@cluster")


def test_retry_topics_may_be_as_long_as_their_groups_make_them() -> None:
    check_topic("%RETRY%" + "g" * 120)
    check_topic("%DLQ%" + "g" * 250)
    with pytest.raises(InvalidParameter):
        check_topic("%DLQ%" + "g" * 251)
    with pytest.raises(InvalidParameter):
        check_group("g" * 121)


def test_a_refusal_quotes_no_more_than_a_line_of_the_name() -> None:
    with pytest.raises(InvalidParameter) as caught:
        check_topic("/" * 10_000)
    assert len(caught.value.remark) < 250


@given(st.text(max_size=300))
def test_whatever_is_taken_is_a_plain_folder_name(name: str) -> None:
    try:
        check_topic(name)
    except InvalidParameter:
        return
    assert name.isascii()
    assert not set(name) & set("/\\.\0 ")
    assert 0 < len(name) <= 255


def test_the_brokers_own_topics_are_known() -> None:
    assert all(map(is_system_topic, ("TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "BenchmarkTest")))
    assert not any(map(is_system_topic, ("orders", "%RETRY%g")))
