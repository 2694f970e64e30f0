"""Headers: every typed header of ours against Apache's class for it, both ways and in both header types.

Field by field: what we wrote must be what Java's object holds, and the other way round. What only one side has is
listed, so that a new field, or a misspelt one, is seen.
"""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.wire.codes import HeaderType
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.frames import encode_frame
from steelyard.wire.header_codec import Header, header_from_texts, header_layout
from steelyard.wire.headers import HEADER_OF_REQUEST
from tests.interop.jars import RELEASE_4, RELEASES
from tests.interop.java_frames import WAYS, only, written_by_java
from tests.interop.java_headers import JAVA_HEADER_OF_REQUEST, JAVA_HEADER_OF_RESPONSE, ONLY_IN_5
from tests.interop.java_values import headers
from tests.interop.peer import Peer
from tests.wire.header_table import HEADER_OF_RESPONSE

EXAMPLES = 25
HOT_EXAMPLES = 200
HOT = {
    "SendMessageRequestHeaderV2",
    "SendMessageResponseHeader",
    "PullMessageRequestHeader",
    "PullMessageResponseHeader",
}


class Pair(NamedTuple):
    """A header of ours, and Apache's class for it."""

    ours: type[Header]
    theirs: str

    def __str__(self) -> str:
        return f"{self.ours.__name__}-{self.theirs}"


PAIRS = sorted(
    {
        *(Pair(HEADER_OF_REQUEST[code], name) for code, name in JAVA_HEADER_OF_REQUEST.items()),
        *(Pair(HEADER_OF_RESPONSE[code], name) for code, name in JAVA_HEADER_OF_RESPONSE.items()),
    },
    key=str,
)


def both(pairs: list[Pair]) -> pytest.MarkDecorator:
    """Run a test for each pair with each release that has the class."""
    cases = [
        (release, pair)
        for release in RELEASES
        for pair in pairs
        if release != RELEASE_4 or pair.theirs not in ONLY_IN_5
    ]
    return pytest.mark.parametrize(
        ("java", "pair"), cases, indirect=["java"], ids=[f"{release}-{pair}" for release, pair in cases]
    )


# Fields of the whole family of requests, which Java's classes inherit, or not, release by release.
FAMILY = {"bname", "ns", "nsd", "oway", "lo"}

# What Java has and we do not: nothing that a pull, a send or an admin needs. Lite topics are not spoken here.
NOT_OURS = {"liteTopic", "lastKey", "suspend"}


def described(java: Peer, name: str) -> tuple[dict[str, str | None], set[str]]:
    """Return what a new header of Java's holds, and which of its fields are never absent."""
    answer = java.ask("describe-header", name)
    return answer["new"], set(answer["required"])


def test_the_table_covers_every_typed_header() -> None:
    without_class = {Code.CHECK_CLIENT_CONFIG, Code.QUERY_ASSIGNMENT, Code.SET_MESSAGE_REQUEST_MODE}
    assert set(HEADER_OF_REQUEST) - set(JAVA_HEADER_OF_REQUEST) == without_class
    assert set(HEADER_OF_RESPONSE) - set(JAVA_HEADER_OF_RESPONSE) == {Code.HEART_BEAT}


def test_4_lacks_exactly_the_classes_that_are_listed(java: Peer) -> None:
    lacking = {pair.theirs for pair in PAIRS if not java.ask("has-class", pair.theirs)}
    assert lacking == (ONLY_IN_5 if java.is_4 else set())


@both(PAIRS)
def test_we_know_every_field_of_javas(java: Peer, pair: Pair) -> None:
    fields, _ = described(java, pair.theirs)
    assert set(fields) - set(header_layout(pair.ours).names) <= FAMILY | NOT_OURS


# Without these a request means nothing, though Java's class lets them be absent.
NEEDED_ALL_THE_SAME = {
    "PolicyRequest": {"subject"},
    "QueryConsumeQueue": {"topic"},
    "UserRequest": {"username"},
}


@both(PAIRS)
def test_what_java_may_leave_out_may_be_absent_in_ours(java: Peer, pair: Pair) -> None:
    _, required = described(java, pair.theirs)
    plan = header_layout(pair.ours)
    needed = {name for name, default in zip(plan.names, plan.defaults, strict=True) if default is msgspec.NODEFAULT}
    assert needed - required <= NEEDED_ALL_THE_SAME.get(pair.ours.__name__, set())


# What Java's classes do not have: fields of ours that its readers skip, and those that Java puts into the map by hand.
NOT_JAVAS = {
    "CommitOffset": {"lockEpoch"},
    "GetConsumerRunningState": {"steelyardAsker", "steelyardWants"},
    "SendMessageBack": {"steelyardError"},
    "UnregisterClient": {"steelyardAvoided"},
    "QueryMessages": {"_UNIQUE_KEY_QUERY"},
    "SendMessageResponse": {"MSG_REGION", "TRACE_ON"},
    "GetRoute": {"__ZONE_NAME", "__ZONE_MODE"},
    "RegisterBroker": {"__ZONE_NAME"},
    # One header of ours for several of Java's: each of those lacks what the others have.
    "PushReplyMessage": {"batch", "maxReconsumeTimes"},
    "GroupTopicRequest": {"clientAddr", "topic"},
    "DeleteGroup": {"cleanOffset", "removeOffset"},
    "PolicyRequest": {"policyType", "resource"},
    "KVConfigRequest": {"value"},
    "WritePermissionResponse": {"addTopicCount", "wipeTopicCount"},
}


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_5_knows_every_field_of_ours_but_those_listed(java_5: Peer, pair: Pair) -> None:
    fields, _ = described(java_5, pair.theirs)
    unknown = set(header_layout(pair.ours).names) - set(fields) - FAMILY - {"ReqT"}
    assert unknown <= NOT_JAVAS.get(pair.ours.__name__, set())


def texts_of(header: Header, fields: dict[str, str | None]) -> dict[str, str]:
    """Return a header's texts, without those that Java's class has no field for."""
    return {name: text for name, text in Command(1, header).texts().items() if name in fields}


def passes_both_ways(java: Peer, pair: Pair, data: st.DataObject) -> None:
    fields, required = described(java, pair.theirs)
    # A new header of Java's has the time that it is by then.
    header = data.draw(headers(pair.ours, required | {"invokeTime"}))
    java_reads_ours(java, pair, header, fields)
    we_read_javas(java, pair, header, fields)


def java_reads_ours(java: Peer, pair: Pair, header: Header, fields: dict[str, str | None]) -> None:
    for header_type in HeaderType:
        frame = encode_frame(Command(1, header, header_type=header_type))
        assert java.ask("read-header", pair.theirs, frame) == fields | texts_of(header, fields)


def we_read_javas(java: Peer, pair: Pair, header: Header, fields: dict[str, str | None]) -> None:
    texts = texts_of(header, fields)
    expected = {name: text for name, text in fields.items() if text is not None} | texts
    for header_type in HeaderType:
        for way in WAYS:
            received = only(written_by_java(java, way, Command(1, texts, header_type=header_type), pair.theirs))
            assert received.texts() == expected
            assert received.header(pair.ours) == header_from_texts(pair.ours, expected)


@both([pair for pair in PAIRS if pair.theirs not in HOT])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_header_passes_both_ways(java: Peer, pair: Pair, data: st.DataObject) -> None:
    passes_both_ways(java, pair, data)


@both([pair for pair in PAIRS if pair.theirs in HOT])
@settings(max_examples=HOT_EXAMPLES)
@given(data=st.data())
def test_a_hot_header_passes_both_ways(java: Peer, pair: Pair, data: st.DataObject) -> None:
    passes_both_ways(java, pair, data)
