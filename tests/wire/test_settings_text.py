import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.wire import limits
from steelyard.wire.bodies.common import decode_settings, encode_settings

_WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n=#!"), max_size=12).map(str.strip)


@given(st.dictionaries(_WORDS.filter(bool), _WORDS | st.sampled_from(["a=b", "C:\\data", "#1"]), max_size=5))
def test_settings_are_read_back_as_they_were_written(settings: dict[str, str]) -> None:
    assert decode_settings(encode_settings(settings)) == settings


def test_comments_blanks_and_lines_without_a_value_are_read_as_java_does() -> None:
    text = b"# comment\r\n! another\r\n\r\n  brokerName =  broker-a \r\nport=1\nport=10911\nempty\n = nobody\n"
    assert decode_settings(text) == {"brokerName": "broker-a ", "port": "10911", "empty": ""}


@pytest.mark.parametrize(
    "settings",
    [{"a=b": "c"}, {"a": "b\nc"}, {"a\n": "b"}, {"": "b"}, {"#a": "b"}, {" a": "b"}, {"a": " b"}, {"a": "\ud800"}],
)
def test_settings_that_would_be_read_differently_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="would not be read back"):
        encode_settings(settings)


def test_what_is_not_text_is_malformed_and_what_is_too_large_is_refused() -> None:
    with pytest.raises(MalformedBody, match="byte 2"):
        decode_settings(b"a=\xff")
    with pytest.raises(LimitExceeded, match="size in bytes"):
        decode_settings(b"\n" * (limits.SETTINGS_BYTES + 1))
