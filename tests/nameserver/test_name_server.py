"""What holds for every request: who is answered, how, and how an unknown code is answered."""

import pytest

from steelyard.nameserver.name_server import HANDLERS
from steelyard.wire.codes import SERVER_VERSION, HeaderType
from steelyard.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command
from tests.nameserver.nameserver_harness import NameServerHarness, connection, registration

ALL_CODES = [100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327]
ALL_CODES += [901, 904]


def test_every_request_of_a_name_server_is_served() -> None:
    assert sorted(HANDLERS) == ALL_CODES


@pytest.mark.parametrize("code", [*ALL_CODES, 10, 34, 999_999])
def test_a_oneway_request_is_never_answered(code: int) -> None:
    harness = NameServerHarness()
    for body in (b"", b"{", b"{}"):
        assert harness.core.handle(Command(code, {}, body, flag=ONEWAY_FLAG), connection(1), 0) == ()


def test_an_answer_is_never_answered() -> None:
    assert NameServerHarness().core.handle(Command(105, {"topic": "t"}, flag=RESPONSE_FLAG), connection(1), 0) == ()


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_an_answer_comes_in_the_header_type_of_the_question(header_type: HeaderType) -> None:
    (reply,) = NameServerHarness().core.handle(Command(106, opaque=3, header_type=header_type), connection(1), 0)
    assert (reply.command.header_type, reply.command.opaque) == (header_type, 3)
    assert reply.command.version == SERVER_VERSION


def test_an_unknown_code_is_a_3() -> None:
    answer = NameServerHarness().request(4711)
    assert (answer.code, answer.remark) == (3, "request type 4711 not supported by a name server")


def test_a_broker_s_code_is_a_3_that_says_where_to_go() -> None:
    answer = NameServerHarness().request(34)
    assert answer.code == 3
    assert "HEART_BEAT is for a broker" in (answer.remark or "")


@pytest.mark.parametrize("code", [100, 101, 102, 103, 104, 105, 205, 216, 217, 219, 224, 322, 327, 901, 904])
def test_a_missing_field_is_named(code: int) -> None:
    answer = NameServerHarness().request(code)
    assert answer.code == 1
    assert "is missing" in (answer.remark or "")


def test_name_servers_side_by_side_share_nothing() -> None:
    one, other = NameServerHarness(), NameServerHarness()
    one.register("a", registration("orders"))
    one.request(100, {"namespace": "ns", "key": "k", "value": "v"})
    one.request(318, body=b"enableTopicList=false")
    assert other.topics() == set()
    assert other.request(101, {"namespace": "ns", "key": "k"}).code == 22
    assert other.core.options.lists_topics
