"""Broken copies of real bodies: whatever comes, only a `ProtocolError` leaves."""

import zlib
from contextlib import suppress
from itertools import islice

import pytest

from steelyard.errors import ProtocolError
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.bodies.topics import BrokerRegistration, decompress_registration
from tests.fuzzing import mutations, rounds
from tests.golden_frames import golden_frames
from tests.wire.body_table import BODY_OF_REQUEST, BODY_OF_RESPONSE
from tests.wire.registration_encoder import compress_registration

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
    plain = [decode_body(BrokerRegistration, data) for data in recorded(103) if data.startswith(b'{"filterServerList"')]
    packed = [compress_registration(body, version=513) for body in plain]
    broken_streams = mutations(packed, seed=2)
    broken_contents = map(zlib.compress, mutations([zlib.decompress(data) for data in packed], seed=3))
    for pair in islice(zip(broken_streams, broken_contents, strict=False), rounds() // 2):
        for data in pair:
            with suppress(ProtocolError):
                decompress_registration(data, version=513)


def test_broken_settings_are_read_or_refused() -> None:
    for data in islice(mutations([b"brokerName=broker-a\n# comment\nlistenPort = 10911\n"], seed=3), rounds()):
        with suppress(ProtocolError):
            decode_settings(data)
