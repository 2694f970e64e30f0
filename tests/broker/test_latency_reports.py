"""Latency reports of our producers: the newest is kept by connection, sent to ours alone, and bounded."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.producer_registry import ProducerRegistry
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import BrokerLatencyReport, HeartbeatBody, HeartbeatExtension, ProducerHeartbeat
from steelyard.wire.bodies.members import ClientExtension, ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.admin import GetProducerConnections
from tests.broker.broker_harness import BrokerHarness
from tests.broker.test_producer_registry import LINES, producer

SLOW = BrokerLatencyReport(broker="b", avoided_ms=5_000, latency_ms=800, share=0, why="it took 800 ms", failures=1)
WELL = BrokerLatencyReport(broker="a", latency_ms=2, typical_ms=2)


def beat(harness: BrokerHarness, *latency_report: BrokerLatencyReport, tells: bool = True, group: str = "shop") -> None:
    word = HeartbeatExtension(broker_latency=latency_report) if tells else None
    body = HeartbeatBody(client_id="p1", producers=(ProducerHeartbeat(group=group),), steelyard=word)
    assert harness.request(Code.HEART_BEAT, body=encode_body(body)).code == 0


def reported(harness: BrokerHarness, language: str = "PYTHON") -> ClientExtension | None:
    """Return what both lists of producers tell, which is the same."""
    every = harness.request(Code.GET_ALL_PRODUCER_INFO, language=language)
    (peer,) = decode_body(ProducerTable, every.body).groups["shop"]
    one = harness.request(Code.GET_PRODUCER_CONNECTION_LIST, GetProducerConnections("shop"), language=language)
    (connection,) = decode_body(ProducerConnections, one.body).connections
    assert connection.steelyard == peer.steelyard
    return peer.steelyard


def test_a_latency_report_is_reported_as_it_is_by_now() -> None:
    harness = BrokerHarness()
    beat(harness, WELL, SLOW)
    harness.now_ms += 2_000
    assert reported(harness) == ClientExtension(
        ago_ms=2_000,
        broker_latency=(
            WELL,
            BrokerLatencyReport(
                broker="b", avoided_ms=3_000, latency_ms=800, share=0, why="it took 800 ms", failures=1
            ),
        ),
    )
    harness.now_ms += 3_000
    word = reported(harness)
    assert word is not None
    assert word.broker_latency is not None
    assert [peer.avoided_ms for peer in word.broker_latency] == [None, None], "it ends by time, and nobody says so"


def test_the_newest_latency_report_counts_and_one_that_is_told_no_more_is_forgotten() -> None:
    harness = BrokerHarness()
    beat(harness, SLOW)
    beat(harness)
    assert reported(harness) == ClientExtension(broker_latency=()), "it keeps one, and nothing is in it"
    beat(harness, tells=False)
    assert reported(harness) is None


def test_tools_of_java_are_told_what_java_tells() -> None:
    harness = BrokerHarness()
    beat(harness, SLOW)
    assert reported(harness, "JAVA") is None


def test_a_connection_that_closes_and_an_unregistration_take_their_latency_report_with_them() -> None:
    producers = ProducerRegistry()
    for number in (0, 1):
        producers.register("pg", producer(number))
        producers.record_latency_report(LINES[number], (SLOW,), 0)
    producers.connection_closed(LINES[0])
    producers.unregister("pg", LINES[1])
    assert [producers.latency_report_of(producer(number), 0) for number in (0, 1)] == [None, None]


def test_who_is_no_producer_has_no_latency_report() -> None:
    producers = ProducerRegistry()
    producers.record_latency_report(LINES[0], (SLOW,), 0)
    assert producers.latency_report_of(producer(0), 0) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("xyz"), st.integers(0, 30_000), st.integers(0, 2)), max_size=20
    )
)
def test_no_number_of_latency_reports_makes_an_answer_too_large(steps: list[tuple[int, str, int, int]]) -> None:
    producers = ProducerRegistry()
    for number, group, peers, then in steps:
        producers.register(group, producer(number))
        producers.record_latency_report(LINES[number], (SLOW,) * peers, 0)
        if then == 1:
            producers.unregister(group, LINES[number])
        elif then == 2:
            producers.connection_closed(LINES[number])
    words = [
        producers.latency_report_of(each, 0) for group in producers.group_names() for each in producers.in_group(group)
    ]
    assert sum(len(word.broker_latency or ()) for word in words if word is not None) <= 16_384
    for peer in LINES:
        producers.connection_closed(peer)
    producers.register("x", producer(0))
    producers.record_latency_report(LINES[0], (SLOW,) * 256, 0)
    word = producers.latency_report_of(producer(0), 0)
    assert word is not None, "room is given back"
    assert word.broker_latency == (SLOW,) * 256


def test_names_and_reasons_without_end_are_cut() -> None:
    producers = ProducerRegistry()
    producers.register("pg", producer(0))
    producers.record_latency_report(LINES[0], (BrokerLatencyReport(broker="b" * 10_000, why="w" * 10_000),), 0)
    word = producers.latency_report_of(producer(0), 0)
    assert word is not None
    assert word.broker_latency is not None
    assert (len(word.broker_latency[0].broker), len(word.broker_latency[0].why or "")) == (255, 200)
