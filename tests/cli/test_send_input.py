"""What is sent is what was given: a body, all of stdin, its lines, or what lines of JSON say."""

import json
import sys
from base64 import b64encode
from io import BytesIO, TextIOWrapper

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.send import LineFormat, MessageTemplate, from_bodies, from_json, from_lines, from_stdin
from steelyard.cli.shared.message_output import format_json_line
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage

ORDERS = MessageTemplate("orders")


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(data)))


def test_bodies_are_sent_one_after_the_other_and_so_many_times() -> None:
    pattern = MessageTemplate("orders", "paid", ("k1", "k2"), "customer-7", 30.0)
    first, *others = from_bodies(pattern, ["hellö", "bye"], 2)
    assert [each.message.body for each in others] == [b"bye", "hellö".encode(), b"bye"]
    assert (first.message.body, first.message.tags, first.message.keys) == ("hellö".encode(), "paid", ("k1", "k2"))
    assert (first.key, first.delay_s) == ("customer-7", 30.0)


def test_all_of_stdin_is_one_body(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\ntwo\x00\xff\n")
    assert [each.message.body for each in from_stdin(ORDERS)] == [b"one\ntwo\x00\xff\n"]


def test_lines_lose_their_end_and_empty_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\r\n\n two \nlast")
    assert [each.message.body for each in from_lines(ORDERS, None)] == [b"one", b" two ", b"last"]


def test_lines_end_with_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\ntwo\0\0three\r\n")
    assert [each.message.body for each in from_lines(ORDERS, None, LineFormat(b"\0"))] == [b"one\ntwo", b"three\r\n"]


def test_lines_begin_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"tom->a->b\nann->\n")
    first, second = from_lines(MessageTemplate("orders", keys=("all",)), None, LineFormat(key_delimiter=b"->"))
    assert (first.message.body, first.message.keys, first.key) == (b"a->b", ("all", "tom"), "tom")
    assert (second.message.body, second.key) == (b"", "ann")
    for wrong in (b"no key\n", b"->body\n"):
        feed(monkeypatch, wrong)
        with pytest.raises(ConfigurationError, match="line 1 of stdin has no key before '->'"):
            list(from_lines(ORDERS, None, LineFormat(key_delimiter=b"->")))


def test_what_never_ends_is_refused_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, bytes(5 << 20))
    with pytest.raises(ConfigurationError, match="a line of stdin has more than 4194304 bytes"):
        list(from_lines(ORDERS, None, LineFormat(b";;")))


@given(st.lists(st.binary(min_size=1, max_size=20)), st.binary(min_size=1, max_size=3))
def test_what_is_joined_is_cut_again(bodies: list[bytes], end: bytes) -> None:
    whole = [body for body in bodies if end not in body and not (body + end)[:-1].count(end)]
    joined = end.join(whole)
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, joined)
        cut = [each.message.body for each in from_lines(ORDERS, None, LineFormat(end))] if end != b"\n" else whole
    assert cut == [body for body in joined.split(end) if body] or end == b"\n"


def test_no_more_lines_are_read_than_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\ntwo\nthree\n")
    assert [each.message.body for each in from_lines(ORDERS, 2)] == [b"one", b"two"]
    assert sys.stdin.buffer.read() == b"three\n"


def test_a_line_of_json_says_what_it_wants_and_the_command_says_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(
        monkeypatch,
        b'{"body": "a", "tags": "x", "keys": "k", "key": "c", "delay_s": 2, "properties": {"region": "eu"}}\n'
        b'{"body": "/w==", "body_encoding": "base64"}\n',
    )
    first, second = from_json(MessageTemplate("orders", tags="usual", keys=("u",), delay_s=9.0), None)
    assert (first.message.tags, first.message.keys, first.key, first.delay_s) == ("x", ("k",), "c", 2.0)
    assert first.message.properties == {"region": "eu"}
    assert (second.message.body, second.message.tags, second.message.keys) == (b"\xff", "usual", ("u",))
    assert second.delay_s == 9.0


@given(st.binary(max_size=64), st.sampled_from([None, "paid"]), st.lists(st.sampled_from(["a", "ö"]), max_size=2))
def test_what_is_printed_as_json_can_be_sent_again(body: bytes, tags: str | None, keys: list[str]) -> None:
    properties = {"UNIQ_KEY": "00FF", "region": "eu", "KEYS": " ".join(keys)} | ({} if tags is None else {"TAGS": tags})
    line = format_json_line(StoredMessage(Queue("orders", "broker-0", 3), 17, body, properties, flag=5))
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, line.encode() + b"\n")
        (again,) = from_json(MessageTemplate("copies"), None)
    assert (again.message.topic, again.message.body, again.message.tags) == ("copies", body, tags)
    assert (again.message.keys, again.message.properties, again.message.flag) == (tuple(keys), {"region": "eu"}, 5)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 of stdin is no message"),
        ('{"tags": "x"}', "body"),
        ('{"body": "x", "tag": "x"}', "tag"),
        ('{"body": "x", "keys": ["a b"]}', "contains a blank"),
        ('{"body": "x", "body_encoding": "hex"}', "body_encoding is 'hex'"),
        ('{"body": "?", "body_encoding": "base64"}', "line 2"),
        (json.dumps({"body": b64encode(b"x").decode(), "flag": 1 << 40}), "flag"),
    ],
)
def test_a_line_that_is_no_message_is_named(line: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b'{"body": "fine"}\n' + line.encode() + b"\n")
    messages = from_json(ORDERS, None)
    assert next(messages).message.body == b"fine"
    with pytest.raises(ConfigurationError, match="line 2 of stdin is no message") as caught:
        next(messages)
    assert why in str(caught.value)


def test_more_than_a_message_can_hold_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"x" * (5 << 20))
    with pytest.raises(ConfigurationError, match="stdin has more than 4194304 bytes"):
        list(from_stdin(ORDERS))
    feed(monkeypatch, b"x" * (5 << 20))
    with pytest.raises(ConfigurationError, match="a line of stdin has more than 4194304 bytes"):
        list(from_lines(ORDERS, None))


def test_a_closed_stdin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigurationError, match="stdin is closed"):
        list(from_lines(ORDERS, None))
