import json
from typing import Any

import pytest

from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.java_json import to_standard_json
from tests.golden_frames import GoldenFrame, spoken_frames
from tests.wire.body_table import BODY_OF_REQUEST, BODY_OF_RESPONSE, SETTINGS_REQUESTS, SETTINGS_RESPONSES

# Bodies of these are messages, whatever they look like.
_MESSAGE_REQUESTS = {
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
}
_MESSAGE_ANSWERS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
}


def body_of(golden: GoldenFrame) -> bytes:
    return golden.frame[8 + int.from_bytes(golden.frame[5:8], "big") :]


def kind_of(golden: GoldenFrame) -> type[Any] | None:
    return (BODY_OF_RESPONSE if golden.is_answer else BODY_OF_REQUEST).get(golden.request_code)


_TYPED = pytest.mark.parametrize(
    "golden", [golden for golden in spoken_frames() if kind_of(golden) and body_of(golden)], ids=str
)


def test_every_recorded_body_is_a_message_or_has_a_type() -> None:
    for golden in spoken_frames():
        messages = _MESSAGE_ANSWERS if golden.is_answer else _MESSAGE_REQUESTS
        if body_of(golden):
            assert (kind_of(golden) is None) is (golden.request_code in messages), str(golden)


@_TYPED
def test_a_recorded_body_means_the_same_after_reading_and_writing(golden: GoldenFrame) -> None:
    kind, data = kind_of(golden), body_of(golden)
    assert kind is not None
    body = decode_body(kind, data)
    for quoted_ids in (False, True):
        text = encode_body(body, quoted_ids=quoted_ids)
        assert decode_body(kind, text) == body
        assert json.loads(to_standard_json(text, "ours")) == json.loads(to_standard_json(data, "theirs"))


@_TYPED
def test_a_recorded_body_is_written_with_the_very_bytes_of_java(golden: GoldenFrame) -> None:
    kind, data = kind_of(golden), body_of(golden)
    assert kind is not None
    text = encode_body(decode_body(kind, data), quoted_ids=kind is RouteBody)
    assert text == data


def test_every_code_of_the_tables_is_one_and_no_body_is_both_json_and_settings() -> None:
    for code in (*BODY_OF_REQUEST, *BODY_OF_RESPONSE, *SETTINGS_REQUESTS, *SETTINGS_RESPONSES):
        assert code in set(RequestCode)
    assert not SETTINGS_REQUESTS & BODY_OF_REQUEST.keys()
    assert not SETTINGS_RESPONSES & BODY_OF_RESPONSE.keys()
