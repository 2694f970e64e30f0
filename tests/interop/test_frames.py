"""Frames: what we write Java's line handlers read, and what they write we read, in both header types."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.wire import limits
from steelyard.wire.codes import LANGUAGES, HeaderType
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.golden_frames import golden_frames
from tests.interop.java_frames import WAYS, only, read_by_java, written_by_java
from tests.interop.java_values import ASTRAL, int32, names, words
from tests.interop.peer import JavaRefused, Peer

KNOWN_TO_ALL = tuple(language for language in LANGUAGES if language != "NODE_JS")

int16 = st.integers(-(1 << 15), (1 << 15) - 1)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    """Draw any command that both header types can carry as it is: nothing empty, and codes of 16 bits."""
    return Command(
        code=draw(int16),
        fields=draw(st.dictionaries(names, words, max_size=5)),
        body=draw(st.binary(max_size=60)),
        opaque=draw(int32),
        flag=draw(st.integers(0, 3)),
        remark=draw(st.none() | words),
        version=draw(int16),
        language=draw(st.sampled_from(KNOWN_TO_ALL)),
        header_type=draw(st.sampled_from(HeaderType)),
    )


def as_java_has_it(command: Command) -> dict[str, Any]:
    """Say how Java sees a command. Only a binary header without fields has none at all: we always write an object."""
    fields: dict[str, str] | None = command.texts()
    if not fields and command.header_type is HeaderType.BINARY:
        fields = None
    return {
        "code": command.code,
        "flag": command.flag,
        "opaque": command.opaque,
        "version": command.version,
        "language": command.language,
        "remark": command.remark,
        "fields": fields,
        "body": command.body.hex() or None,
        "type": command.header_type,
    }


@settings(max_examples=200)
@given(command=commands())
def test_java_reads_any_frame_of_ours(java: Peer, command: Command) -> None:
    assert read_by_java(java, encode_frame(command)) == as_java_has_it(command)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=200)
@given(command=commands())
def test_we_read_any_frame_of_javas(java: Peer, way: str, command: Command) -> None:
    received = only(written_by_java(java, way, command))
    assert as_java_has_it(received) == as_java_has_it(command)


def test_both_read_every_recorded_frame_alike(java: Peer) -> None:
    for golden in golden_frames():
        ours, theirs = as_java_has_it(only(golden.frame)), read_by_java(java, golden.frame)
        # A JSON header may lack its fields, which we read as none.
        theirs["fields"] = theirs["fields"] or None
        ours["fields"] = ours["fields"] or None
        assert ours == theirs, str(golden)


@pytest.mark.parametrize("header_type", HeaderType)
@pytest.mark.parametrize(
    "command",
    [
        Command(0),
        Command(32_767, opaque=-(1 << 31), flag=2, version=0),
        Command(-32_768, opaque=(1 << 31) - 1, flag=3, version=-1),
        Command(1, {"topic": "t" * 127}, remark=ASTRAL),
        Command(1, {ASTRAL: ASTRAL}, remark=ASTRAL * 500 + '\x00\x1f"\\'),
        Command(310, {"i": "p" * 32_767}),
        Command(310, {"i": "\U0001f40e" * 8_191}),
        Command(310, {"i": '"' * 30_000}),
        Command(310, {"i": "a\x01b\x02" * 4_000}),
        Command(310, {f"name{number}": str(number) for number in range(limits.HEADER_FIELDS)}),
    ],
    ids=lambda command: f"code{command.code}-{len(command.fields)}fields-{len(command.remark or '')}remark",
)
def test_corners_pass_both_ways(java: Peer, header_type: HeaderType, command: Command) -> None:
    meta = (command.opaque, command.flag, command.remark, command.version, "PYTHON", header_type)
    command = Command(command.code, command.fields, b"\x00\xff", *meta)
    assert read_by_java(java, encode_frame(command)) == as_java_has_it(command)
    for way in WAYS:
        assert as_java_has_it(only(written_by_java(java, way, command))) == as_java_has_it(command)


def test_full_properties_of_escapes_that_java_writes_are_read_in_both_types(java: Peer) -> None:
    separators = {"i": "a\x01b\x02" * 8_191}
    for way, header_type in product(WAYS, HeaderType):
        written = written_by_java(java, way, Command(310, separators, header_type=header_type))
        assert only(written).texts() == separators


def test_codes_beyond_16_bits_pass_in_json(java: Peer) -> None:
    command = Command(200_050, {"topic": "t"}, version=70_000)
    assert read_by_java(java, encode_frame(command))["code"] == 200_050
    assert only(written_by_java(java, "line", command)).code == 200_050


def test_java_cuts_codes_beyond_16_bits_in_binary(java: Peer) -> None:
    command = Command(200_050, header_type=HeaderType.BINARY)
    assert [only(written_by_java(java, way, command)).code for way in WAYS] == [3442, 3442]


def test_empty_texts_stay_in_json_and_are_gone_in_binary(java: Peer) -> None:
    empty = {"topic": "t", "subscription": ""}
    in_json = Command(11, empty, remark="")
    in_binary = Command(11, empty, remark="", header_type=HeaderType.BINARY)
    json_read, binary_read = (read_by_java(java, encode_frame(command)) for command in (in_json, in_binary))
    assert (json_read["fields"], json_read["remark"]) == (empty, "")
    assert (binary_read["fields"], binary_read["remark"]) == ({"topic": "t"}, None)
    for way in WAYS:
        from_json, from_binary = (only(written_by_java(java, way, command)) for command in (in_json, in_binary))
        assert (from_json.texts(), from_json.remark) == (empty, "")
        assert (from_binary.texts(), from_binary.remark) == ({"topic": "t"}, None)


def test_both_make_texts_of_numbers_and_truths(java: Peer) -> None:
    header = b'{"code":"11","extFields":{"queueId":3,"nsd":true,"ns":null,"topic":"t"},"opaque":7}'
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    theirs, ours = read_by_java(java, frame), only(frame)
    assert {name: text for name, text in theirs["fields"].items() if text is not None} == ours.texts()
    assert ours.texts() == {"queueId": "3", "nsd": "true", "topic": "t"}
    assert (theirs["code"], theirs["opaque"]) == (ours.code, ours.opaque) == (11, 7)


@pytest.mark.parametrize("header_type", HeaderType)
def test_the_youngest_language_is_none_to_4(java: Peer, header_type: HeaderType) -> None:
    frame = encode_frame(Command(1, language="NODE_JS", header_type=header_type))
    assert read_by_java(java, frame)["language"] == (None if java.is_4 else "NODE_JS")


def test_an_escape_beside_an_astral_character_in_a_name_is_too_much_for_5(java: Peer) -> None:
    frame = encode_frame(Command(1, {"\x1f\U0001f40e": "value"}))
    assert only(frame).texts() == {"\x1f\U0001f40e": "value"}
    if java.is_4:
        assert read_by_java(java, frame)["fields"] == {"\x1f\U0001f40e": "value"}
        return
    with pytest.raises(JavaRefused, match="the line was closed"):
        read_by_java(java, frame)


def test_the_largest_frame_is_the_same_for_both(java: Peer) -> None:
    overhead = len(encode_frame(Command(10, opaque=7)))
    largest = encode_frame(Command(10, body=bytes(limits.FRAME_BYTES - overhead), opaque=7))
    assert len(largest) == limits.FRAME_BYTES
    assert len(read_by_java(java, largest)["body"]) == 2 * (limits.FRAME_BYTES - overhead)
    one_more = (len(largest) - 3).to_bytes(4, "big") + largest[4:] + b"\0"
    with pytest.raises(JavaRefused):
        read_by_java(java, one_more)


def test_frames_of_java_are_split_wherever_they_are_cut(java: Peer) -> None:
    sent = [
        Command(number, {"topic": ASTRAL}, b"body", number, header_type=HeaderType(number % 2)) for number in range(6)
    ]
    line = b"".join(written_by_java(java, "line", command) for command in sent)
    splitter = FrameDecoder()
    received = [command for byte in line for command in splitter.feed(bytes([byte]))]
    assert list(map(as_java_has_it, received)) == list(map(as_java_has_it, sent))
