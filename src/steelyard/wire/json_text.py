r"""Foreign JSON made standard, and the bounds that hold before any of it is decoded.

Java's fastjson writes two things that JSON does not have: numbers as keys, ``{0:"a"}``, and whole objects as keys,
``{{"queueId":0}:5}``. `standard_json` rewrites the first as ``{"0":"a"}`` and the second as an array of pairs,
``[[{"queueId":0},5]]``, the form that gson uses. An empty map stays ``{}``, whatever its keys would have been, and
standard JSON comes back as it went in.

One pass, no recursion, strings skipped whole. In no pattern here can what follows a run of bytes be one of them, so
none is tried twice over the same text, and the tokens are few because brackets, commas, colons and quotes are counted
first: broken input of any kind costs time and memory in proportion to its size. No pattern repeats a group, because
each round of that keeps a hundred bytes until the end: quotes alone, a frame of them, would take three gigabytes.

Left out: single quotes, bare names and comments, which Java reads and never writes.
"""

import re

from steelyard.errors import LimitExceeded, MalformedBody
from steelyard.wire import limits

__all__ = ["check_shape", "count_quotes", "standard_json"]

_NUMBER_AS_KEY = re.compile(rb"[{,]\s*-?\d+\s*:")
_OBJECT_AS_KEY = re.compile(rb"\{\s*\{")
# A string without escapes, and what follows it. One that is not closed runs to the end of the text, so that the search
# does not start again inside of it.
_STRING = rb'"[^"]*"?[^"{}\[\],]*'
_TOKEN = re.compile(
    _STRING + rb"(?:" + _STRING + rb")?"  # a key and its value
    rb"|(\{)(?=\s*\{)"  # 1: a map whose keys are objects
    rb"|(\}\s*:)"  # 2: the end of an object that is a key
    rb"|[{,]\s*(-?\d+)(?=\s*:)"  # 3: a number that is a key
    rb"|,(?=\s*\{)"
    rb"|[{}\[\]]"
)
_PAIRS, _KEY_END, _NUMBER = 1, 2, 3

_REWRITTEN_TOKENS = 3
"""What it costs more to rewrite a token than to pass over it."""

# Between two strings is a mark, wherever JSON is not broken.
_MOST_QUOTES = 2 * (limits.JSON_MARKS + 1)
_MARKS = (b"{", b"}", b"[", b"]", b",", b":")
_SQUARE_TO_CURLY = bytes.maketrans(b"[]", b"{}")
_NO_BRACKET_OR_QUOTE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


def check_shape(data: bytes, where: str, *, most_marks: int = limits.JSON_MARKS) -> None:
    """Refuse a text that is too large, has too many parts or nests too deep; say nothing about its meaning.

    >>> check_shape(b'{"a":[1,2]}', "body")
    >>> check_shape(b"[" * 17 + b"]" * 17, "body")
    Traceback (most recent call last):
    steelyard.errors.LimitExceeded: body: nesting exceeds 16
    """
    if len(data) > limits.FRAME_BYTES:
        raise LimitExceeded("size in bytes", where=where, limit=limits.FRAME_BYTES, found=len(data))
    if len(data) > most_marks and (marks := sum(map(data.count, _MARKS))) > most_marks:
        raise LimitExceeded("number of brackets, commas and colons", where=where, limit=most_marks, found=marks)
    if data.count(b"{") + data.count(b"[") <= limits.JSON_DEPTH:
        return
    marks_and_quotes = _without_escapes(data).translate(_SQUARE_TO_CURLY, _NO_BRACKET_OR_QUOTE)
    # Two quotes side by side may go, since what is inside of strings then stays inside; it is every second piece.
    brackets = b"".join(marks_and_quotes.replace(b'""', b"").split(b'"')[::2])
    # Each round takes the innermost pairs away, so that the rounds count the levels.
    for _ in range(limits.JSON_DEPTH):
        brackets = brackets.replace(b"{}", b"")
    # What is left in a text within the limit was never closed, or never opened: that is for the decoder to say.
    if b"{}" in brackets or brackets.count(b"{") > limits.JSON_DEPTH:
        raise LimitExceeded("nesting", where=where, limit=limits.JSON_DEPTH)


def standard_json(data: bytes, where: str, *, most_tokens: int = limits.FRAME_BYTES) -> bytes:
    """Return the text with keys as JSON has them; standard JSON is returned as it is.

    >>> standard_json(b'{"addresses":{0:"a",1:"b"}}', "body")
    b'{"addresses":{"0":"a","1":"b"}}'
    >>> standard_json(b'{"table":{{"q":0}:5,{"q":1}:7},"empty":{}}', "body")
    b'{"table":[[{"q":0},5],[{"q":1},7]],"empty":{}}'
    """
    if not _NUMBER_AS_KEY.search(data) and not _OBJECT_AS_KEY.search(data):
        return data
    text = _without_escapes(data)
    if text.count(b'"') > _MOST_QUOTES:
        raise MalformedBody("strings stand side by side, and nothing is between them", where=where)
    out, done = bytearray(), 0
    closers = bytearray()  # what closes each open bracket; ":" stands for a map whose keys are objects
    left = most_tokens
    for token in _TOKEN.finditer(text):
        start, found = token.start(), token.lastindex
        left -= 1
        if left < 0:
            raise LimitExceeded("number of strings, brackets and keys", where=where, limit=most_tokens, at=start)
        head = text[start : start + 1]
        if head == b'"':
            continue
        instead = head
        if head in b"}]":
            instead = _end(closers, head, is_key=found == _KEY_END, where=where, at=start)
        elif head == b",":
            instead = b"],[" if closers.endswith(b":") else head
        elif len(closers) == limits.JSON_DEPTH:
            raise LimitExceeded("nesting", where=where, limit=limits.JSON_DEPTH, at=start)
        else:
            closers += b":" if found == _PAIRS else b"}" if head == b"{" else b"]"
            instead = b"[[" if found == _PAIRS else head
        if found == _NUMBER:
            instead += b'"%b"' % token[_NUMBER]
        if instead != token[0]:
            out += memoryview(data)[done:start]
            out += instead
            done = token.end()
            left -= _REWRITTEN_TOKENS
    if not done:
        return data
    out += memoryview(data)[done:]
    return bytes(out)


def count_quotes(data: bytes) -> int:
    r"""Count the quotes that open or close a string.

    >>> count_quotes(rb'{"a":"b\"c"}')
    4
    """
    return _without_escapes(data).count(b'"')


def _without_escapes(data: bytes) -> bytes:
    """Return a text of the same length in which every quote opens or closes a string."""
    # Left to right: of a row of backslashes the last is left over if it escapes what follows.
    return data.replace(b"\\\\", b"..").replace(b'\\"', b"..")


def _end(closers: bytearray, head: bytes, *, is_key: bool, where: str, at: int) -> bytes:
    """Take the innermost open bracket away, and return what closes it in standard JSON."""
    closer = closers[-1:]
    if closer != head and not (closer == b":" and head == b"}"):
        raise MalformedBody(f"{head.decode()!r} closes nothing that is open", where=where, at=at)
    del closers[-1]
    end = b"]]" if closer == b":" else head
    if not is_key:
        return end
    if not closers.endswith(b":"):
        raise MalformedBody("an object is a key in a map whose first key was none", where=where, at=at)
    return end + b","
