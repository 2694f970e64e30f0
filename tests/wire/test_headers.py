"""Typed headers: both header types give the same value, whatever is sent."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedHeader, ProtocolError
from steelyard.wire import limits
from steelyard.wire.binary_header import header_from_binary, pack_fields, pack_header, texts_from_binary
from steelyard.wire.codes import HeaderType, RequestCode
from steelyard.wire.command import Command, decode_command, encode_header
from steelyard.wire.header_codec import Header, header_from_texts, header_layout
from steelyard.wire.headers import HEADER_OF_REQUEST
from steelyard.wire.headers.common import EmptyHeader, OffsetResponse, TopicNameRequest
from steelyard.wire.headers.group import QueryConsumerOffset
from steelyard.wire.headers.nameserver import GetRoute
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.headers.send import SendMessageResponse, SendMessageV2
from tests.fuzzing import Dice, mutations, rounds
from tests.golden_frames import GoldenFrame, spoken_frames
from tests.wire.header_table import HEADER_OF_RESPONSE

DECLARED: set[type[Header]] = {*HEADER_OF_REQUEST.values(), *HEADER_OF_RESPONSE.values(), EmptyHeader}
KINDS = sorted(DECLARED, key=lambda kind: (kind.__name__, kind.__module__))
HOT: list[type[Header]] = [SendMessageV2, SendMessageResponse, PullMessage, PullMessageResponse]
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@cache
def headers(kind: type[Header]) -> st.SearchStrategy[Header]:
    """Build any header of a kind, from its types."""
    of_type = {str: words, bool: st.booleans()}
    hints = get_type_hints(kind)
    plan = header_layout(kind)
    arguments: dict[str, st.SearchStrategy[object]] = {}
    for name, wanted, digits in zip(plan.attributes, plan.types, plan.safe_digits, strict=True):
        most = (1 << 31) - 1 if digits == 9 else (1 << 63) - 1
        value = of_type.get(wanted, st.integers(-most - 1, most))
        arguments[name] = st.none() | value if type(None) in get_args(hints[name]) else value
    return st.builds(kind, **arguments)


def short_headers(kind: type[Header], count: int) -> Iterator[Header]:
    """Build headers of few and short values, so that lengths repeat and shapes are learnt, met and changed."""
    hints, plan, random = get_type_hints(kind), header_layout(kind), Dice(0)
    few: dict[str, list[object]] = {}
    of_type: dict[type, list[object]] = {str: ["a", "b", "true", "é", "1", " 1"], bool: [False, True]}
    for name, wanted, digits in zip(plan.attributes, plan.types, plan.safe_digits, strict=True):
        most = (1 << 31) - 1 if digits == 9 else (1 << 63) - 1
        numbers = [0, 1, -1, 7, 10, 99, -most - 1, most, *(random.randint(-most - 1, most) for _ in range(8))]
        few[name] = [*of_type.get(wanted, numbers), *([None] if type(None) in get_args(hints[name]) else [])]
    for _ in range(count):
        yield kind(**{name: random.choice(values) for name, values in few.items()})


def golden_header(golden: GoldenFrame) -> tuple[Command, type[Header] | None]:
    (command,) = [
        decode_command(HeaderType(golden.frame[4]), golden.frame[8 : 8 + (mark & 0xFFFFFF)], b"")
        for mark in [int.from_bytes(golden.frame[4:8], "big")]
    ]
    return command, (HEADER_OF_RESPONSE if golden.is_answer else HEADER_OF_REQUEST).get(golden.request_code)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_any_header_survives_both_header_types(kind: type[Header], data: st.DataObject) -> None:
    header = data.draw(headers(kind))
    for header_type in HeaderType:
        sent = Command(1, header, header_type=header_type)
        received = decode_command(header_type, encode_header(sent), b"")
        assert received.header(kind) == header
        assert received.texts() == sent.texts()


@pytest.mark.parametrize("kind", HOT, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_texts_and_packing_written_by_hand_equal_the_general_way(kind: type[Header], data: st.DataObject) -> None:
    header = data.draw(headers(kind))
    assert header.texts() == Header.texts(header)
    general = pack_fields(zip(header_layout(kind).names, Header.texts(header), strict=True))
    assert texts_from_binary(pack_header(header)) == texts_from_binary(general)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_short_cut_for_repeating_headers_never_changes_a_result(kind: type[Header]) -> None:
    for header in short_headers(kind, 200):
        packed = pack_header(header)
        assert header_from_binary(kind, packed) == header_from_texts(kind, texts_from_binary(packed)) == header


@given(st.lists(st.sampled_from(["1", "7", "-", "+", " ", "_", "é"]), min_size=2, max_size=9))
def test_a_value_that_is_no_number_is_refused_whether_its_shape_is_known_or_not(values: list[str]) -> None:
    for value in values:
        packed = pack_fields([("offset", value)])
        outcomes = []
        for read in (header_from_binary, lambda kind, raw: header_from_texts(kind, texts_from_binary(raw))):
            try:
                outcomes.append(read(OffsetResponse, packed))
            except MalformedHeader as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_every_real_header_is_read_typed_with_no_field_unknown() -> None:
    for golden in spoken_frames():
        command, kind = golden_header(golden)
        texts = command.texts()
        if kind is None:
            assert texts == {}, f"{golden}: no typed header is declared, but it has {sorted(texts)}"
        elif texts or not golden.is_answer:
            command.header(kind)
            assert set(texts) <= set(header_layout(kind).names), f"{golden}: {kind.__name__} lacks a field"


def test_every_real_header_is_written_again_with_the_same_meaning_in_both_types() -> None:
    for golden in spoken_frames():
        command, kind = golden_header(golden)
        texts = {name: text for name, text in command.texts().items() if text}
        for header_type in HeaderType:
            if header_type is HeaderType.BINARY and command.code > 32767:
                continue
            fields = command.header(kind) if kind is not None and texts else command.fields
            again = msgspec.structs.replace(command, fields=fields, header_type=header_type)
            received = decode_command(header_type, encode_header(again), b"")
            assert {name: text for name, text in received.texts().items() if text} == texts, str(golden)
            assert (received.code, received.opaque, received.flag, received.version) == (
                (command.code, command.opaque, command.flag, command.version)
            )
            assert (received.language, received.remark or None) == (command.language, command.remark or None)


def test_real_json_headers_are_written_again_byte_for_byte() -> None:
    # Java adds a constant that says JSON is JSON, and leaves out empty fields where we always write them.
    for golden in spoken_frames():
        header = golden.frame[8 : 8 + (int.from_bytes(golden.frame[4:8], "big") & 0xFFFFFF)]
        if b'"language":"JAVA"' not in header:
            continue
        expected = header.replace(b'"serializeTypeCurrentRPC":"JSON",', b"")
        if b'"extFields"' not in expected:
            expected = expected.replace(b',"flag"', b',"extFields":{},"flag"', 1)
        assert encode_header(golden_header(golden)[0]) == expected, str(golden)


def test_a_missing_field_is_named() -> None:
    for header_type in HeaderType:
        sent = Command(105, {"top": "T"}, header_type=header_type)
        with pytest.raises(MalformedHeader, match="GetRoute: the field topic is missing"):
            decode_command(header_type, encode_header(sent), b"").header(GetRoute)


def test_unknown_fields_are_ignored() -> None:
    for header_type in HeaderType:
        sent = Command(105, {"topic": "T", "later": "x"}, header_type=header_type)
        assert decode_command(header_type, encode_header(sent), b"").header(GetRoute).topic == "T"


@pytest.mark.parametrize("number", ["12345678901", "x", "1.5", "0x10", "٣x"])
def test_a_number_that_is_none_or_does_not_fit_is_refused_in_both_types(number: str) -> None:
    fields = {"topic": "T", "queueId": number}
    for header_type in HeaderType:
        received = decode_command(header_type, encode_header(Command(31, fields, header_type=header_type)), b"")
        with pytest.raises(MalformedHeader, match="QueueRequest"):
            received.header(HEADER_OF_REQUEST[31])


@pytest.mark.parametrize(
    "fields",
    [b'{"topic":"T","queueId":3}', b'{"topic":"T","queueId":"3","lo":null}', b'{"topic":"T","queueId":"3","lo":"no"}'],
)
def test_sloppy_json_is_read_as_java_reads_it(fields: bytes) -> None:
    command = decode_command(HeaderType.JSON, b'{"code":31,"extFields":' + fields + b"}", b"")
    header = command.header(HEADER_OF_REQUEST[31])
    assert msgspec.structs.asdict(header)["queue_id"] == 3
    assert not msgspec.structs.asdict(header)["logical"]


def test_numbers_and_booleans_can_be_decoded_as_texts() -> None:
    command = decode_command(HeaderType.JSON, b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":"x"}}', b"")
    assert command.texts() == {"a": "1", "b": "true", "d": "x"}


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (b'{"code":1}', "OTHER"),
        (b'{"code":1,"language":null}', "OTHER"),
        (b'{"code":1,"language":9}', "GO"),
        (b'{"code":1,"language":99}', "OTHER"),
        (b'{"code":1,"language":"ZIG","extFields":null,"unknown":[[]]}', "ZIG"),
    ],
)
def test_all_but_the_code_may_be_missing(header: bytes, language: str) -> None:
    command = decode_command(HeaderType.JSON, header, b"")
    assert (command.code, command.language, command.texts()) == (1, language, {})


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b"[]",
        b'{"code":}',
        b'{"code":1.5}',
        b'{"code":99999999999}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"remark":"\\ud800"}',
        b'{"code":1,"x":' + b"[" * 60_000,
        b'{"code":1,"opaque":' + b"9" * 5_000 + b"}",
    ],
)
def test_broken_json_headers_are_refused(header: bytes) -> None:
    with pytest.raises(MalformedHeader, match="JSON header"):
        decode_command(HeaderType.JSON, header, b"")


@pytest.mark.parametrize("fields", [b"[]", b'"x"', b"3", b'{"a":{}}', b'{"a":[1]}'])
def test_fields_that_are_no_texts_are_refused(fields: bytes) -> None:
    command = decode_command(HeaderType.JSON, b'{"code":1,"extFields":' + fields + b"}", b"")
    with pytest.raises(MalformedHeader):
        command.texts()
    with pytest.raises(MalformedHeader):
        command.header(TopicNameRequest)


def test_every_named_limit_of_a_header_holds_in_both_types() -> None:
    over = {
        limits.HEADER_FIELDS: {f"k{n}": "v" for n in range(limits.HEADER_FIELDS + 1)},
        limits.KEY_BYTES: {"é" * (limits.KEY_BYTES // 2 + 1): "v", "fill": "x" * 1024},
        limits.VALUE_BYTES: {"k": "é" * (limits.VALUE_BYTES // 2 + 1)},
    }
    for limit, fields in over.items():
        for header_type in HeaderType:
            command = decode_command(header_type, encode_header(Command(1, fields, header_type=header_type)), b"")
            for read in (command.texts, lambda command=command: command.header(TopicNameRequest)):
                with pytest.raises(LimitExceeded) as caught:
                    read()
                assert caught.value.limit == limit


def test_a_large_header_with_far_too_many_fields_is_refused_and_one_with_many_quotes_is_not() -> None:
    many = encode_header(Command(1, {str(number): "" for number in range(60_000)}))
    with pytest.raises(LimitExceeded, match="the number of fields"):
        decode_command(HeaderType.JSON, many, b"").texts()
    quotes = {f"k{number}": '"' * 8_000 for number in range(16)}
    assert decode_command(HeaderType.JSON, encode_header(Command(1, quotes)), b"").texts() == quotes


def test_fields_at_their_limits_pass_in_both_types() -> None:
    fields = {f"k{n}": "v" for n in range(limits.HEADER_FIELDS - 2)}
    fields |= {"x" * limits.KEY_BYTES: "v", "k": "x" * limits.VALUE_BYTES}
    for header_type in HeaderType:
        command = decode_command(header_type, encode_header(Command(1, fields, header_type=header_type)), b"")
        assert command.texts() == fields


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_binary_header_cut_anywhere_is_refused(cut: int) -> None:
    header = encode_header(Command(1, {"topic": "T"}, remark="a remark", header_type=HeaderType.BINARY))
    with pytest.raises(MalformedHeader):
        decode_command(HeaderType.BINARY, header[:-cut], b"").texts()


def test_codes_that_need_more_than_16_bits_cannot_be_sent_in_binary() -> None:
    with pytest.raises(ConfigurationError, match="send this request with a JSON header"):
        encode_header(Command(RequestCode.POP_MESSAGE, header_type=HeaderType.BINARY))


@pytest.mark.parametrize(
    "command",
    [
        Command(1, {"k": "\ud800"}),
        Command(1, {"\ud800": "v"}),
        Command(1, TopicNameRequest("\ud800")),
        Command(1, remark="\ud800"),
    ],
)
def test_text_that_is_not_fit_for_utf_8_is_refused_in_both_types(command: Command) -> None:
    for header_type in HeaderType:
        with pytest.raises(ConfigurationError, match="not fit for UTF-8"):
            encode_header(msgspec.structs.replace(command, header_type=header_type))


def test_numbers_and_names_that_do_not_fit_a_binary_header_are_refused() -> None:
    for command in (Command(1, opaque=1 << 31), Command(1, flag=1 << 31), Command(1, version=1 << 15, remark="r")):
        with pytest.raises(ConfigurationError, match="do not fit a binary header"):
            encode_header(msgspec.structs.replace(command, header_type=HeaderType.BINARY))
    with pytest.raises(LimitExceeded, match="the name of the field kkk"):
        pack_fields([("k" * 40_000, "v")])


@pytest.mark.parametrize("text", ["", "null", "NULL"])
def test_a_number_or_a_truth_without_a_text_is_absent_in_both_types(text: str) -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "3", "setZeroIfNotFound": text, "lo": text}
    for filling in ({}, {"fill": "x" * 2_000}):
        for header_type in HeaderType:
            sent = Command(14, fields | filling, header_type=header_type)
            received = decode_command(header_type, encode_header(sent), b"")
            assert received.header(QueryConsumerOffset) == QueryConsumerOffset("g", "t", 3)


def test_the_place_of_what_is_not_utf_8_is_reported() -> None:
    with pytest.raises(MalformedHeader, match="binary header fields, byte 13: a value is not UTF-8"):
        texts_from_binary(b"\0\5topic\0\0\0\3ab\xff")


def test_an_empty_value_is_absent_in_binary() -> None:
    packed = b"\0\5topic\0\0\0\0"
    assert texts_from_binary(packed) == {}
    with pytest.raises(MalformedHeader, match="topic is missing"):
        header_from_binary(TopicNameRequest, packed)


def test_of_two_equal_names_the_last_counts_always() -> None:
    twice = pack_fields([("offset", "1")]) + pack_fields([("offset", "2")])
    assert [header_from_binary(OffsetResponse, twice).offset for _ in range(3)] == [2, 2, 2]


@pytest.mark.fuzz
@pytest.mark.parametrize("header_type", HeaderType)
def test_broken_headers_raise_protocol_errors_and_nothing_else(header_type: HeaderType) -> None:
    corpus = []
    for golden in spoken_frames():
        command, _ = golden_header(golden)
        if header_type is HeaderType.JSON or command.code <= 32767:
            corpus.append(encode_header(msgspec.structs.replace(command, header_type=header_type)))
    for count, broken in enumerate(islice(mutations(corpus, seed=2), rounds())):
        with suppress(ProtocolError):
            command = decode_command(header_type, broken, b"")
            command.header(KINDS[count % len(KINDS)])
            command.texts()
