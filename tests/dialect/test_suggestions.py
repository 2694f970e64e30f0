"""A pull goes where the last answer suggested: to a slave while the master says so, else to the master."""

from tests.dialect.talk import BROKER, nothing_held, options, q

from steelyard.balance.actions import Pull
from steelyard.balance.events import PullFailed
from steelyard.dialect.voice import Said, Voice
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.headers.pull import PullAnswer


def _pull(voice: Voice, queue_id: int = 0, now_ms: int = 0) -> Said:
    said = voice.say(Pull(q(queue_id), 3, 0), now_ms)
    assert said is not None
    return said


def _answer(voice: Voice, said: Said, broker_id: int, code: int = ResponseCode.PULL_NOT_FOUND) -> None:
    answer = Command(code, PullAnswer(broker_id, 0, 0, 0), b"", said.command.opaque, RESPONSE)
    assert voice.hear(BROKER, answer, 0, nothing_held).events


def test_a_suggestion_counts_for_its_queue_until_the_next_answer() -> None:
    voice = Voice(options(), "i")
    _answer(voice, _pull(voice), 1)
    said = _pull(voice)
    assert (said.broker_id, _pull(voice, 1).broker_id) == (1, 0)
    _answer(voice, said, 0)
    assert _pull(voice).broker_id == 0


def test_what_a_slave_did_not_answer_is_asked_of_the_master() -> None:
    voice = Voice(options(), "i")
    _answer(voice, _pull(voice), 1)
    said = _pull(voice)
    assert voice.unsaid(said) == [PullFailed(q(), 3)]
    assert _pull(voice).broker_id == 0
    _answer(voice, _pull(voice, 2), 1)
    _pull(voice, 2, now_ms=0)
    voice.tick(60_000)
    assert _pull(voice, 2).broker_id == 0


def test_an_offset_out_of_range_is_for_the_master_to_correct() -> None:
    voice = Voice(options(), "i")
    _answer(voice, _pull(voice), 1)
    _answer(voice, _pull(voice), 1, ResponseCode.PULL_OFFSET_MOVED)
    assert _pull(voice).broker_id == 0


def test_a_slave_hears_a_heartbeat_that_claims_nothing() -> None:
    beat = Voice(options(), "i").slave_heartbeat(BROKER)
    assert beat.code == RequestCode.HEART_BEAT
    assert b'"subscriptionDataSet"' in beat.body
