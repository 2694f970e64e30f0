"""What real brokers and clients asked real name servers of 4.9.7 and 5.5.0: ours gives the same answers.

The recordings hold one or two exemplars of a case, so the state behind an answer is made here from the answer itself:
the brokers and topics that it lists are registered first, in commands as the release's own brokers send them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from steelyard.nameserver.name_server import HANDLERS
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TopicNames
from steelyard.wire.bodies.topics import BrokerRegistration, ClusterBody, RouteBody
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.nameserver import RegisterBroker
from tests.golden_frames import GoldenFrame, golden_frames
from tests.nameserver.nameserver_harness import NameServerHarness, connection, registration, topic

_RELEASES = ("4.9.7", "5.5.0")


def command(golden: GoldenFrame) -> Command:
    (found,) = FrameDecoder().feed(golden.frame)
    return found


def exchanges(code: int) -> Iterator[tuple[GoldenFrame, GoldenFrame]]:
    """Pair each recorded request with its answer."""
    asked: dict[tuple[str, int], GoldenFrame] = {}
    for golden in golden_frames():
        if golden.request_code == code:
            key = golden.release, command(golden).opaque
            if not golden.is_answer:
                asked[key] = golden
            elif key in asked:
                yield asked[key], golden


def pairs(*codes: int) -> list[Any]:
    found = [pair for code in codes for pair in exchanges(code)]
    assert found
    return [pytest.param(*pair, id=str(pair[0])) for pair in found]


def ask(harness: NameServerHarness, request: Command) -> Command:
    (reply,) = harness.core.handle(request, connection(1), harness.now_ms)
    return reply.command


def compare(ours: Command, theirs: Command) -> None:
    assert (ours.code, ours.flag, ours.opaque, ours.texts()) == (
        theirs.code,
        theirs.flag,
        theirs.opaque,
        theirs.texts(),
    )
    assert len(encode_frame(ours)) > 8


def unordered(body: RouteBody, *, with_acting: bool) -> object:
    """Return a route without the order of its lists, which in Java is that of a hash map; 4.9 has no acting masters."""
    brokers = {entry.broker_name: (entry.cluster, dict(entry.addresses)) for entry in body.brokers}
    acting = {entry.enable_acting_master for entry in body.brokers} if with_acting else None
    queues = {entry.broker_name: entry for entry in body.queues}
    return brokers, acting, queues, body.filter_servers, body.order


def test_recordings_of_both_releases_have_what_a_name_server_is_asked() -> None:
    recorded = {(golden.release, golden.request_code) for golden in golden_frames()}
    for code in (100, 101, 103, 104, 105, 106, 205, 206, 216, 224, 327):
        assert code in HANDLERS
        assert {(release, code) for release in _RELEASES} <= recorded


@pytest.mark.parametrize(("asked", "answered"), pairs(103))
def test_recorded_registrations_are_taken(asked: GoldenFrame, answered: GoldenFrame) -> None:
    harness, theirs = NameServerHarness(), command(answered)
    order: Mapping[str, str] = json.loads(theirs.body)["table"] if theirs.body else {}
    for key, value in order.items():
        harness.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": key, "value": value})
    request = command(asked)
    ours = ask(harness, request)
    compare(ours, theirs)
    assert ours.body == theirs.body
    header = request.header(RegisterBroker)
    for name, settings in decode_body(BrokerRegistration, request.body).table.topics.items():
        route = harness.route(name)
        assert route is not None
        (queue,) = route.queues
        assert (queue.read_queues, queue.write_queues) == (settings.read_queues, settings.write_queues)
        assert (queue.permission, queue.sys_flag) == (settings.permission, settings.sys_flag)
        assert harness.brokers_of(name) == {header.broker_name: {header.broker_id: header.broker_addr}}


def test_recorded_oneway_registrations_are_taken_in_silence() -> None:
    oneway = [golden for golden in golden_frames() if golden.request_code == 103 and command(golden).is_oneway]
    assert oneway
    for golden in oneway:
        harness = NameServerHarness()
        assert harness.core.handle(command(golden), connection(1), harness.now_ms) == ()
        assert harness.topics() == set(decode_body(BrokerRegistration, command(golden).body).table.topics)


def harness_of(route: RouteBody, name: str) -> NameServerHarness:
    harness = NameServerHarness()
    for broker, queue in zip(route.brokers, route.queues, strict=True):
        settings = topic(name, queue.read_queues, permission=queue.permission)
        for broker_id, address in broker.addresses.items():
            harness.register(
                broker.broker_name,
                registration(settings),
                broker_id=broker_id,
                address=address,
                cluster=broker.cluster or "",
                acting=broker.enable_acting_master,
            )
    return harness


@pytest.mark.parametrize(("asked", "answered"), pairs(105))
def test_recorded_routes_are_reported_alike(asked: GoldenFrame, answered: GoldenFrame) -> None:
    request, theirs = command(asked), command(answered)
    name = request.texts()["topic"]
    if theirs.code == 17:
        ours = ask(NameServerHarness(), request)
        compare(ours, theirs)
        first_line = (theirs.remark or "").splitlines()[0]
        assert (ours.remark or "").splitlines()[0] == first_line
        return
    want = decode_body(RouteBody, theirs.body)
    ours = ask(harness_of(want, name), request)
    compare(ours, theirs)
    is_new = asked.release == "5.5.0"
    assert unordered(decode_body(RouteBody, ours.body), with_acting=is_new) == unordered(want, with_acting=is_new)
    if is_new:
        assert len(ours.body) == len(theirs.body)  # the same bytes, but for the order of the brokers


@pytest.mark.parametrize(("asked", "answered"), pairs(106))
def test_recorded_lists_of_brokers_are_reported_alike(asked: GoldenFrame, answered: GoldenFrame) -> None:
    theirs = command(answered)
    want = decode_body(ClusterBody, theirs.body)
    harness = NameServerHarness()
    for broker in want.brokers.values():
        for broker_id, address in broker.addresses.items():
            harness.register(
                broker.broker_name,
                registration(),
                broker_id=broker_id,
                address=address,
                cluster=broker.cluster or "",
                acting=broker.enable_acting_master,
            )
    ours = ask(harness, command(asked))
    compare(ours, theirs)
    got = decode_body(ClusterBody, ours.body)
    assert {name: dict(entry.addresses) for name, entry in got.brokers.items()} == {
        name: dict(entry.addresses) for name, entry in want.brokers.items()
    }
    assert {name: set(inside) for name, inside in got.clusters.items()} == {
        name: set(inside) for name, inside in want.clusters.items()
    }
    if asked.release == "5.5.0":
        assert len(ours.body) == len(theirs.body)


@pytest.mark.parametrize(("asked", "answered"), pairs(206, 224))
def test_recorded_lists_of_topics_are_reported_alike(asked: GoldenFrame, answered: GoldenFrame) -> None:
    theirs = command(answered)
    want = decode_body(TopicNames, theirs.body)
    harness = NameServerHarness()
    harness.register("broker-a", registration(*want.topics))
    ours = ask(harness, command(asked))
    compare(ours, theirs)
    assert sorted(decode_body(TopicNames, ours.body).topics) == sorted(want.topics)
    assert len(ours.body) == len(theirs.body)


@pytest.mark.parametrize(("asked", "answered"), pairs(205, 327))
def test_recorded_changes_of_permission_count_alike(asked: GoldenFrame, answered: GoldenFrame) -> None:
    theirs = command(answered)
    (count,) = map(int, theirs.texts().values())
    harness = NameServerHarness()
    harness.register("broker-b", registration(*(f"topic-{number}" for number in range(count))))
    compare(ask(harness, command(asked)), theirs)


@pytest.mark.parametrize(("asked", "answered"), pairs(100, 101, 104, 216))
def test_recorded_small_requests_are_answered_alike(asked: GoldenFrame, answered: GoldenFrame) -> None:
    ours, theirs = ask(NameServerHarness(), command(asked)), command(answered)
    compare(ours, theirs)
    assert (ours.remark, ours.body) == (theirs.remark, theirs.body)


def test_recorded_requests_mean_the_same_in_a_binary_header() -> None:
    for golden in golden_frames():
        if golden.request_code in HANDLERS and not golden.is_answer:
            asked = command(golden)
            binary = Command(
                asked.code, asked.texts(), asked.body, version=asked.version, header_type=HeaderType.BINARY
            )
            (same,) = FrameDecoder().feed(encode_frame(binary))
            answer = ask(NameServerHarness(), same)
            assert answer.header_type is HeaderType.BINARY
            assert (
                answer.code
                == ask(NameServerHarness(), Command(asked.code, asked.texts(), asked.body, version=asked.version)).code
            )
