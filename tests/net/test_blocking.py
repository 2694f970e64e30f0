"""A line that one thread has for itself: a question, its answer, and what becomes of it when there is none."""

import os
import socket
import threading

import pytest
from tests.net.elsewhere import running, scripted
from tests.net.served import ECHO, HANG_UP, SHOUT, SILENT

from steelyard.errors import CannotConnect, ConfigurationError, LineClosed, TimedOut
from steelyard.net.blocking import BlockingLine
from steelyard.wire.command import ONEWAY, Command, answer_to
from steelyard.wire.frames import Splitter, encode_frame


def test_questions_get_their_answers_one_after_the_other() -> None:
    with running() as (address, server):
        line = BlockingLine(address)
        for number in range(50):
            assert line.ask(Command(ECHO, body=b"%d" % number), 20_000).body == b"%d" % number
        large = line.ask(Command(ECHO, {"times": "3"}, body=b"x" * 1_000_000), 20_000)
        assert len(large.body) == 3_000_000
        assert line.is_quiet()
        assert len(set(server.core.seen)) == 51, "each question has a number of its own"
        line.close()
        line.close()


def test_what_the_server_says_of_its_own_accord_is_passed_over() -> None:
    with running() as (address, _):
        line = BlockingLine(address)
        line.tell(Command(SHOUT, body=b"hear, hear", flag=ONEWAY), 20_000)
        assert line.ask(Command(ECHO, body=b"mine"), 20_000).body == b"mine"
        line.close()


def test_an_answer_that_does_not_come_is_timed_out() -> None:
    with running() as (address, _):
        line = BlockingLine(address)
        with pytest.raises(TimedOut, match=r"did not answer request 5 in 30 ms"):
            line.ask(Command(SILENT), 30)
        line.close()


def test_the_time_is_for_the_whole_answer_and_not_for_each_piece_of_it() -> None:
    answer = encode_frame(answer_to(Command(ECHO, opaque=1), body=b"x"))
    other = encode_frame(answer_to(Command(ECHO, opaque=77)))
    with scripted(other[:10], other[10:] + answer[:7]) as address:
        line = BlockingLine(address)
        with pytest.raises(TimedOut):
            line.ask(Command(ECHO), 60)
        line.close()


def test_an_answer_in_pieces_is_one_answer() -> None:
    answer = encode_frame(answer_to(Command(ECHO, opaque=1), body=b"whole"))
    with scripted(*(answer[at : at + 9] for at in range(0, len(answer), 9))) as address:
        line = BlockingLine(address)
        assert line.ask(Command(ECHO), 20_000).body == b"whole"
        line.close()


def test_a_line_that_is_closed_says_so() -> None:
    with running() as (address, _):
        line = BlockingLine(address)
        assert line.ask(Command(HANG_UP), 20_000).body == b"bye"
        with pytest.raises(LineClosed):
            line.ask(Command(ECHO), 20_000)
        assert not line.is_quiet()
        line.close()
        with pytest.raises(LineClosed):
            line.ask(Command(ECHO), 20_000)


def test_what_is_not_the_protocol_ends_the_line() -> None:
    with scripted(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        line = BlockingLine(address)
        with pytest.raises(LineClosed, match="does not speak the protocol"):
            line.ask(Command(ECHO), 20_000)
        line.close()


def test_closing_wakes_the_thread_that_waits() -> None:
    with running() as (address, server):
        line = BlockingLine(address)
        errors: list[Exception] = []

        def ask() -> None:
            try:
                line.ask(Command(SILENT), 60_000)
            except LineClosed as error:
                errors.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        while not server.core.seen:
            threading.Event().wait(0.002)
        line.close()
        waiting.join()
        assert len(errors) == 1


def test_a_server_that_is_not_there_cannot_be_connected_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(CannotConnect, match="refused"):
        BlockingLine(f"127.0.0.1:{port}")
    with pytest.raises(CannotConnect):
        BlockingLine("no.such.host.invalid:1", timeout_ms=500)
    with pytest.raises(ConfigurationError):
        BlockingLine("nowhere")


@pytest.mark.process
def test_a_forked_child_that_closes_it_leaves_the_line_to_its_parent() -> None:
    with scripted(encode_frame(answer_to(Command(ECHO, opaque=1), body=b"still here"))) as address:
        line = BlockingLine(address)
        child = os.fork()
        if child == 0:
            line.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert line.ask(Command(ECHO), 20_000).body == b"still here"
        line.close()


def test_one_whole_frame_is_read_as_the_splitter_reads_it() -> None:
    from steelyard.wire.frames import only_command

    frame = encode_frame(answer_to(Command(ECHO, opaque=1), body=b"x"))
    assert [only_command(frame)] == list(Splitter().feed(frame))
    for wrong in (b"", frame[:-1], frame + b"x", b"\0\0\0\4\7\0\0\0", b"\0\0\0\4\0\0\0\7"):
        assert only_command(wrong) is None
