"""What producers of ours tell of brokers: the newest is kept by line, told to ours alone, and bounded."""

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.desk import Desk
from tests.broker.test_producers import LINES, producer

from steelyard.broker.producers import Producers
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, HeartbeatWord, LedgerLine, ProducerBeat
from steelyard.wire.bodies.members import ClientWord, ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.admin import ProducerGroup

SLOW = LedgerLine(broker="b", avoided_ms=5_000, latency_ms=800, share=0, why="it took 800 ms", failures=1)
WELL = LedgerLine(broker="a", latency_ms=2, usual_ms=2)


def beat(desk: Desk, *ledger: LedgerLine, tells: bool = True, group: str = "shop") -> None:
    word = HeartbeatWord(ledger=ledger) if tells else None
    body = Heartbeat(client_id="p1", producers=(ProducerBeat(group=group),), steelyard=word)
    assert desk.ask(Code.HEART_BEAT, body=encode_body(body)).code == 0


def told(desk: Desk, language: str = "PYTHON") -> ClientWord | None:
    """Return what both lists of producers tell, which is the same."""
    every = desk.ask(Code.GET_ALL_PRODUCER_INFO, language=language)
    (line,) = decode_body(ProducerTable, every.body).groups["shop"]
    one = desk.ask(Code.GET_PRODUCER_CONNECTION_LIST, ProducerGroup("shop"), language=language)
    (connection,) = decode_body(ProducerConnections, one.body).connections
    assert connection.steelyard == line.steelyard
    return line.steelyard


def test_a_ledger_is_told_as_it_is_by_now() -> None:
    desk = Desk()
    beat(desk, WELL, SLOW)
    desk.now_ms += 2_000
    assert told(desk) == ClientWord(
        ago_ms=2_000,
        ledger=(
            WELL,
            LedgerLine(broker="b", avoided_ms=3_000, latency_ms=800, share=0, why="it took 800 ms", failures=1),
        ),
    )
    desk.now_ms += 3_000
    word = told(desk)
    assert word is not None
    assert word.ledger is not None
    assert [line.avoided_ms for line in word.ledger] == [None, None], "it ends by time, and nobody says so"


def test_the_newest_ledger_counts_and_one_that_is_told_no_more_is_forgotten() -> None:
    desk = Desk()
    beat(desk, SLOW)
    beat(desk)
    assert told(desk) == ClientWord(ledger=()), "it keeps one, and nothing is in it"
    beat(desk, tells=False)
    assert told(desk) is None


def test_tools_of_java_are_told_what_java_tells() -> None:
    desk = Desk()
    beat(desk, SLOW)
    assert told(desk, "JAVA") is None


def test_a_line_that_closes_and_a_goodbye_take_their_ledger_with_them() -> None:
    producers = Producers()
    for number in (0, 1):
        producers.heard("pg", producer(number))
        producers.told(LINES[number], (SLOW,), 0)
    producers.closed(LINES[0])
    producers.leave("pg", LINES[1])
    assert [producers.word_of(producer(number), 0) for number in (0, 1)] == [None, None]


def test_whoever_is_no_producer_has_no_ledger() -> None:
    producers = Producers()
    producers.told(LINES[0], (SLOW,), 0)
    assert producers.word_of(producer(0), 0) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("xyz"), st.integers(0, 30_000), st.integers(0, 2)), max_size=20
    )
)
def test_no_number_of_ledgers_makes_an_answer_too_large(steps: list[tuple[int, str, int, int]]) -> None:
    producers = Producers()
    for number, group, lines, then in steps:
        producers.heard(group, producer(number))
        producers.told(LINES[number], (SLOW,) * lines, 0)
        if then == 1:
            producers.leave(group, LINES[number])
        elif then == 2:
            producers.closed(LINES[number])
    words = [producers.word_of(each, 0) for group in producers.groups() for each in producers.of(group)]
    assert sum(len(word.ledger or ()) for word in words if word is not None) <= 16_384
    for line in LINES:
        producers.closed(line)
    producers.heard("x", producer(0))
    producers.told(LINES[0], (SLOW,) * 256, 0)
    word = producers.word_of(producer(0), 0)
    assert word is not None, "room is given back"
    assert word.ledger == (SLOW,) * 256


def test_names_and_reasons_without_end_are_cut() -> None:
    producers = Producers()
    producers.heard("pg", producer(0))
    producers.told(LINES[0], (LedgerLine(broker="b" * 10_000, why="w" * 10_000),), 0)
    word = producers.word_of(producer(0), 0)
    assert word is not None
    assert word.ledger is not None
    assert (len(word.ledger[0].broker), len(word.ledger[0].why or "")) == (255, 200)
