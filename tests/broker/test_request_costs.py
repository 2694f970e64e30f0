"""The worst requests of each kind: what is within the limits is taken, what is not is refused and told why.

None of them may hold up the loop that all clients share: tests/broker/worst_requests.py says how that is measured.
There is at least one for every code that a broker or a name server handles.
"""

from collections.abc import Callable, Iterator

import pytest

from steelyard.broker.broker import HANDLERS
from steelyard.nameserver.name_server import HANDLERS as NAME_SERVER_HANDLERS
from steelyard.wire.codes import RequestCode
from tests.broker.worst_requests import MOST_LOOPS, broker_work, measured, name_server_work, refused, taken
from tests.broker.worst_states import forget_states, worst_of_broker, worst_of_name_server

pytestmark = pytest.mark.xdist_group("request costs")  # the states are large, and made once


@pytest.fixture(scope="module", autouse=True)
def _states() -> Iterator[None]:
    yield
    forget_states()


def _is_quick(make: Callable[[], Callable[[], object]]) -> bool:
    return any(ours_ms < MOST_LOOPS * loop_ms for ours_ms, loop_ms in measured(make))


@pytest.mark.parametrize("what", taken())
def test_the_largest_request_of_each_kind_is_taken_and_holds_nobody_up(what: str) -> None:
    make = taken()[what]
    answer = broker_work(make)()
    assert answer.code == 0, answer.remark
    assert _is_quick(lambda: broker_work(make))


@pytest.mark.parametrize("what", refused())
def test_what_would_cost_too_much_is_refused_and_told_why_and_holds_nobody_up(what: str) -> None:
    make = refused()[what]
    answer = broker_work(make)()
    assert answer.code != 0
    assert answer.remark
    assert _is_quick(lambda: broker_work(make))


@pytest.mark.parametrize(("topics", "is_taken"), [(20_000, True), (80_000, False)])
def test_a_name_server_takes_a_registration_of_so_many_topics_and_no_more(topics: int, is_taken: bool) -> None:
    assert (name_server_work(topics)().code == 0) is is_taken
    assert _is_quick(lambda: name_server_work(topics))


def test_the_worst_of_every_request_is_measured() -> None:
    fresh = {make()[0] for worst in (taken(), refused()) for make in worst.values()}
    assert {*HANDLERS} - fresh - {each.code for each in worst_of_broker().values()} == set()
    registering = RequestCode.REGISTER_BROKER  # above
    assert {*NAME_SERVER_HANDLERS} - {each.code for each in worst_of_name_server().values()} == {registering}


@pytest.mark.parametrize("what", worst_of_broker())
def test_no_request_holds_up_a_full_broker(what: str) -> None:
    case = worst_of_broker()[what]
    assert case.work()() == case.answers
    assert _is_quick(case.work)


@pytest.mark.parametrize("what", worst_of_name_server())
def test_no_request_holds_up_a_full_name_server(what: str) -> None:
    case = worst_of_name_server()[what]
    assert case.work()() in (0, 22)
    assert _is_quick(case.work)
