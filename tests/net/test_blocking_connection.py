"""A connection of one thread: a request, its response, and what happens without one."""

import os
import socket
import threading

import pytest

from steelyard.errors import CannotConnect, ConfigurationError, ConnectionClosed, TimedOut
from steelyard.net.blocking_connection import BlockingConnection
from steelyard.wire.command import ONEWAY_FLAG, Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.net.threaded_server import running, scripted
from tests.net.toy_server import ECHO, HANG_UP, SHOUT, SILENT


def test_questions_get_their_answers_one_after_the_other() -> None:
    with running() as (address, server):
        connection = BlockingConnection(address)
        for number in range(50):
            assert connection.request(Command(ECHO, body=b"%d" % number), 20_000).body == b"%d" % number
        large = connection.request(Command(ECHO, {"times": "3"}, body=b"x" * 1_000_000), 20_000)
        assert len(large.body) == 3_000_000
        assert connection.is_idle()
        assert len(set(server.core.seen)) == 51, "each question has a number of its own"
        connection.close()
        connection.close()


def test_what_the_server_says_of_its_own_accord_is_passed_over() -> None:
    with running() as (address, _):
        connection = BlockingConnection(address)
        connection.send_oneway(Command(SHOUT, body=b"hear, hear", flag=ONEWAY_FLAG), 20_000)
        assert connection.request(Command(ECHO, body=b"mine"), 20_000).body == b"mine"
        connection.close()


def test_an_answer_that_does_not_come_is_timed_out() -> None:
    with running() as (address, _):
        connection = BlockingConnection(address)
        with pytest.raises(TimedOut, match=r"did not answer request 5 in 30 ms"):
            connection.request(Command(SILENT), 30)
        connection.close()


def test_the_time_is_for_the_whole_answer_and_not_for_each_piece_of_it() -> None:
    answer = encode_frame(response_to(Command(ECHO, opaque=1), body=b"x"))
    other = encode_frame(response_to(Command(ECHO, opaque=77)))
    with scripted(other[:10], other[10:] + answer[:7]) as address:
        connection = BlockingConnection(address)
        with pytest.raises(TimedOut):
            connection.request(Command(ECHO), 60)
        connection.close()


def test_an_answer_in_pieces_is_one_answer() -> None:
    answer = encode_frame(response_to(Command(ECHO, opaque=1), body=b"whole"))
    with scripted(*(answer[at : at + 9] for at in range(0, len(answer), 9))) as address:
        connection = BlockingConnection(address)
        assert connection.request(Command(ECHO), 20_000).body == b"whole"
        connection.close()


def test_a_connection_that_is_closed_reports_it() -> None:
    with running() as (address, _):
        connection = BlockingConnection(address)
        assert connection.request(Command(HANG_UP), 20_000).body == b"bye"
        with pytest.raises(ConnectionClosed):
            connection.request(Command(ECHO), 20_000)
        assert not connection.is_idle()
        connection.close()
        with pytest.raises(ConnectionClosed):
            connection.request(Command(ECHO), 20_000)


def test_what_is_not_the_protocol_ends_the_connection() -> None:
    with scripted(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        connection = BlockingConnection(address)
        with pytest.raises(ConnectionClosed, match="does not speak the protocol"):
            connection.request(Command(ECHO), 20_000)
        connection.close()


def test_closing_wakes_the_thread_that_waits() -> None:
    with running() as (address, server):
        connection = BlockingConnection(address)
        errors: list[Exception] = []

        def ask() -> None:
            try:
                connection.request(Command(SILENT), 60_000)
            except ConnectionClosed as error:
                errors.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        while not server.core.seen:
            threading.Event().wait(0.002)
        connection.close()
        waiting.join()
        assert len(errors) == 1


def test_a_server_that_is_not_there_cannot_be_connected_to() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(CannotConnect, match="refused"):
            BlockingConnection(f"127.0.0.1:{closed.getsockname()[1]}")
    with pytest.raises(CannotConnect):
        BlockingConnection("no.such.host.invalid:1", timeout_ms=500)
    with pytest.raises(ConfigurationError):
        BlockingConnection("nowhere")


@pytest.mark.process
def test_a_forked_child_that_closes_it_leaves_the_connection_to_its_parent() -> None:
    with scripted(encode_frame(response_to(Command(ECHO, opaque=1), body=b"still here"))) as address:
        connection = BlockingConnection(address)
        child = os.fork()
        if child == 0:
            connection.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert connection.request(Command(ECHO), 20_000).body == b"still here"
        connection.close()


def test_one_whole_frame_is_read_as_the_splitter_reads_it() -> None:
    from steelyard.wire.frames import decode_single_frame

    frame = encode_frame(response_to(Command(ECHO, opaque=1), body=b"x"))
    assert [decode_single_frame(frame)] == list(FrameDecoder().feed(frame))
    for wrong in (b"", frame[:-1], frame + b"x", b"\0\0\0\4\7\0\0\0", b"\0\0\0\4\0\0\0\7"):
        assert decode_single_frame(wrong) is None
