r"""Java's JSON made standard, limits that are checked before anything is decoded, and Java's number types.

Java's fastjson writes two things that JSON does not have: numbers as keys, ``{0:"a"}``, and objects as keys,
``{{"queueId":0}:5}``. `to_standard_json` rewrites the first as ``{"0":"a"}`` and the second as an array of pairs,
``[[{"queueId":0},5]]``, which is gson's form. One pass, no recursion, no pattern that is tried twice over the same text
or repeats a group: broken input costs time and memory in proportion to its size. Left out: single quotes, bare names
and comments, which Java reads and never writes.
"""

import re
from typing import Annotated

from msgspec import Meta

from steelyard.errors import LimitExceeded, MalformedBody
from steelyard.wire import limits

_NUMBER_AS_KEY = re.compile(rb"[{,]\s*-?\d+\s*:")
_OBJECT_AS_KEY = re.compile(rb"\{\s*\{")
# A string without escapes, and what follows it. An unclosed one runs to the end of the text, so that the search does
# not start again inside it.
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

_REWRITE_COST_TOKENS = 3
"""The extra cost of rewriting a token."""

# In valid JSON there is a mark between two strings.
_MAX_QUOTES = 2 * (limits.JSON_MARKS + 1)
_MARKS = (b"{", b"}", b"[", b"]", b",", b":")
_SQUARE_TO_CURLY = bytes.maketrans(b"[]", b"{}")
_NO_BRACKET_OR_QUOTE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


def check_json_limits(data: bytes, where: str, *, max_marks: int = limits.JSON_MARKS) -> None:
    """Raise LimitExceeded if a text is too large, has too many parts or is nested too deeply."""
    if len(data) > limits.FRAME_BYTES:
        raise LimitExceeded("size in bytes", where=where, limit=limits.FRAME_BYTES, found=len(data))
    if len(data) > max_marks and (marks := sum(map(data.count, _MARKS))) > max_marks:
        raise LimitExceeded("number of brackets, commas and colons", where=where, limit=max_marks, found=marks)
    if data.count(b"{") + data.count(b"[") <= limits.JSON_DEPTH:
        return
    marks_and_quotes = _mask_escapes(data).translate(_SQUARE_TO_CURLY, _NO_BRACKET_OR_QUOTE)
    # Adjacent quotes can be removed without moving anything into or out of a string. Every second piece is a string.
    brackets = b"".join(marks_and_quotes.replace(b'""', b"").split(b'"')[::2])
    # Each round removes the innermost pairs, so the rounds count the levels.
    for _ in range(limits.JSON_DEPTH):
        brackets = brackets.replace(b"{}", b"")
    # What is left within the limit was never closed or opened: the decoder reports that.
    if b"{}" in brackets or brackets.count(b"{") > limits.JSON_DEPTH:
        raise LimitExceeded("nesting", where=where, limit=limits.JSON_DEPTH)


def to_standard_json(data: bytes, where: str, *, max_tokens: int = limits.FRAME_BYTES) -> bytes:
    """Return the text with standard keys; standard JSON is returned as it is.

    >>> to_standard_json(b'{"addresses":{0:"a",1:"b"}}', "body")
    b'{"addresses":{"0":"a","1":"b"}}'
    >>> to_standard_json(b'{"table":{{"q":0}:5,{"q":1}:7},"empty":{}}', "body")
    b'{"table":[[{"q":0},5],[{"q":1},7]],"empty":{}}'
    """
    if not _NUMBER_AS_KEY.search(data) and not _OBJECT_AS_KEY.search(data):
        return data
    text = _mask_escapes(data)
    if text.count(b'"') > _MAX_QUOTES:
        raise MalformedBody("strings stand side by side, and nothing is between them", where=where)
    out, done = bytearray(), 0
    closers = bytearray()  # what closes each open bracket; ":" stands for a map whose keys are objects
    left = max_tokens
    for token in _TOKEN.finditer(text):
        start, found = token.start(), token.lastindex
        left -= 1
        if left < 0:
            raise LimitExceeded("number of strings, brackets and keys", where=where, limit=max_tokens, at=start)
        head = text[start : start + 1]
        if head == b'"':
            continue
        instead = head
        if head in b"}]":
            instead = _close_bracket(closers, head, is_key=found == _KEY_END, where=where, at=start)
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
            left -= _REWRITE_COST_TOKENS
    if not done:
        return data
    out += memoryview(data)[done:]
    return bytes(out)


def count_quotes(data: bytes) -> int:
    """Count the quotes that open or close a string."""
    return _mask_escapes(data).count(b'"')


def _mask_escapes(data: bytes) -> bytes:
    """Return a text of the same length in which every quote opens or closes a string."""
    # Left to right: of several backslashes the last one remains if it escapes what follows.
    return data.replace(b"\\\\", b"..").replace(b'\\"', b"..")


def _close_bracket(closers: bytearray, head: bytes, *, is_key: bool, where: str, at: int) -> bytes:
    """Pop the innermost open bracket, and return what closes it in standard JSON."""
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


Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""Java's int."""

Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Java's long."""

Double = Annotated[float, Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]
"""Java's double, without those that JSON cannot express."""

DECODE_ERRORS = (ValueError, RecursionError)
"""What msgspec raises for any text: ValueErrors, also for bad UTF-8 and numbers that are too long."""
