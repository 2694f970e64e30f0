"""Reads a SQL92 condition into its tree by climbing precedences: one look ahead, no way back, linear time.

From loose to tight: OR; AND; ``=`` ``<>`` IS NULL; ``>`` ``>=`` ``<`` ``<=`` BETWEEN IN CONTAINS STARTSWITH ENDSWITH,
each with NOT before it where that is a word; then the signs ``+`` ``-`` and NOT, which bind tightest: ``NOT a = 1``
asks whether "not a" equals 1, as it does in Java.

What may stand where is Java's rule too: only numbers and properties are ordered, only a property is IN a list, NULL is
never compared, BETWEEN wants its constants in order, 0.0 is not a number (0 is). Trees that are too deep are refused.

One thing is stricter than Java, which stops reading at the first word it has no use for and drops the rest: here a
condition is read to its end or refused. Half a condition lets through what its writer meant to keep out.
"""

import math
from typing import NamedTuple, cast

from steelyard.broker.filters.sql_numbers import relation
from steelyard.broker.filters.sql_tree import (
    MOST_DEEP,
    Among,
    Between,
    Compared,
    Every,
    IsNull,
    Negative,
    Node,
    Not,
    Number,
    Operator,
    Property,
    Searched,
    Some,
    Text,
    Truth,
)
from steelyard.broker.filters.sql_words import Word, shown, unreadable, words
from steelyard.errors import SubscriptionUnreadable

__all__ = ["parse_condition"]

_OR, _AND, _EQUALITY, _ORDER, _TIGHTEST = range(5)
_POWERS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys((">", ">=", "<", "<=", "NOT", "BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH"), _ORDER),
}
_TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}
_LARGEST_WHOLE = (1 << 63) - 1
_WHOLE_DIGITS = 19


def parse_condition(text: str) -> Node:
    """Return the tree of a condition; raise SubscriptionUnreadable, with place and reason, if it is none.

    >>> parse_condition("amount > 10")
    Compared(operator='>', left=Property(name='amount'), right=Number(value=10))
    """
    return _Parser(text).whole()


class _Part(NamedTuple):
    """What was read so far: its tree, how deep that is, and where it begins."""

    node: Node
    height: int
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._words = text, words(text)
        self._next: Word = next(self._words)
        self._nested = 0

    def whole(self) -> Node:
        part = _condition(self._climb(_OR))
        rest = self._next
        # A comment that the text ends in lacks the end of its line, so it came as two minus signs.
        if rest.kind != "end" and not self._text.startswith("--", rest.at):
            raise unreadable(f"{rest} comes after the end of the condition", rest.at)
        return part.node

    def _climb(self, floor: int) -> _Part:
        """Read an operand and all that binds to it at least as tightly as ``floor``."""
        left, ceiling = self._signed(), _TIGHTEST
        while floor <= (power := _POWERS.get(self._next.kind, -1)) <= ceiling:
            ceiling = power
            if power in (_OR, _AND):
                left = self._chain(left, self._next.kind, power)
            elif power == _EQUALITY:
                left = self._equality(left)
            else:
                left = self._order(left)
        return left

    def _chain(self, first: _Part, word: str, power: int) -> _Part:
        parts = [_condition(first)]
        while self._next.kind == word:
            self._take()
            parts.append(_condition(self._climb(power + 1)))
        nodes = tuple(part.node for part in parts)
        return _above(Every(nodes) if power == _AND else Some(nodes), *parts)

    def _equality(self, left: _Part) -> _Part:
        word = self._take()
        if word.kind == "IS":
            negated = self._took("NOT")
            self._expect("NULL")
            return _above(IsNull(left.node, negated), left)
        right = self._climb(_ORDER)
        for part in (left, right):
            if part.node == Truth(None):
                raise unreadable("NULL is never equal: write IS NULL", part.at)
        if isinstance(left.node, Truth) and isinstance(right.node, Text | Number):
            raise unreadable("a truth and a constant that is none are never equal", left.at)
        return _above(Compared(cast("Operator", word.kind), left.node, right.node), left, right)

    def _order(self, left: _Part) -> _Part:
        negated = self._took("NOT")
        word = self._take()
        match word.kind:
            case "CONTAINS" | "STARTSWITH" | "ENDSWITH":
                text = self._expect("text").value
                return _above(Searched(word.kind, left.node, text, negated), left)
            case "BETWEEN":
                return self._between(left, negated)
            case "IN":
                return self._among(left, negated)
        if negated:
            raise unreadable(f"{word} cannot follow NOT here", word.at)
        right = self._signed()
        _check_ordered(left, right)
        return _above(Compared(cast("Operator", word.kind), left.node, right.node), left, right)

    def _between(self, value: _Part, negated: bool) -> _Part:
        low = self._signed()
        self._expect("AND")
        high = self._signed()
        _check_ordered(value, low, high)
        if not negated and isinstance(low.node, Number) and isinstance(high.node, Number):
            lowest, highest = low.node.value, high.node.value
            if relation(lowest, highest) > 0:
                raise unreadable(f"nothing is between {lowest} and {highest}: write the lower one first", low.at)
        return _above(Between(value.node, low.node, high.node, negated), value, low, high)

    def _among(self, left: _Part, negated: bool) -> _Part:
        self._expect("(")
        texts = [self._expect("text").value]
        while self._took(","):
            texts.append(self._expect("text").value)
        self._expect(")")
        if not isinstance(left.node, Property):
            raise unreadable("only a property can be IN a list", left.at)
        return _above(Among(left.node, tuple(texts), negated), left)

    def _signed(self) -> _Part:
        """Read an operand with the signs before it."""
        word = self._take()
        if word.kind not in ("+", "-", "NOT", "("):
            return _Part(_leaf(word), 1, word.at)
        self._nested += 1
        if self._nested > MOST_DEEP:
            raise _too_deep(word.at)
        if word.kind == "(":
            inner = self._climb(_OR)
            self._expect(")")
        else:
            inner = self._signed()
        self._nested -= 1
        if word.kind in ("+", "("):
            return inner
        node = Negative(inner.node) if word.kind == "-" else Not(_condition(inner).node)
        return _above(node, inner)._replace(at=word.at)

    def _take(self) -> Word:
        word, self._next = self._next, next(self._words)
        return word

    def _took(self, kind: str) -> bool:
        return self._next.kind == kind and self._take().kind == kind

    def _expect(self, kind: str) -> Word:
        word = self._take()
        if word.kind != kind:
            wanted = "a text in single quotes" if kind == "text" else kind
            raise unreadable(f"{wanted} is expected, not {word}", word.at)
        return word


def _leaf(word: Word) -> Node:
    match word.kind:
        case "name":
            return Property(word.value)
        case "text":
            return Text(word.value)
        case "whole":
            return _whole(word)
        case "fraction":
            return _fraction(word)
        case "TRUE" | "FALSE" | "NULL":
            return Truth(_TRUTHS[word.kind])
    raise unreadable(f"a property, a constant or a parenthesis is expected, not {word}", word.at)


def _whole(word: Word) -> Number:
    digits = word.value.rstrip("lL")
    if len(digits) > _WHOLE_DIGITS or int(digits) > _LARGEST_WHOLE:
        raise unreadable(f"{shown(digits)} is more than {_LARGEST_WHOLE}, the largest whole number", word.at)
    return Number(int(digits))


def _fraction(word: Word) -> Number:
    value = float(word.value)
    if math.isinf(value):
        raise unreadable(f"{shown(word.value)} is too large for a number", word.at)
    if value == 0:
        raise unreadable(f"{shown(word.value)} is too small for a fraction: write 0 if you mean zero", word.at)
    return Number(value)


def _condition(part: _Part) -> _Part:
    if isinstance(part.node, Text | Number | Negative):
        raise unreadable("a condition is expected, and here is a value", part.at)
    return part


def _check_ordered(*parts: _Part) -> None:
    for part in parts:
        if not isinstance(part.node, Property | Number | Negative):
            raise unreadable("only numbers and properties have an order", part.at)


def _above(node: Node, *operands: _Part) -> _Part:
    height = 1 + max(part.height for part in operands)
    if height > MOST_DEEP:
        raise _too_deep(operands[0].at)
    return _Part(node, height, operands[0].at)


def _too_deep(at: int) -> SubscriptionUnreadable:
    return unreadable(f"the condition nests deeper than {MOST_DEEP}", at)
