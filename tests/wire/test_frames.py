from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import LimitExceeded, MalformedFrame, MalformedHeader, ProtocolError
from steelyard.wire import limits
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, response_to
from steelyard.wire.frames import FrameDecoder, decode_frame_at, encode_frame
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames
from tests.memory import assert_peak_below

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
commands = st.builds(
    Command,
    code=int16,
    fields=st.dictionaries(texts, texts, max_size=12),
    body=st.binary(max_size=200),
    opaque=int32,
    flag=st.integers(0, 3),
    remark=st.none() | texts,
    version=int16,
    language=st.sampled_from(["JAVA", "PYTHON", "GO", "OTHER"]),
    header_type=st.sampled_from(HeaderType),
)


def meaning(command: Command) -> tuple[object, ...]:
    c = command
    return c.code, c.texts(), c.body, c.opaque, c.flag, c.remark, c.version, c.language, c.header_type


@given(st.lists(commands, max_size=4), st.data())
def test_commands_come_out_as_they_went_in_however_the_bytes_are_cut(sent: list[Command], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameDecoder()
    received: list[Command] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += splitter.feed(stream[start:end])
    assert list(map(meaning, received)) == list(map(meaning, sent))


@given(st.lists(commands, min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=5, max_size=5), st.data())
def test_commands_that_were_not_consumed_come_with_the_next_call(
    sent: list[Command], taken: list[int], data: st.DataObject
) -> None:
    stream = b"".join(map(encode_frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), min_size=3, max_size=3)))
    splitter = FrameDecoder()
    received: list[Command] = []
    kept = []
    for start, end, most in zip([0, *cuts], [*cuts, len(stream)], taken, strict=False):
        kept.append(splitter.feed(stream[start:end]))
        for arriving in data.draw(st.permutations(kept)):
            received += islice(arriving, most)
    received += splitter.feed(b"")
    assert list(map(meaning, received)) == list(map(meaning, sent))
    assert [command for arriving in kept for command in arriving] == []


def test_real_frames_come_out_equal_whole_and_byte_by_byte() -> None:
    stream = b"".join(golden.frame for golden in golden_frames())
    whole = list(FrameDecoder().feed(stream))
    splitter = FrameDecoder()
    single = [command for byte in stream for command in splitter.feed(bytes([byte]))]
    assert len(whole) == len(golden_frames()) == 519
    assert list(map(meaning, whole)) == list(map(meaning, single))


def test_a_frame_that_is_not_complete_says_how_many_bytes_it_needs() -> None:
    # A reader waits for as many: one too many would be waited for until the next response comes.
    frame = encode_frame(Command(34, opaque=1))
    view = memoryview(b"?" * 5 + frame)
    for size in range(len(frame)):
        assert decode_frame_at(view, 5, 5 + size) == (None, 5 + (8 if size < 8 else len(frame)))
    command, end = decode_frame_at(view, 5, len(view))
    assert command is not None
    assert (command.code, command.opaque, end) == (34, 1, len(view))


def test_what_arrives_in_a_reused_buffer_is_kept() -> None:
    frame = encode_frame(Command(34, {"a": "b"}, b"body"))
    buffer = bytearray(frame[:20])
    splitter = FrameDecoder()
    assert list(splitter.feed(memoryview(buffer))) == []
    buffer[:] = bytes(20)
    assert [command.body for command in splitter.feed(frame[20:])] == [b"body"]


def test_the_frame_of_the_specification_is_written_byte_for_byte() -> None:
    ask = Command(105, {"topic": "T"}, opaque=7, version=479, language="JAVA", header_type=HeaderType.BINARY)
    assert encode_frame(ask).hex() == (
        "000000250100002100690001df0000000700000000000000000000000c0005746f7069630000000154"
    )


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (bytes.fromhex("00000003"), "its length is 3"),
        (bytes.fromhex("ffffffff"), "its length is -1"),
        (bytes.fromhex("80000000"), "its length is -2147483648"),
        (bytes.fromhex("00000010 02000004"), "the header type is 2"),
        (bytes.fromhex("00000010 ff000004"), "the header type is 255"),
        (bytes.fromhex("00000010 0000000d"), "its header has 13 bytes, the whole frame 16"),
    ],
)
def test_garbage_is_named_and_the_decoder_stays_broken(start: bytes, says: str) -> None:
    splitter = FrameDecoder()
    with pytest.raises(MalformedFrame, match=says):
        list(splitter.feed(start))
    with pytest.raises(MalformedFrame, match=says):
        list(splitter.feed(encode_frame(Command(34))))


def test_a_header_has_room_for_full_properties_in_both_types() -> None:
    many = "a\x01b\x02" * 1_000
    for header_type in HeaderType:
        sent = Command(
            310, {"i": many + "p\x01" + "x" * (limits.PROPERTIES_BYTES - len(many) - 2)}, header_type=header_type
        )
        (received,) = FrameDecoder().feed(encode_frame(sent))
        assert received.texts() == sent.texts()


def test_full_properties_fit_a_header_even_if_each_character_needs_an_escape() -> None:
    separators = {"i": "\x01" * limits.PROPERTIES_BYTES}
    for header_type in HeaderType:
        (received,) = FrameDecoder().feed(encode_frame(Command(310, separators, header_type=header_type)))
        assert received.texts() == separators


@pytest.mark.parametrize(
    ("start", "limit"),
    [
        (bytes.fromhex("00fffffd"), limits.FRAME_BYTES),
        (bytes.fromhex("7fffffff"), limits.FRAME_BYTES),
        (bytes.fromhex("00f00000 00100001"), limits.HEADER_BYTES),
        (bytes.fromhex("00f00000 01ffffff"), limits.HEADER_BYTES),
    ],
)
def test_a_frame_over_a_limit_is_refused_before_it_arrives(start: bytes, limit: int) -> None:
    with pytest.raises(LimitExceeded) as caught:
        list(FrameDecoder().feed(start))
    assert caught.value.limit == limit


@pytest.mark.parametrize("mark", ["02000004", "00010001", "0000000d"])
def test_a_broken_start_is_refused_at_its_eighth_byte_however_it_arrives(mark: str) -> None:
    start = bytes.fromhex("00000010" + mark)
    for cut in range(8):
        splitter = FrameDecoder()
        assert list(splitter.feed(start[:cut])) == []
        with pytest.raises(ProtocolError, match="frame, byte 4"):
            list(splitter.feed(start[cut:]))


def test_another_protocol_is_recognised_by_the_first_bytes() -> None:
    with pytest.raises(LimitExceeded, match="frame, byte 0: its length, read from b'GET ', is 1195725860"):
        list(FrameDecoder().feed(b"GET / HTTP/1.1"))


def test_what_a_broken_decoder_returned_before_yields_nothing_more() -> None:
    splitter = FrameDecoder()
    older, newer = splitter.feed(b"\xff" * 4), splitter.feed(encode_frame(Command(34)))
    with pytest.raises(MalformedFrame):
        list(newer)
    assert list(older) == []


def test_a_broken_decoder_keeps_nothing_however_often_it_is_fed() -> None:
    splitter = FrameDecoder()
    depths = []
    for _ in range(3):
        with pytest.raises(MalformedFrame) as caught:
            list(splitter.feed(b"\xff" * 8))
        depths.append(len(caught.traceback))
    assert depths[2] <= depths[0]


def test_commands_before_a_broken_frame_are_not_lost() -> None:
    splitter = FrameDecoder()
    arriving = splitter.feed(encode_frame(Command(34)) + b"\xff" * 8)
    assert next(arriving).code == 34
    with pytest.raises(MalformedFrame):
        next(arriving)


def test_an_unreadable_header_breaks_the_decoder() -> None:
    splitter = FrameDecoder()
    with pytest.raises(MalformedHeader, match="JSON header"):
        list(splitter.feed(bytes.fromhex("00000006 00000002") + b"{]"))
    with pytest.raises(MalformedHeader):
        list(splitter.feed(b""))


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    header_bytes = len(encode_frame(Command(10))) - 8
    largest = Command(10, body=bytes(limits.FRAME_BYTES - 8 - header_bytes))
    frame = encode_frame(largest)
    assert len(frame) == limits.FRAME_BYTES
    splitter = FrameDecoder()
    received = [c for start in range(0, len(frame), 65_536) for c in splitter.feed(frame[start : start + 65_536])]
    assert [len(command.body) for command in received] == [len(largest.body)]
    with pytest.raises(LimitExceeded):
        encode_frame(Command(10, body=largest.body + b"x"))


def test_a_header_whose_length_cannot_be_told_is_not_written() -> None:
    for header_type in HeaderType:
        with pytest.raises(LimitExceeded, match="request 10: the header"):
            encode_frame(Command(10, remark="x" * (1 << 24), header_type=header_type))


def test_a_frame_in_tiny_pieces_costs_no_more_than_a_small_multiple_of_itself() -> None:
    frame = encode_frame(Command(10, body=bytes(300_000)))
    pieces = [frame[start : start + 3] for start in range(0, len(frame), 3)]

    def feed() -> None:
        splitter = FrameDecoder()
        assert len([command for piece in pieces for command in splitter.feed(piece)]) == 1

    assert_peak_below(5 * len(frame), feed)


def test_an_answer_has_the_opaque_and_the_header_type_of_its_request() -> None:
    for kind in HeaderType:
        answer = response_to(Command(105, opaque=9, header_type=kind), 17, remark="no")
        assert (answer.opaque, answer.header_type, answer.flag) == (9, kind, RESPONSE_FLAG)
        assert answer.is_response
        assert not answer.is_oneway


def test_a_oneway_request_differs_from_a_response() -> None:
    assert Command(15, flag=ONEWAY_FLAG).is_oneway
    assert not Command(15, flag=ONEWAY_FLAG | RESPONSE_FLAG).is_oneway
    assert not Command(15).is_oneway


@pytest.mark.fuzz
def test_broken_frames_raise_protocol_errors_and_nothing_else() -> None:
    corpus = [golden.frame for golden in golden_frames()]
    corpus += [encode_frame(Command(310, {"a": "g", "i": "x" * 300}, b"hi", header_type=HeaderType.BINARY))]
    for broken in islice(mutations(corpus, seed=1), rounds()):
        with suppress(ProtocolError):
            for command in FrameDecoder().feed(broken):
                command.texts()
