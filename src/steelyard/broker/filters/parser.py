"""SQL92 parser: tokens, tree and precedence climbing, with one token of lookahead and in linear time.

From loose to tight: OR; AND; ``=`` ``<>`` IS NULL; ``>`` ``>=`` ``<`` ``<=`` BETWEEN IN CONTAINS STARTSWITH ENDSWITH,
each word optionally after NOT; then the signs ``+`` ``-`` and NOT, which bind tightest: ``NOT a = 1`` compares "not a"
with 1, as in Java. Java's rules apply: only numbers and properties are ordered, only a property is IN a list, NULL is
never compared, BETWEEN wants its constants in order, 0.0 is not a number (0 is). Trees that are too deep are refused;
a chain of ANDs or ORs is one node with many parts. Tokens follow Apache's grammar: reserved words in any case, names of
ASCII letters, digits, ``_`` and ``$``, doubled quotes in strings, comments ``/* … */`` and ``-- …`` up to the end of
the line; two minus signs without an end of line behind them are two minus signs.

Stricter than Java, which stops at the first unexpected token and drops the rest: here a condition is parsed to its end
or refused, since half a condition lets through what its author filtered out. And Java reads ``012`` as the number 0.
"""

import math
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, Union, cast

from msgspec import Struct

from steelyard.broker.filters.java_numbers import compare_numbers
from steelyard.errors import SubscriptionUnreadable

__all__ = [
    "MAX_DEPTH",
    "And",
    "Between",
    "BooleanLiteral",
    "Comparison",
    "InList",
    "IsNull",
    "Negation",
    "Node",
    "Not",
    "NumberLiteral",
    "Operator",
    "Or",
    "PropertyRef",
    "StringMatch",
    "StringMatchKind",
    "TextLiteral",
    "parse_condition",
    "tokenize",
]


MAX_DEPTH = 100
"""How deep a condition may nest: parsing and evaluation recurse, and a client must not overflow the stack."""

Operator: TypeAlias = Literal["=", "<>", ">", ">=", "<", "<="]
StringMatchKind: TypeAlias = Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]
Node: TypeAlias = Union[
    "PropertyRef",
    "TextLiteral",
    "NumberLiteral",
    "BooleanLiteral",
    "Negation",
    "Not",
    "Comparison",
    "IsNull",
    "InList",
    "StringMatch",
    "Between",
    "And",
    "Or",
]


class PropertyRef(Struct, frozen=True):
    """The value of a property: a string, or null if the message does not have it."""

    name: str


class TextLiteral(Struct, frozen=True):
    """A string in quotes."""

    value: str


class NumberLiteral(Struct, frozen=True):
    """A number as written, so never negative: an int, or a float if it was written with a fraction."""

    value: float


class BooleanLiteral(Struct, frozen=True):
    """TRUE, FALSE or NULL."""

    value: bool | None


class Negation(Struct, frozen=True):
    """A minus sign and its operand; null for anything but a number."""

    operand: "Node"


class Not(Struct, frozen=True):
    """The negation of a condition; null for null."""

    operand: "Node"


class Comparison(Struct, frozen=True):
    """Two values and an operator."""

    operator: Operator
    left: "Node"
    right: "Node"


class IsNull(Struct, frozen=True):
    """IS NULL, or IS NOT NULL."""

    operand: "Node"
    negated: bool = False


class InList(Struct, frozen=True):
    """IN, or NOT IN, a list of strings."""

    operand: PropertyRef
    texts: tuple[str, ...]
    negated: bool = False


class StringMatch(Struct, frozen=True):
    """CONTAINS, STARTSWITH or ENDSWITH a string, or NOT."""

    search: StringMatchKind
    operand: "Node"
    text: str
    negated: bool = False


class Between(Struct, frozen=True):
    """BETWEEN two values, both included, or NOT BETWEEN."""

    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool = False


class And(Struct, frozen=True):
    """A chain of ANDs."""

    parts: tuple["Node", ...]


class Or(Struct, frozen=True):
    """A chain of ORs."""

    parts: tuple["Node", ...]


_RESERVED_WORDS = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split(),
)
"""Words that cannot be property names."""

# What follows a run of characters is never one of them, so each pattern reads a run a few times at most.
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_FRACTION = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_WHOLE = re.compile(r"0|[1-9][0-9]*[lL]?")
_SIGN = re.compile(r"<>|>=|<=|[=<>(),+-]")
_LINE_END = re.compile(r"[\n\r]")

_NEXT_STEP = "conditions look like: amount > 10 AND region IN ('eu', 'us')"
_MAX_QUOTE_LENGTH = 40


class _Token(Struct, frozen=True, gc=False):
    """One token. A reserved word or a sign is its own kind; else it is a name, whole, fraction or text, or the end.

    ``at`` is the index of its first character. The value of a text has no quotes.
    """

    kind: str
    value: str
    at: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        if self.kind == "text":
            return "a text"
        return _shorten(self.value)


def tokenize(text: str) -> Iterator[_Token]:
    """Yield the tokens of a condition, and ``end`` for ever after the last one.

    >>> from itertools import islice
    >>> [(token.kind, token.value) for token in islice(tokenize("price <= 2.50 and 'it''s'"), 6)]
    [('name', 'price'), ('<=', '<='), ('fraction', '2.50'), ('AND', 'and'), ('text', "it's"), ('end', '')]
    """
    at, last_line_end = 0, max(text.rfind("\n"), text.rfind("\r"))
    while at < len(text):
        if blanks := _BLANKS.match(text, at):
            at = blanks.end()
        elif text.startswith("/*", at):
            at = _find_close(text, "*/", start=at + 2, opened=at) + 2
        elif text.startswith("--", at) and (line_end := _LINE_END.search(text, at) if at < last_line_end else None):
            at = line_end.end()
        elif text[at] == "'":
            end = _text_end(text, at)
            yield _Token("text", text[at + 1 : end].replace("''", "'"), at)
            at = end + 1
        else:
            token = _plain_token(text, at)
            yield token
            at += len(token.value)
    while True:
        yield _Token("end", "", len(text))


def _syntax_error(reason: str, at: int) -> SubscriptionUnreadable:
    """Make the error for an invalid condition; characters count from 1.

    >>> _syntax_error("a quote is never closed", 4).remark
    'SQL92 condition, character 5: a quote is never closed'
    """
    remark = f"SQL92 condition, character {at + 1}: {reason}"
    return SubscriptionUnreadable(remark, code=23, next_step=_NEXT_STEP)


def _shorten(value: str) -> str:
    """Shorten a part of a condition for an error."""
    return value if len(value) <= _MAX_QUOTE_LENGTH else f"{value[:_MAX_QUOTE_LENGTH]}…"


def _plain_token(text: str, at: int) -> _Token:
    if name := _NAME.match(text, at):
        value = name[0]
        upper = value.upper()
        return _Token(upper if upper in _RESERVED_WORDS else "name", value, at)
    if fraction := _FRACTION.match(text, at):
        return _Token("fraction", fraction[0], at)
    if whole := _WHOLE.match(text, at):
        if whole[0] == "0" and text[whole.end() : whole.end() + 1].isdecimal():
            raise _syntax_error("a whole number of several digits does not begin with 0", at)
        return _Token("whole", whole[0], at)
    if sign := _SIGN.match(text, at):
        return _Token(sign[0], sign[0], at)
    raise _syntax_error(f"{text[at]!r} means nothing here", at)


def _text_end(text: str, at: int) -> int:
    end = _find_close(text, "'", start=at + 1, opened=at)
    while text.startswith("''", end):
        end = _find_close(text, "'", start=end + 2, opened=at)
    return end


def _find_close(text: str, delimiter: str, *, start: int, opened: int) -> int:
    end = text.find(delimiter, start)
    if end < 0:
        raise _syntax_error(f"what opens here is never closed by {delimiter}", opened)
    return end


_OR, _AND, _EQUALITY, _ORDER, _TIGHTEST = range(5)
_PRECEDENCE = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys((">", ">=", "<", "<=", "NOT", "BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH"), _ORDER),
}
_BOOLEANS = {"TRUE": True, "FALSE": False, "NULL": None}
_MAX_WHOLE = (1 << 63) - 1
_MAX_WHOLE_DIGITS = 19


def parse_condition(text: str) -> Node:
    """Return the tree of a condition; raise SubscriptionUnreadable, with position and reason, if it is invalid.

    >>> parse_condition("amount > 10")
    Comparison(operator='>', left=PropertyRef(name='amount'), right=NumberLiteral(value=10))
    """
    return _Parser(text).parse()


class _ParsedNode(NamedTuple):
    """A parsed part: its tree, how deep that is, and where it begins."""

    node: Node
    height: int
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, tokenize(text)
        self._next: _Token = next(self._tokens)
        self._nested = 0

    def parse(self) -> Node:
        part = _require_condition(self._parse_operators(_OR))
        rest = self._next
        # A comment at the very end lacks the end of its line, so it came as two minus signs.
        if rest.kind != "end" and not self._text.startswith("--", rest.at):
            raise _syntax_error(f"{rest} comes after the end of the condition", rest.at)
        return part.node

    def _parse_operators(self, floor: int) -> _ParsedNode:
        """Parse an operand and all operators that bind at least as tightly as ``floor``."""
        left, ceiling = self._parse_operand(), _TIGHTEST
        while floor <= (power := _PRECEDENCE.get(self._next.kind, -1)) <= ceiling:
            ceiling = power
            if power in (_OR, _AND):
                left = self._parse_chain(left, self._next.kind, power)
            elif power == _EQUALITY:
                left = self._parse_equality(left)
            else:
                left = self._parse_order(left)
        return left

    def _parse_chain(self, first: _ParsedNode, token: str, power: int) -> _ParsedNode:
        parts = [_require_condition(first)]
        while self._next.kind == token:
            self._advance()
            parts.append(_require_condition(self._parse_operators(power + 1)))
        nodes = tuple(part.node for part in parts)
        return _combine(And(nodes) if power == _AND else Or(nodes), *parts)

    def _parse_equality(self, left: _ParsedNode) -> _ParsedNode:
        token = self._advance()
        if token.kind == "IS":
            negated = self._accept("NOT")
            self._expect("NULL")
            return _combine(IsNull(left.node, negated), left)
        right = self._parse_operators(_ORDER)
        for part in (left, right):
            if part.node == BooleanLiteral(None):
                raise _syntax_error("NULL is never equal: write IS NULL", part.at)
        if isinstance(left.node, BooleanLiteral) and isinstance(right.node, TextLiteral | NumberLiteral):
            raise _syntax_error("a truth and a constant that is none are never equal", left.at)
        return _combine(Comparison(cast("Operator", token.kind), left.node, right.node), left, right)

    def _parse_order(self, left: _ParsedNode) -> _ParsedNode:
        negated = self._accept("NOT")
        token = self._advance()
        match token.kind:
            case "CONTAINS" | "STARTSWITH" | "ENDSWITH":
                text = self._expect("text").value
                return _combine(StringMatch(token.kind, left.node, text, negated), left)
            case "BETWEEN":
                return self._parse_between(left, negated)
            case "IN":
                return self._parse_in(left, negated)
        if negated:
            raise _syntax_error(f"{token} cannot follow NOT here", token.at)
        right = self._parse_operand()
        _check_ordered(left, right)
        return _combine(Comparison(cast("Operator", token.kind), left.node, right.node), left, right)

    def _parse_between(self, value: _ParsedNode, negated: bool) -> _ParsedNode:
        low = self._parse_operand()
        self._expect("AND")
        high = self._parse_operand()
        _check_ordered(value, low, high)
        if not negated and isinstance(low.node, NumberLiteral) and isinstance(high.node, NumberLiteral):
            lowest, highest = low.node.value, high.node.value
            if compare_numbers(lowest, highest) > 0:
                raise _syntax_error(f"nothing is between {lowest} and {highest}: write the lower one first", low.at)
        return _combine(Between(value.node, low.node, high.node, negated), value, low, high)

    def _parse_in(self, left: _ParsedNode, negated: bool) -> _ParsedNode:
        self._expect("(")
        texts = [self._expect("text").value]
        while self._accept(","):
            texts.append(self._expect("text").value)
        self._expect(")")
        if not isinstance(left.node, PropertyRef):
            raise _syntax_error("only a property can be IN a list", left.at)
        return _combine(InList(left.node, tuple(texts), negated), left)

    def _parse_operand(self) -> _ParsedNode:
        """Parse an operand with the signs before it."""
        token = self._advance()
        if token.kind not in ("+", "-", "NOT", "("):
            return _ParsedNode(_parse_leaf(token), 1, token.at)
        self._nested += 1
        if self._nested > MAX_DEPTH:
            raise _too_deep(token.at)
        if token.kind == "(":
            inner = self._parse_operators(_OR)
            self._expect(")")
        else:
            inner = self._parse_operand()
        self._nested -= 1
        if token.kind in ("+", "("):
            return inner
        node = Negation(inner.node) if token.kind == "-" else Not(_require_condition(inner).node)
        return _combine(node, inner)._replace(at=token.at)

    def _advance(self) -> _Token:
        token, self._next = self._next, next(self._tokens)
        return token

    def _accept(self, kind: str) -> bool:
        return self._next.kind == kind and self._advance().kind == kind

    def _expect(self, kind: str) -> _Token:
        token = self._advance()
        if token.kind != kind:
            expected = "a text in single quotes" if kind == "text" else kind
            raise _syntax_error(f"{expected} is expected, not {token}", token.at)
        return token


def _parse_leaf(token: _Token) -> Node:
    match token.kind:
        case "name":
            return PropertyRef(token.value)
        case "text":
            return TextLiteral(token.value)
        case "whole":
            return _parse_whole_literal(token)
        case "fraction":
            return _parse_fraction_literal(token)
        case "TRUE" | "FALSE" | "NULL":
            return BooleanLiteral(_BOOLEANS[token.kind])
    raise _syntax_error(f"a property, a constant or a parenthesis is expected, not {token}", token.at)


def _parse_whole_literal(token: _Token) -> NumberLiteral:
    digits = token.value.rstrip("lL")
    if len(digits) > _MAX_WHOLE_DIGITS or int(digits) > _MAX_WHOLE:
        raise _syntax_error(f"{_shorten(digits)} is more than {_MAX_WHOLE}, the largest whole number", token.at)
    return NumberLiteral(int(digits))


def _parse_fraction_literal(token: _Token) -> NumberLiteral:
    value = float(token.value)
    if math.isinf(value):
        raise _syntax_error(f"{_shorten(token.value)} is too large for a number", token.at)
    if value == 0:
        raise _syntax_error(f"{_shorten(token.value)} is too small for a fraction: write 0 if you mean zero", token.at)
    return NumberLiteral(value)


def _require_condition(part: _ParsedNode) -> _ParsedNode:
    if isinstance(part.node, TextLiteral | NumberLiteral | Negation):
        raise _syntax_error("a condition is expected, and here is a value", part.at)
    return part


def _check_ordered(*parts: _ParsedNode) -> None:
    for part in parts:
        if not isinstance(part.node, PropertyRef | NumberLiteral | Negation):
            raise _syntax_error("only numbers and properties have an order", part.at)


def _combine(node: Node, *operands: _ParsedNode) -> _ParsedNode:
    height = 1 + max(part.height for part in operands)
    if height > MAX_DEPTH:
        raise _too_deep(operands[0].at)
    return _ParsedNode(node, height, operands[0].at)


def _too_deep(at: int) -> SubscriptionUnreadable:
    return _syntax_error(f"the condition nests deeper than {MAX_DEPTH}", at)
