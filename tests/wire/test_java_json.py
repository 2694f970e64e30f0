import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import LimitExceeded, MalformedBody, ProtocolError
from steelyard.wire import limits
from steelyard.wire.java_json import check_json_limits, count_quotes, to_standard_json
from tests.memory import assert_peak_below

_TEXTS = st.text(max_size=12) | st.sampled_from(['{0:"', "{{", '}:"', ',1:{"a":{2:3}}', '\\"{0:', "[", "]}", "\\", '"'])
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


def nested(levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + b"[" * (levels % 2) + b"]" * (levels % 2) + b"]}" * (levels // 2)


def rewritten(text: str) -> Any:
    return json.loads(to_standard_json(text.encode(), "body"))


@given(_JSON, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", "\t:\r\n")]), st.booleans())
def test_standard_json_comes_back_as_it_went_in(value: Any, separators: tuple[str, str], ascii_only: bool) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    assert to_standard_json(text, "body") is text


@given(_JSON, st.dictionaries(st.integers(), _JSON, max_size=4), st.sampled_from(["", " ", "\n\t "]))
def test_numbers_as_keys_get_quotes_wherever_they_stand(other: Any, by_id: dict[int, Any], blank: str) -> None:
    entries = f"{blank},{blank}".join(f"{key}{blank}:{json.dumps(value)}" for key, value in by_id.items())
    text = f'{{"other":{json.dumps(other)},"ids":{{{blank}{entries}}},"last":[{{7:1}},{{}}]}}'
    ids = {str(key): value for key, value in by_id.items()}
    assert rewritten(text) == {"other": other, "ids": ids, "last": [{"7": 1}, {}]}


@given(_JSON, st.lists(st.tuples(st.dictionaries(_TEXTS, _TEXTS, max_size=3), _JSON), max_size=4))
def test_objects_as_keys_become_pairs_wherever_they_stand(
    other: Any, entries: list[tuple[dict[str, str], Any]]
) -> None:
    pairs = " , ".join(f"{json.dumps(key)} : {json.dumps(value)}" for key, value in entries)
    expected: object = [[key, value] for key, value in entries] or {}
    text = f'{{"other":{json.dumps(other)},"table":{{ {pairs} }},"list":[{{"a":1}},{{"b":2}}]}}'
    assert rewritten(text) == {"other": other, "table": expected, "list": [{"a": 1}, {"b": 2}]}


def test_both_kinds_of_keys_nest() -> None:
    text = '{{"q":0}:{1:{{"q":2}:[{3:4},{}]}},{"q":{5:6}}:{},{}:0}'
    assert rewritten(text) == [
        [{"q": 0}, {"1": [[{"q": 2}, [{"3": 4}, {}]]]}],
        [{"q": {"5": 6}}, {}],
        [{}, 0],
    ]


def test_text_that_looks_like_a_key_is_left_alone() -> None:
    text = rb'{"a":"{0:1,2:3}","{{\"b\":1}:2}":"\\","c":"\"{0:"}'
    assert to_standard_json(text, "body") is text
    assert rewritten(text.decode()[:-1] + ',"d":{0:1}}') == {**json.loads(text), "d": {"0": 1}}


def test_a_negative_number_may_be_a_key() -> None:
    assert rewritten('{-1:"nobody"}') == {"-1": "nobody"}


@pytest.mark.parametrize("text", ["{0:1}}", "{0:1]", "[{0:1}}", '{0:{"a":1}:2}', "[{0:1},{}:2]"])
def test_a_bracket_that_closes_nothing_is_named_with_its_place(text: str) -> None:
    with pytest.raises(MalformedBody, match="body, byte") as caught:
        to_standard_json(text.encode(), "body")
    assert caught.value.at is not None
    assert text[caught.value.at] in "}]"


@given(st.binary(max_size=200) | st.text('{}[]:,0"\\ a', max_size=60).map(str.encode))
def test_nothing_but_protocol_errors_comes_of_garbage(data: bytes) -> None:
    with suppress(ProtocolError):
        check_json_limits(data, "body")
        to_standard_json(data, "body")


@pytest.mark.parametrize(
    "part",
    [
        *(b'"', b'""', b'"ab"ab', b'\\"', b"\\a", b"\\\\", b'"\\', b'"\\"'),
        *(b" ", b"1", b"-", b", ", b",1", b"}", b"} ", b"{ ", b"{1 ", b",{", b'"a":"b",', b'"[', b'"[["'),
    ],
)
@pytest.mark.parametrize("start", [b"{0:1", b'{0:"', b"{{"])
def test_broken_text_costs_in_proportion_to_its_size(start: bytes, part: bytes) -> None:
    # So long that a reader that looks back would need minutes, and one that remembers each part 50 MiB.
    data = start + part * (300_000 // len(part))

    def read() -> None:
        with suppress(ProtocolError):
            check_json_limits(data, "body")
            to_standard_json(data, "body")

    assert_peak_below(24 * len(data), read)


def test_strings_without_anything_between_them_are_refused_by_their_number() -> None:
    with pytest.raises(MalformedBody, match="strings stand side by side"):
        to_standard_json(b"{0:" + b'""' * (limits.JSON_MARKS + 2), "body")


def test_a_row_of_backslashes_escapes_a_quote_only_if_it_is_odd() -> None:
    for count in range(7):
        inside = b'"' + b"\\" * count + b'"'
        is_closed = count % 2 == 0
        text = b'{"a":' + inside + (b"" if is_closed else b'{0:"') + b",1:2}"
        assert to_standard_json(text, "body") == text.replace(b",1:2}", b',"1":2}')


@pytest.mark.parametrize("levels", [1, limits.JSON_DEPTH - 1, limits.JSON_DEPTH])
def test_what_nests_within_the_limit_passes(levels: int) -> None:
    check_json_limits(nested(levels), "body")
    check_json_limits(b"[" + b",".join([nested(levels - 1)] * 30) + b"]", "body")


@pytest.mark.parametrize("levels", [limits.JSON_DEPTH + 1, limits.JSON_DEPTH + 2, 1_000, 500_000])
def test_what_nests_deeper_does_not(levels: int) -> None:
    for text in (nested(levels), b"[" * levels, b'{"x":[1],"y":' + nested(levels) + b"}"):
        with pytest.raises(LimitExceeded, match="nesting"):
            check_json_limits(text, "body")


def test_brackets_inside_strings_do_not_nest() -> None:
    check_json_limits(json.dumps({"a": "[{" * 500, '"}[' * 50: ['\\"[' * 50]}).encode(), "body")
    hidden = b'[[[["]]]]",' * 5 + b"1" + b"]" * 20
    with pytest.raises(LimitExceeded, match="nesting"):
        check_json_limits(hidden, "body")


def test_the_rewriting_itself_never_nests_deeper_than_the_limit() -> None:
    with pytest.raises(LimitExceeded, match="nesting"):
        to_standard_json(b"{0:[" * limits.JSON_DEPTH, "body")


def test_a_body_larger_than_a_frame_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="size in bytes"):
        check_json_limits(b" " * (limits.FRAME_BYTES + 1), "body")


@pytest.mark.parametrize("part", [b"{}", b"[", b",", b"0:", b"]"])
def test_a_body_of_too_many_parts_is_refused(part: bytes) -> None:
    with pytest.raises(LimitExceeded, match="brackets, commas and colons"):
        check_json_limits(part * (limits.JSON_MARKS + 1), "body")


def test_quotes_that_are_escaped_open_and_close_nothing() -> None:
    assert count_quotes(rb'{"a":"b\"c"}') == 4
