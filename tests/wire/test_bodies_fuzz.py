"""Broken copies of real bodies: whatever comes, only a `ProtocolError` leaves."""

from contextlib import suppress
from itertools import islice

import pytest
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames

from steelyard.errors import ProtocolError
from steelyard.wire.bodies import (
    BODY_OF_REQUEST,
    BODY_OF_RESPONSE,
    Registration,
    compress_registration,
    decode_body,
    decode_settings,
    decompress_registration,
    encode_body,
)

pytestmark = pytest.mark.fuzz

_KINDS = list(dict.fromkeys((*BODY_OF_REQUEST.values(), *BODY_OF_RESPONSE.values())))


def recorded(code: int | None = None) -> list[bytes]:
    bodies = (
        (golden.request_code, golden.frame[8 + int.from_bytes(golden.frame[5:8], "big") :])
        for golden in golden_frames()
        if golden.request_code in (BODY_OF_RESPONSE if golden.is_answer else BODY_OF_REQUEST)
    )
    return sorted({body for asked, body in bodies if body and code in (None, asked)})


def test_a_broken_body_is_read_or_refused() -> None:
    for turn, data in enumerate(islice(mutations(recorded(), seed=1), rounds())):
        with suppress(ProtocolError):
            body = decode_body(_KINDS[turn % len(_KINDS)], data)
            encode_body(body)


def test_a_broken_body_of_the_right_type_is_read_or_refused() -> None:
    kinds = [(table[code], code) for table in (BODY_OF_REQUEST, BODY_OF_RESPONSE) for code in table if recorded(code)]
    for place, (kind, code) in enumerate(kinds):
        for data in islice(mutations(recorded(code), seed=place), rounds() // len(kinds) + 1):
            with suppress(ProtocolError):
                body = decode_body(kind, data)
                assert decode_body(kind, encode_body(body)) == body


def test_a_broken_compressed_registration_is_read_or_refused() -> None:
    plain = [decode_body(Registration, data) for data in recorded(103) if data.startswith(b'{"filterServerList"')]
    packed = [compress_registration(body, version=513) for body in plain]
    for data in islice(mutations(packed, seed=2), rounds()):
        with suppress(ProtocolError):
            decompress_registration(data, version=513)


def test_broken_settings_are_read_or_refused() -> None:
    for data in islice(mutations([b"brokerName=broker-a\n# comment\nlistenPort = 10911\n"], seed=3), rounds()):
        with suppress(ProtocolError):
            decode_settings(data)
