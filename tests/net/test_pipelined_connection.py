"""A connection with many requests in flight: every response arrives once and complete, however its bytes are cut."""

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import CannotConnect, ConnectionClosed, ProtocolError, TimedOut
from steelyard.net.blocking_connection import PipelinedConnection, wait_readable
from steelyard.net.tls import tls_context
from steelyard.wire.command import RESPONSE_FLAG, Command, response_to
from steelyard.wire.frames import FrameDecoder, decode_frame_at, encode_frame
from tests.net.threaded_server import running, scripted
from tests.net.toy_server import ECHO, HANG_UP, SHOUT, SILENT

FILES = Path(__file__).parent / "certificates"


def receive_all(connection: PipelinedConnection, count: int) -> list[Command]:
    """Hear so many answers."""
    received: list[Command] = []
    while len(received) < count:
        received += connection.receive(20_000)
    return received


def answer(number: int, body: bytes = b"") -> bytes:
    """Write an answer to the question of a number."""
    return encode_frame(response_to(Command(ECHO, opaque=number), body=body))


def test_many_questions_leave_in_one_write_and_each_has_its_answer() -> None:
    with running() as (address, server):
        connection = PipelinedConnection(address)
        asked = {connection.enqueue(Command(ECHO, body=b"%d" % number)): b"%d" % number for number in range(100)}
        assert not server.core.seen, "nothing is sent before it is flushed"
        connection.flush(20_000)
        connection.flush(20_000)
        assert {each.opaque: each.body for each in receive_all(connection, 100)} == asked
        assert connection.is_idle()
        connection.close()
        connection.close()


def test_answers_larger_than_the_buffer_come_whole_and_small_ones_after_them() -> None:
    with running() as (address, _):
        connection = PipelinedConnection(address)
        sizes = [3_000_000, 5, 2_500_000, 0, 9_000_000, 100_000, 7]
        numbers = [connection.enqueue(Command(ECHO, {"times": str(size)}, body=b"x")) for size in sizes]
        connection.flush(20_000)
        assert {each.opaque: len(each.body) for each in receive_all(connection, 7)} == dict(
            zip(numbers, sizes, strict=True)
        )
        connection.close()


def test_an_answer_in_pieces_is_one_answer() -> None:
    frames = answer(1, b"first") + answer(2, b"second")
    with scripted(*(frames[at : at + 7] for at in range(0, len(frames), 7))) as address:
        connection = PipelinedConnection(address)
        connection.enqueue(Command(ECHO))
        connection.enqueue(Command(ECHO))
        connection.flush(20_000)
        assert [each.body for each in receive_all(connection, 2)] == [b"first", b"second"]
        connection.close()


def test_what_the_server_says_of_its_own_accord_is_passed_over() -> None:
    with running() as (address, _):
        connection = PipelinedConnection(address)
        connection.enqueue(Command(SHOUT, body=b"hear, hear"))
        number = connection.enqueue(Command(ECHO, body=b"mine"))
        connection.flush(20_000)
        assert [(each.opaque, each.body) for each in receive_all(connection, 1)] == [(number, b"mine")]
        connection.close()


def test_a_server_that_says_nothing_is_timed_out() -> None:
    with running() as (address, _):
        connection = PipelinedConnection(address)
        connection.enqueue(Command(SILENT))
        connection.flush(20_000)
        with pytest.raises(TimedOut, match="sent nothing for 30 ms"):
            connection.receive(30)
        connection.close()


def test_a_server_that_reads_nothing_is_timed_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = PipelinedConnection(f"127.0.0.1:{listener.getsockname()[1]}")
        connection.enqueue(Command(ECHO, body=b"x" * 12_000_000))
        with pytest.raises(TimedOut, match="did not take"):
            connection.flush(30)
        connection.close()


def test_a_connection_that_is_closed_reports_it() -> None:
    with running() as (address, _):
        connection = PipelinedConnection(address)
        connection.enqueue(Command(HANG_UP))
        connection.flush(20_000)
        assert receive_all(connection, 1)[0].body == b"bye"
        with pytest.raises(ConnectionClosed):
            connection.receive(20_000)
        connection.close()
        connection.enqueue(Command(ECHO))
        with pytest.raises(ConnectionClosed):
            connection.flush(20_000)


@pytest.mark.parametrize(
    "response", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x7f\xff\xff\xff\0\0\0\1", b"\0\0\0\4\0\0\0\7x"]
)
def test_what_is_not_the_protocol_ends_the_connection(response: bytes) -> None:
    with scripted(response) as address:
        connection = PipelinedConnection(address)
        connection.enqueue(Command(ECHO))
        connection.flush(20_000)
        with pytest.raises(ConnectionClosed, match="does not speak the protocol"):
            connection.receive(20_000)
        connection.close()


def test_a_server_that_is_not_there_cannot_be_connected_to() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(CannotConnect, match="refused"):
            PipelinedConnection(f"127.0.0.1:{closed.getsockname()[1]}")


def test_of_several_connections_the_readable_ones_are_returned() -> None:
    with running() as (address, _):
        connections = [PipelinedConnection(address) for _ in range(3)]
        assert wait_readable(connections, 0) == []
        connections[1].enqueue(Command(ECHO, body=b"here"))
        connections[1].flush(20_000)
        assert wait_readable(connections, 20_000) == [connections[1]]
        assert receive_all(connections[1], 1)[0].body == b"here"
        for connection in connections:
            connection.close()


@pytest.mark.process
def test_a_forked_child_that_closes_it_leaves_the_connection_to_its_parent() -> None:
    with scripted(answer(1, b"still here")) as address:
        connection = PipelinedConnection(address)
        child = os.fork()
        if child == 0:
            connection.close()
            os._exit(0)
        os.waitpid(child, 0)
        connection.enqueue(Command(ECHO))
        connection.flush(20_000)
        assert receive_all(connection, 1)[0].body == b"still here"
        connection.close()


@contextmanager
def encrypted(response: bytes) -> Iterator[str]:
    """Run an encrypting server that reads one request and then says something."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65_536)
            connection.sendall(response)
            connection.recv(65_536)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"localhost:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def test_a_tls_connection_is_read_to_the_last_response() -> None:
    bodies = {number: bytes([number]) * 40_000 for number in range(1, 60)}
    with encrypted(b"".join(answer(number, body) for number, body in bodies.items())) as address:
        connection = PipelinedConnection(address, tls=tls_context(FILES / "authority.pem"))
        for _ in bodies:
            connection.enqueue(Command(ECHO))
        connection.flush(20_000)
        received: dict[int, bytes] = {}
        while len(received) < len(bodies):
            for ready in wait_readable([connection], 20_000):
                received |= {each.opaque: each.body for each in ready.receive(20_000)}
        assert received == bodies
        connection.close()


commands = st.builds(
    Command,
    st.integers(0, 500),
    st.dictionaries(st.sampled_from(["a", "b"]), st.text("xyz", min_size=1), max_size=2),
    st.binary(max_size=50),
    opaque=st.integers(0, 1 << 30),
    flag=st.just(RESPONSE_FLAG),
)


@given(st.lists(commands, max_size=5), st.binary(max_size=30))
def test_frames_in_a_buffer_are_read_as_the_splitter_reads_them(sent: list[Command], noise: bytes) -> None:
    data = b"".join(map(encode_frame, sent)) + noise
    expected: list[Command] = []
    broken = False
    try:
        expected.extend(FrameDecoder().feed(data))
    except ProtocolError:
        broken = True
    found, at = [], 0
    try:
        while True:
            command, stop = decode_frame_at(memoryview(data), at, len(data))
            if command is None:
                assert stop > len(data)
                break
            found.append(command)
            at = stop
    except ProtocolError:
        assert broken
    assert found == expected
