r"""The words of a SQL92 condition: names, numbers, texts in single quotes, reserved words and signs.

Words are made one at a time, as the parser asks for them, so that it stops at the first thing it cannot use; the time
for all of them is linear in the text. The rules are those of Apache's grammar: reserved words in any case, names of
ASCII letters, digits, ``_`` and ``$``, a quote inside a text doubled, comments ``/* … */`` and ``-- …`` up to the end
of the line. Two minus signs without an end of line behind them are two minus signs.

Left out on purpose: Java reads ``012`` as the number 0 and drops the rest; here it is refused.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from steelyard.errors import SubscriptionUnreadable

__all__ = ["RESERVED", "Word", "shown", "unreadable", "words"]

RESERVED = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split(),
)
"""Words that no property can be named by."""

# What follows a run of characters is never one of them, so each pattern reads a run a few times at the most.
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_FRACTION = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_WHOLE = re.compile(r"0|[1-9][0-9]*[lL]?")
_SIGN = re.compile(r"<>|>=|<=|[=<>(),+-]")
_LINE_END = re.compile(r"[\n\r]")

_NEXT_STEP = "conditions look like: amount > 10 AND region IN ('eu', 'us')"
_LONGEST_QUOTE = 40


class Word(Struct, frozen=True, gc=False):
    """One word. A reserved word or a sign is its own kind; else it is a name, whole, fraction or text, or the end.

    ``at`` is the index of its first character. A text's value comes without quotes.
    """

    kind: str
    value: str
    at: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        if self.kind == "text":
            return "a text"
        return shown(self.value)


def words(text: str) -> Iterator[Word]:
    """Yield the words of a condition, and ``end`` for ever after the last one.

    >>> from itertools import islice
    >>> [(word.kind, word.value) for word in islice(words("price <= 2.50 and 'it''s'"), 6)]
    [('name', 'price'), ('<=', '<='), ('fraction', '2.50'), ('AND', 'and'), ('text', "it's"), ('end', '')]
    """
    at, last_line_end = 0, max(text.rfind("\n"), text.rfind("\r"))
    while at < len(text):
        if blanks := _BLANKS.match(text, at):
            at = blanks.end()
        elif text.startswith("/*", at):
            at = _closed(text, "*/", start=at + 2, opened=at) + 2
        elif text.startswith("--", at) and (line_end := _LINE_END.search(text, at) if at < last_line_end else None):
            at = line_end.end()
        elif text[at] == "'":
            end = _text_end(text, at)
            yield Word("text", text[at + 1 : end].replace("''", "'"), at)
            at = end + 1
        else:
            word = _plain(text, at)
            yield word
            at += len(word.value)
    while True:
        yield Word("end", "", len(text))


def unreadable(reason: str, at: int) -> SubscriptionUnreadable:
    """Make the error that says why a condition cannot be read, and where; characters are counted from 1.

    >>> unreadable("a quote is never closed", 4).remark
    'SQL92 condition, character 5: a quote is never closed'
    """
    remark = f"SQL92 condition, character {at + 1}: {reason}"
    return SubscriptionUnreadable(remark, code=23, next_step=_NEXT_STEP)


def shown(value: str) -> str:
    """Quote a part of a condition, which may be long, in an error."""
    return value if len(value) <= _LONGEST_QUOTE else f"{value[:_LONGEST_QUOTE]}…"


def _plain(text: str, at: int) -> Word:
    if name := _NAME.match(text, at):
        value = name[0]
        upper = value.upper()
        return Word(upper if upper in RESERVED else "name", value, at)
    if fraction := _FRACTION.match(text, at):
        return Word("fraction", fraction[0], at)
    if whole := _WHOLE.match(text, at):
        if whole[0] == "0" and text[whole.end() : whole.end() + 1].isdecimal():
            raise unreadable("a whole number of several digits does not begin with 0", at)
        return Word("whole", whole[0], at)
    if sign := _SIGN.match(text, at):
        return Word(sign[0], sign[0], at)
    raise unreadable(f"{text[at]!r} means nothing here", at)


def _text_end(text: str, at: int) -> int:
    end = _closed(text, "'", start=at + 1, opened=at)
    while text.startswith("''", end):
        end = _closed(text, "'", start=end + 2, opened=at)
    return end


def _closed(text: str, mark: str, *, start: int, opened: int) -> int:
    end = text.find(mark, start)
    if end < 0:
        raise unreadable(f"what opens here is never closed by {mark}", opened)
    return end
