"""Names of a namespace go out whole and come back bare."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.namespace import ClientNamespace
from steelyard.model import Queue

_NAMES = st.text("abcXYZ-_%0", min_size=1, max_size=12)
_PREFIX = st.sampled_from(["", "%RETRY%", "%DLQ%"])


@given(_PREFIX, _NAMES.filter(lambda name: not name.startswith("eu%")))
def test_what_goes_out_comes_back(prefix: str, name: str) -> None:
    names = ClientNamespace("eu")
    assert names.unwrap(names.wrap(prefix + name)) == prefix + name


@given(_PREFIX, _NAMES)
def test_a_name_is_wrapped_once(prefix: str, name: str) -> None:
    names = ClientNamespace("eu")
    assert names.wrap(names.wrap(prefix + name)) == names.wrap(prefix + name)


@given(_NAMES)
def test_without_a_namespace_nothing_changes(name: str) -> None:
    assert ClientNamespace().wrap(name) == ClientNamespace().unwrap(name) == name


def test_the_namespace_is_inside_of_what_a_group_brings_along() -> None:
    assert ClientNamespace("eu").wrap("%RETRY%billing") == "%RETRY%eu%billing"
    assert ClientNamespace("eu").wrap_queue(Queue("%DLQ%billing", "a", 3)) == Queue("%DLQ%eu%billing", "a", 3)


def test_what_is_the_servers_own_has_none() -> None:
    for name in ("TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRACE_TOPIC"):
        assert ClientNamespace("eu").wrap(name) == name
