"""Whatever a peer sends: bad names, too much of anything, and random bytes."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ProtocolError
from steelyard.nameserver import NameServerCore, NameServerOptions, validation
from steelyard.nameserver.name_server import HANDLERS
from steelyard.nameserver.route_table import RouteTable
from steelyard.wire.bodies.topics import QueueEntry, QueueMapping
from steelyard.wire.command import Command, CommandFields
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.nameserver import RegisterBroker
from steelyard.wire.json_body import ById
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames
from tests.nameserver.nameserver_harness import NameServerHarness, connection, registration, topic

BAD_NAMES = [
    "",
    "a\nb",
    "a\x1b[2Jb",
    "\x85",
    "\u2028",
    "x" * (validation.MAX_NAME_BYTES + 1),
    "ß" * validation.MAX_NAME_BYTES,
]


@pytest.mark.parametrize("bad", BAD_NAMES)
def test_a_bad_name_is_refused_wherever_it_comes(bad: str) -> None:
    harness = NameServerHarness()
    asks: list[tuple[int, CommandFields]] = [
        (103, RegisterBroker(bad, "a:0", "c", 0, "h:1")),
        (103, RegisterBroker("a", bad, "c", 0, "h:1")),
        (103, RegisterBroker("a", "a:0", bad, 0, "h:1")),
        (105, {"topic": bad}),
        (217, {"topic": bad}),
        (100, {"namespace": bad, "key": "k", "value": "v"}),
        (100, {"namespace": "ns", "key": bad, "value": "v"}),
        (219, {"namespace": bad}),
        (901, {"clusterName": "c", "brokerName": bad}),
    ]
    for code, fields in asks:
        answer = harness.request(code, fields)
        assert answer.code == 29, (code, answer)
        assert any(word in (answer.remark or "") for word in ("empty", "control", "more than")), answer.remark
        assert encode_frame(answer)
        assert "\n" not in (answer.remark or "")
    assert not harness.clusters().brokers
    assert not harness.core.has_unsaved_changes


def test_a_topic_with_a_bad_name_does_not_hide_the_others() -> None:
    harness = NameServerHarness()
    answer = harness.register("a", registration("orders", "%RETRY%\x00", "bills"))
    assert answer is not None
    assert answer.code == 0
    assert "'%RETRY%\\x00', whose name has a control character" in (answer.remark or "")
    assert harness.topics() == {"orders", "bills"}


def test_brokers_have_a_limit_and_those_who_are_there_stay() -> None:
    harness = NameServerHarness()
    for number in range(validation.MAX_BROKER_ADDRESSES):
        harness.register(f"b{number}", registration())
    refused = harness.register("one-more", registration())
    again = harness.register("b0", registration("orders", version=2))
    assert refused is not None
    assert again is not None
    assert (refused.code, again.code) == (1, 0)
    assert str(validation.MAX_BROKER_ADDRESSES) in (refused.remark or "")
    assert len(encode_frame(harness.request(106))) < 1 << 24


def test_topics_that_do_not_fit_are_left_out_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.nameserver.route_table.MAX_QUEUE_ENTRIES", 3)
    harness = NameServerHarness()
    answer = harness.register("a", registration(*"abcdefgh"))
    assert answer is not None
    assert answer.code == 0
    assert "for want of room, and 2 more" in (answer.remark or "")
    assert len(harness.topics()) == 3
    harness.register("a", registration(topic("a", 9), version=2))
    route = harness.route("a")
    assert route is not None
    assert route.queues[0].read_queues == 9
    assert harness.request(217, {"topic": "z"}, b'{"queueDatas":[]}').code == 0


def test_the_names_of_all_topics_fit_into_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.nameserver.route_table.MAX_TOPIC_NAME_BYTES", 10)
    routes = RouteTable()
    entry = QueueEntry(broker_name="a", read_queues=1, write_queues=1, sys_flag=0)
    assert routes.put("12345", entry)
    assert routes.put("67890", entry)
    assert not routes.put("x", entry)
    routes.remove("12345", "a")
    assert routes.put("x", entry)


def test_maps_of_static_topics_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.nameserver.route_table.MAX_MAPPED_QUEUES", 10)
    harness = NameServerHarness()

    def mapping(queues: int, scope: str | None = None) -> QueueMapping:
        return QueueMapping(topic="s", current=ById(dict.fromkeys(range(queues), 0)), scope=scope)

    first = harness.register("a", registration("s", "t", mappings={"s": mapping(8), "t": mapping(4)}))
    assert first is not None
    assert "the map of 't', for want of room" in (first.remark or "")
    again = harness.register("a", registration("s", "t", version=2, mappings={"s": mapping(6), "t": mapping(4)}))
    assert again is not None
    assert again.remark is None
    scoped = harness.register("a", registration("s", "t", version=3, mappings={"s": mapping(1, "\n")}))
    assert scoped is not None
    assert "scope" in (scoped.remark or "")
    unknown = harness.register("a", registration("t", version=4, mappings={"nowhere": mapping(99)}))
    assert unknown is not None
    assert unknown.remark is None


def test_filter_servers_have_a_limit() -> None:
    harness = NameServerHarness()
    servers = tuple(f"f:{number}" for number in range(validation.MAX_FILTER_SERVERS + 1))
    answer = harness.register("a", registration(filter_servers=servers))
    assert answer is not None
    assert answer.code == 29


_TEXTS = st.text(max_size=20) | st.sampled_from(["a", "a:0", "DefaultCluster", "0", "-1", "true", "ORDER_TOPIC_CONFIG"])
_FIELDS = [
    *("topic", "brokerName", "brokerAddr", "clusterName", "brokerId", "haServerAddr", "compressed", "bodyCrc32"),
    *("namespace", "key", "value", "cluster", "heartbeatTimeoutMillis", "enableActingMaster", "__ZONE_NAME"),
]


@given(
    st.sampled_from(sorted(HANDLERS)),
    st.dictionaries(st.sampled_from(_FIELDS), _TEXTS),
    st.binary(max_size=60) | st.sampled_from([b"{}", b"[]", b"null", b'{"topicConfigSerializeWrapper":null}']),
    st.sampled_from([0, 36, 37, 400, 407, 513]),
)
def test_random_fields_and_bodies_are_answered(code: int, fields: dict[str, str], body: bytes, version: int) -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    answer = harness.request(code, fields, body, version=version)
    assert answer.is_response


@pytest.mark.fuzz
def test_broken_requests_never_raise_and_never_go_unanswered() -> None:
    corpus = [golden.frame for golden in golden_frames() if golden.request_code in HANDLERS and not golden.is_answer]
    core = NameServerCore(NameServerOptions())
    for number, broken in enumerate(islice(mutations(corpus, seed=103), rounds())):
        try:
            commands = list(FrameDecoder().feed(broken))
        except ProtocolError:
            continue
        for command in commands:
            for reply in core.handle(command, connection(number % 7), number):
                assert encode_frame(reply.command)
        core.connection_closed(connection((number + 3) % 7), number)
        core.tick(number)


@pytest.mark.fuzz
def test_any_code_with_any_bytes_is_answered_or_oneway() -> None:
    corpus = [golden.frame[8:] for golden in golden_frames()]
    core = NameServerCore(NameServerOptions())
    codes = sorted(HANDLERS)
    for number, noise in enumerate(islice(mutations(corpus, seed=9876), rounds())):
        command = Command(codes[number % len(codes)], noise[:200], noise[200:])
        (reply,) = core.handle(command, connection(1), number)
        assert encode_frame(reply.command)
