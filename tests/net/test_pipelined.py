"""A line with many requests under way: every answer is heard once, whole, whatever the pieces that it comes in."""

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
from tests.net.elsewhere import running, scripted
from tests.net.served import ECHO, HANG_UP, SHOUT, SILENT

from steelyard.errors import CannotConnect, LineClosed, ProtocolError, TimedOut
from steelyard.net.pipelined import PipelinedLine, first_ready
from steelyard.net.tls import tls_context
from steelyard.wire.command import RESPONSE, Command, answer_to
from steelyard.wire.frames import Splitter, command_at, encode_frame

FILES = Path(__file__).parent / "certificates"


def hear(line: PipelinedLine, count: int) -> list[Command]:
    """Hear so many answers."""
    heard: list[Command] = []
    while len(heard) < count:
        heard += line.hear(20_000)
    return heard


def answer(number: int, body: bytes = b"") -> bytes:
    """Write an answer to the question of a number."""
    return encode_frame(answer_to(Command(ECHO, opaque=number), body=body))


def test_many_questions_leave_in_one_write_and_each_has_its_answer() -> None:
    with running() as (address, server):
        line = PipelinedLine(address)
        asked = {line.say(Command(ECHO, body=b"%d" % number)): b"%d" % number for number in range(100)}
        assert not server.core.seen, "nothing is sent before it is flushed"
        line.flush(20_000)
        line.flush(20_000)
        assert {each.opaque: each.body for each in hear(line, 100)} == asked
        assert line.is_quiet()
        line.close()
        line.close()


def test_answers_larger_than_the_buffer_come_whole_and_small_ones_after_them() -> None:
    with running() as (address, _):
        line = PipelinedLine(address)
        sizes = [3_000_000, 5, 2_500_000, 0, 9_000_000, 100_000, 7]
        numbers = [line.say(Command(ECHO, {"times": str(size)}, body=b"x")) for size in sizes]
        line.flush(20_000)
        assert {each.opaque: len(each.body) for each in hear(line, 7)} == dict(zip(numbers, sizes, strict=True))
        line.close()


def test_an_answer_in_pieces_is_one_answer() -> None:
    frames = answer(1, b"first") + answer(2, b"second")
    with scripted(*(frames[at : at + 7] for at in range(0, len(frames), 7))) as address:
        line = PipelinedLine(address)
        line.say(Command(ECHO))
        line.say(Command(ECHO))
        line.flush(20_000)
        assert [each.body for each in hear(line, 2)] == [b"first", b"second"]
        line.close()


def test_what_the_server_says_of_its_own_accord_is_passed_over() -> None:
    with running() as (address, _):
        line = PipelinedLine(address)
        line.say(Command(SHOUT, body=b"hear, hear"))
        number = line.say(Command(ECHO, body=b"mine"))
        line.flush(20_000)
        assert [(each.opaque, each.body) for each in hear(line, 1)] == [(number, b"mine")]
        line.close()


def test_a_server_that_says_nothing_is_timed_out() -> None:
    with running() as (address, _):
        line = PipelinedLine(address)
        line.say(Command(SILENT))
        line.flush(20_000)
        with pytest.raises(TimedOut, match="said nothing for 30 ms"):
            line.hear(30)
        line.close()


def test_a_server_that_reads_nothing_is_timed_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = PipelinedLine(f"127.0.0.1:{listener.getsockname()[1]}")
        line.say(Command(ECHO, body=b"x" * 12_000_000))
        with pytest.raises(TimedOut, match="did not take"):
            line.flush(30)
        line.close()


def test_a_line_that_is_closed_says_so() -> None:
    with running() as (address, _):
        line = PipelinedLine(address)
        line.say(Command(HANG_UP))
        line.flush(20_000)
        assert hear(line, 1)[0].body == b"bye"
        with pytest.raises(LineClosed):
            line.hear(20_000)
        line.close()
        line.say(Command(ECHO))
        with pytest.raises(LineClosed):
            line.flush(20_000)


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x7f\xff\xff\xff\0\0\0\1", b"\0\0\0\4\0\0\0\7x"]
)
def test_what_is_not_the_protocol_ends_the_line(said: bytes) -> None:
    with scripted(said) as address:
        line = PipelinedLine(address)
        line.say(Command(ECHO))
        line.flush(20_000)
        with pytest.raises(LineClosed, match="does not speak the protocol"):
            line.hear(20_000)
        line.close()


def test_a_server_that_is_not_there_cannot_be_connected_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(CannotConnect, match="refused"):
        PipelinedLine(f"127.0.0.1:{port}")


def test_of_several_lines_those_that_can_be_heard_are_named() -> None:
    with running() as (address, _):
        lines = [PipelinedLine(address) for _ in range(3)]
        assert first_ready(lines, 0) == []
        lines[1].say(Command(ECHO, body=b"here"))
        lines[1].flush(20_000)
        assert first_ready(lines, 20_000) == [lines[1]]
        assert hear(lines[1], 1)[0].body == b"here"
        for line in lines:
            line.close()


@pytest.mark.process
def test_a_forked_child_that_closes_it_leaves_the_line_to_its_parent() -> None:
    with scripted(answer(1, b"still here")) as address:
        line = PipelinedLine(address)
        child = os.fork()
        if child == 0:
            line.close()
            os._exit(0)
        os.waitpid(child, 0)
        line.say(Command(ECHO))
        line.flush(20_000)
        assert hear(line, 1)[0].body == b"still here"
        line.close()


@contextmanager
def encrypted(said: bytes) -> Iterator[str]:
    """Run an encrypting server that reads one request and then says something."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as line:
            line.recv(65_536)
            line.sendall(said)
            line.recv(65_536)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"localhost:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def test_an_encrypted_line_is_heard_to_the_last_answer() -> None:
    bodies = {number: bytes([number]) * 40_000 for number in range(1, 60)}
    with encrypted(b"".join(answer(number, body) for number, body in bodies.items())) as address:
        line = PipelinedLine(address, tls=tls_context(FILES / "authority.pem"))
        for _ in bodies:
            line.say(Command(ECHO))
        line.flush(20_000)
        heard: dict[int, bytes] = {}
        while len(heard) < len(bodies):
            for ready in first_ready([line], 20_000):
                heard |= {each.opaque: each.body for each in ready.hear(20_000)}
        assert heard == bodies
        line.close()


commands = st.builds(
    Command,
    st.integers(0, 500),
    st.dictionaries(st.sampled_from(["a", "b"]), st.text("xyz", min_size=1), max_size=2),
    st.binary(max_size=50),
    opaque=st.integers(0, 1 << 30),
    flag=st.just(RESPONSE),
)


@given(st.lists(commands, max_size=5), st.binary(max_size=30))
def test_frames_in_a_buffer_are_read_as_the_splitter_reads_them(sent: list[Command], noise: bytes) -> None:
    data = b"".join(map(encode_frame, sent)) + noise
    expected: list[Command] = []
    broken = False
    try:
        expected.extend(Splitter().feed(data))
    except ProtocolError:
        broken = True
    found, at = [], 0
    try:
        while True:
            command, stop = command_at(memoryview(data), at, len(data))
            if command is None:
                assert stop > len(data)
                break
            found.append(command)
            at = stop
    except ProtocolError:
        assert broken
    assert found == expected
