"""Message filters, compiled: tags as codes of the consume queue, SQL92 conditions as a function of properties.

Tags are compared by hash; two tags may share one, so consumers check again. An expression that cannot be parsed is
refused with position and reason: a pull that got every message instead would deliver what its client filtered out.
Expressions repeat with every pull, so compiled ones are cached: many short ones, and a few long ones, since clients
choose them and the memory is ours.

The SQL92 parser climbs precedences with one token of lookahead, in linear time. From loose to tight: OR; AND; ``=``
``<>`` IS NULL; ``>`` ``>=`` ``<`` ``<=`` BETWEEN IN CONTAINS STARTSWITH ENDSWITH, each word optionally after NOT; then
the signs ``+`` ``-`` and NOT, which bind tightest: ``NOT a = 1`` compares "not a" with 1, as in Java. Java's rules
apply: only numbers and properties are ordered, only a property is IN a list, NULL is never compared, BETWEEN wants its
constants in order, 0.0 is not a number (0 is). Trees that are too deep are refused; a chain of ANDs or ORs is one node
with many parts. Tokens follow Apache's grammar: reserved words in any case, names of ASCII letters, digits, ``_`` and
``$``, doubled quotes in strings, comments ``/* … */`` and ``-- …`` up to the end of the line; two minus signs without
an end of line behind them are two minus signs. Stricter than Java, which stops at the first unexpected token and drops
the rest: here a condition is parsed to its end or refused, since half a condition lets through what its author filtered
out. And Java reads ``012`` as the number 0.

Evaluation has three-valued logic: a missing property is null, a comparison with null is null, and only true matches.
Properties are strings, equal as strings; compared with a number, or ordered, they are parsed as numbers; equal to TRUE
is "true" in any case. A property alone is never true. Compared with a whole number, a property must be one of the same
width (32 bits, or 64 if the constant needs them) and nothing but digits and a sign; compared with a fraction, whatever
``Double.valueOf`` accepts, including hexadecimal and surrounding blanks. Where Java throws, for a string that is no
number, say, the message does not match, whatever the rest of the condition is; the parts are evaluated in order and
only until they are decided, as there.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from operator import ge, gt, le, lt
from typing import Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct

from steelyard.errors import ConfigurationError, SubscriptionUnreadable
from steelyard.model import java_hash
from steelyard.wire.properties import decode_properties, find_property

_MAX_INT = (1 << 31) - 1
_MAX_LONG = (1 << 63) - 1
_MAX_LONG_DIGITS = 19
# Few enough for any width.
_SHORT_DIGITS = 9

# For whole numbers any Unicode digit of one UTF-16 unit counts, for fractions only ASCII. What follows a run of digits
# is never a digit, so a string that does not match costs no more than one that does.
_JAVA_WHOLE = re.compile(r"([+-]?)([^\D\U00010000-\U0010ffff]+)")
_JAVA_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED_VALUES = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")}
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def parse_whole(text: str, like: int) -> int:
    """Parse a whole number of the width of another one.

    >>> parse_whole("+0012", like=5), parse_whole("3000000000", like=3_000_000_000)
    (12, 3000000000)
    """
    if len(text) <= _SHORT_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    maximum = _MAX_INT if -_MAX_INT <= like <= _MAX_INT else _MAX_LONG
    found = _JAVA_WHOLE.fullmatch(text)
    if found:
        digits = found[2].lstrip("0") or "0"
        if len(digits) <= _MAX_LONG_DIGITS:
            value = -int(digits) if found[1] == "-" else int(digits)
            if -maximum - 1 <= value <= maximum:
                return value
    raise ConfigurationError("a property is not a whole number, or too large for one")


def parse_fraction(text: str) -> float:
    """Parse a number that may have a fraction, as ``Double.valueOf`` does.

    >>> parse_fraction(" 1.5e3f "), parse_fraction("-Infinity"), parse_fraction("0x1.8p1")
    (1500.0, -inf, 3.0)
    """
    text = text.strip(_JAVA_BLANKS)
    if _JAVA_DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if text in _NAMED_VALUES:
        return _NAMED_VALUES[text]
    if found := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -_NAMED_VALUES["Infinity"] if text[0] == "-" else _NAMED_VALUES["Infinity"]
    raise ConfigurationError("a property is not a number")


def _compare_numbers(left: float, right: float) -> int:
    """Compare two numbers: negative, zero or positive. If one is a fraction, both are compared as fractions.

    >>> _compare_numbers(2, 3), _compare_numbers(2**53 + 1, 2.0**53), _compare_numbers(-0.0, 0.0)
    (-1, 0, -1)
    >>> _compare_numbers(float("nan"), float("inf"))
    1
    """
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    one, other = _sort_key(float(left)), _sort_key(float(right))
    return (one > other) - (one < other)


def _sort_key(value: float) -> tuple[bool, float, bool]:
    # Java's order of doubles is total: NaN comes after all others, and -0.0 before 0.0.
    if value != value:
        return True, 0.0, False
    return False, value, str(value)[0] != "-"


MAX_DEPTH = 100
"""How deep a condition may nest: parsing and evaluation recurse, and a client must not overflow the stack."""

Operator: TypeAlias = Literal["=", "<>", ">", ">=", "<", "<="]
StringMatchKind: TypeAlias = Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]


class Node(Struct, frozen=True):
    """A node of a condition's tree."""


class PropertyRef(Node, frozen=True):
    """The value of a property: a string, or null if the message does not have it."""

    name: str


class TextLiteral(Node, frozen=True):
    """A string in quotes."""

    value: str


class NumberLiteral(Node, frozen=True):
    """A number as written, so never negative: an int, or a float if it was written with a fraction."""

    value: float


class BooleanLiteral(Node, frozen=True):
    """TRUE, FALSE or NULL."""

    value: bool | None


class Negation(Node, frozen=True):
    """A minus sign and its operand; null for anything but a number."""

    operand: Node


class Not(Node, frozen=True):
    """The negation of a condition; null for null."""

    operand: Node


class Comparison(Node, frozen=True):
    """Two values and an operator."""

    operator: Operator
    left: Node
    right: Node


class IsNull(Node, frozen=True):
    """IS NULL, or IS NOT NULL."""

    operand: Node
    negated: bool = False


class InList(Node, frozen=True):
    """IN, or NOT IN, a list of strings."""

    operand: PropertyRef
    texts: tuple[str, ...]
    negated: bool = False


class StringMatch(Node, frozen=True):
    """CONTAINS, STARTSWITH or ENDSWITH a string, or NOT."""

    search: StringMatchKind
    operand: Node
    text: str
    negated: bool = False


class Between(Node, frozen=True):
    """BETWEEN two values, both included, or NOT BETWEEN."""

    operand: Node
    low: Node
    high: Node
    negated: bool = False


class And(Node, frozen=True):
    """A chain of ANDs."""

    parts: tuple[Node, ...]


class Or(Node, frozen=True):
    """A chain of ORs."""

    parts: tuple[Node, ...]


_RESERVED_WORDS = frozenset("NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split())
"""Words that cannot be property names."""

# What follows a run of characters is never one of them, so each pattern reads a run a few times at most.
_SKIPPED_BLANKS = re.compile(r"[ \t\n\r\f]+")
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
        if blanks := _SKIPPED_BLANKS.match(text, at):
            at = blanks.end()
        elif text.startswith("/*", at):
            at = _find_close(text, "*/", start=at + 2, opened=at) + 2
        elif text.startswith("--", at) and (line_end := _LINE_END.search(text, at) if at < last_line_end else None):
            at = line_end.end()
        elif text[at] == "'":
            end = _find_close(text, "'", start=at + 1, opened=at)
            while text.startswith("''", end):
                end = _find_close(text, "'", start=end + 2, opened=at)
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
            if _compare_numbers(lowest, highest) > 0:
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
            digits = token.value.rstrip("lL")
            if len(digits) > _MAX_LONG_DIGITS or int(digits) > _MAX_LONG:
                raise _syntax_error(f"{_shorten(digits)} is more than {_MAX_LONG}, the largest whole number", token.at)
            return NumberLiteral(int(digits))
        case "fraction":
            value, what = float(token.value), _shorten(token.value)
            if math.isinf(value):
                raise _syntax_error(f"{what} is too large for a number", token.at)
            if value == 0:
                raise _syntax_error(f"{what} is too small for a fraction: write 0 if you mean zero", token.at)
            return NumberLiteral(value)
        case "TRUE" | "FALSE" | "NULL":
            return BooleanLiteral(_BOOLEANS[token.kind])
    raise _syntax_error(f"a property, a constant or a parenthesis is expected, not {token}", token.at)


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


_Value: TypeAlias = str | float | None
_Ternary: TypeAlias = bool | None
_Properties: TypeAlias = Mapping[str, str]
_ValueGetter: TypeAlias = Callable[[_Properties], _Value]
_Predicate: TypeAlias = Callable[[_Properties], _Ternary]

_ORDER_TESTS: dict[Operator, Callable[[int, int], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}

_STRING_TESTS: dict[StringMatchKind, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def compile_condition(node: Node) -> Callable[[_Properties], bool]:
    """Return a function that tells whether properties match a condition.

    >>> matches = compile_condition(Comparison(">", PropertyRef("amount"), NumberLiteral(10)))
    >>> matches({"amount": "11"}), matches({"amount": "9"}), matches({"amount": "many"}), matches({})
    (True, False, False, False)
    """
    predicate = _compile_truth(node)

    def matches(properties: _Properties) -> bool:
        try:
            return predicate(properties) is True
        except ConfigurationError:
            return False

    return matches


def property_names(node: Node) -> tuple[str, ...]:
    """Return the names of the properties that a condition uses, each once.

    >>> property_names(And((IsNull(PropertyRef("b")), InList(PropertyRef("a"), ("x",)), PropertyRef("b"))))
    ('b', 'a')
    """
    return tuple(dict.fromkeys(_iter_names(node)))


def _iter_names(node: Node) -> Iterator[str]:
    if isinstance(node, PropertyRef):
        yield node.name
    yield from chain.from_iterable(map(_iter_names, _operands(node)))


def _condition_cost(node: Node) -> int:
    """Return how many values a condition reads at most for one message.

    >>> _condition_cost(And((IsNull(PropertyRef("b")), Comparison("=", PropertyRef("a"), NumberLiteral(1)))))
    3
    """
    return sum(map(_condition_cost, _operands(node))) or 1


def _operands(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, as often as they are read."""
    match node:
        case And(parts) | Or(parts):
            return parts
        case Comparison(_, left, right):
            return left, right
        case Between(operand, low, high):
            return operand, operand, low, high
        case Negation(operand) | Not(operand) | IsNull(operand) | InList(operand) | StringMatch(_, operand):
            return (operand,)
    return ()


def _compile_truth(node: Node) -> _Predicate:
    """Return the predicate of a node that stands for a condition."""
    match node:
        case PropertyRef(name):
            return lambda properties: False if name in properties else None
        case BooleanLiteral(value):
            return lambda _: value
        case Not(operand):
            return _negate(_compile_truth(operand))
        case Comparison():
            return _comparison(node)
        case IsNull(operand, negated):
            get_value = _compile_value(operand)
            return lambda properties: (get_value(properties) is None) is not negated
        case InList(PropertyRef(name), texts, negated):
            return _in_list(name, frozenset(texts), negated)
        case StringMatch():
            return _string_match(node)
        case Between(operand, low, high, negated):
            ends: tuple[Operator, Operator] = ("<", ">") if negated else (">=", "<=")
            parts = [
                _compile_truth(Comparison(end, operand, bound)) for end, bound in zip(ends, (low, high), strict=True)
            ]
            return _decided_by(negated, parts)
        case And(operands) | Or(operands):
            return _decided_by(isinstance(node, Or), [_compile_truth(operand) for operand in operands])
    # The parser allows no other node here.
    return lambda _: None


def _compile_value(node: Node) -> _ValueGetter:
    """Return the getter of a node that stands for a value."""
    match node:
        case PropertyRef(name):
            return lambda properties: properties.get(name)
        case TextLiteral(value) | NumberLiteral(value):
            return lambda _: value
        case Negation(operand):
            return _compile_negation(operand)
    return _compile_truth(node)


def _compile_negation(operand: Node) -> _ValueGetter:
    get_value = _compile_value(operand)

    def read(properties: _Properties) -> _Value:
        value = get_value(properties)
        return None if value is None or isinstance(value, str | bool) else -value

    return read


def _negate(predicate: _Predicate) -> _Predicate:
    def evaluate(properties: _Properties) -> _Ternary:
        truth = predicate(properties)
        return None if truth is None else not truth

    return evaluate


def _decided_by(decisive: bool, parts: list[_Predicate]) -> _Predicate:
    """Return an OR of parts, which a true one decides, or an AND, which a false one decides."""

    def evaluate(properties: _Properties) -> _Ternary:
        known = True
        for part in parts:
            truth = part(properties)
            if truth is decisive:
                return decisive
            known = known and truth is not None
        return not decisive if known else None

    return evaluate


def _in_list(name: str, texts: frozenset[str], negated: bool) -> _Predicate:
    def evaluate(properties: _Properties) -> _Ternary:
        value = properties.get(name)
        return None if value is None else (value in texts) is not negated

    return evaluate


def _string_match(node: StringMatch) -> _Predicate:
    get_value, found, text, negated = _compile_value(node.operand), _STRING_TESTS[node.search], node.text, node.negated

    def evaluate(properties: _Properties) -> _Ternary:
        # The empty string is neither contained nor not contained.
        value = get_value(properties) if text else None
        return isinstance(value, str) and found(value, text) is not negated

    return evaluate


def _comparison(node: Comparison) -> _Predicate:
    if node.operator == "<>":
        return _negate(_comparison(Comparison("=", node.left, node.right)))
    left, right = _compile_value(node.left), _compile_value(node.right)
    if node.operator == "=":
        return _equality(left, right)
    holds = _ORDER_TESTS[node.operator]

    def evaluate(properties: _Properties) -> _Ternary:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return holds(_compare_numbers(parse_fraction(one), parse_fraction(other)), 0)
        return holds(_compare_values(one, other), 0)

    return evaluate


def _equality(left: _ValueGetter, right: _ValueGetter) -> _Predicate:
    def evaluate(properties: _Properties) -> _Ternary:
        one, other = left(properties), right(properties)
        if one is None:
            # Java's result is not symmetric here.
            return True if other is None else None
        return other is not None and _compare_values(one, other) == 0

    return evaluate


def _compare_values(left: str | float, right: str | float) -> int:
    """Compare two values; booleans and numbers are never equal."""
    if isinstance(left, bool):
        if isinstance(right, str):
            # Java converts the wrong one of the two.
            raise ConfigurationError("a boolean is compared with a string: write the string first")
        return left - right if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return (left.lower() == "true") - right if isinstance(left, str) else -1
    if isinstance(left, str):
        return (
            (left > right) - (left < right)
            if isinstance(right, str)
            else _compare_numbers(_parse_like(left, right), right)
        )
    return _compare_numbers(left, _parse_like(right, left) if isinstance(right, str) else right)


def _parse_like(text: str, other: float) -> float:
    return parse_whole(text, like=other) if isinstance(other, int) else parse_fraction(text)


MAX_EXPRESSION_LENGTH = 32 * 1024
"""The longest expression, in characters; people write less, and a generator can use several groups."""


_SHORT_LENGTH = 512
_CACHED_SHORT, _CACHED_LONG = 1024, 16
# Up to this many it is faster to search each property by name than to decode all.
_MAX_SEARCHED_NAMES = 4


class MessageFilter(Struct, frozen=True):
    """Messages with one of these tags codes, whose properties match; None is no restriction."""

    tags_codes: frozenset[int] | None
    matches: Callable[[bytes], bool] | None
    cost: int = 0
    """How many values a condition reads in each message."""


def compile_filter(kind: str | None, expression: str | None) -> MessageFilter:
    r"""Return the filter of a subscription; raise SubscriptionUnreadable with position and reason if it is invalid.

    >>> compile_filter("TAG", "TagA || TagB").tags_codes == {2598919, 2598920}, compile_filter(None, "*").tags_codes
    (True, None)
    >>> matches = compile_filter("SQL92", "region = 'eu' AND amount > 10").matches
    >>> matches is not None and matches(b"region\x01eu\x02amount\x0112\x02")
    True
    """
    if expression is not None and len(expression) > MAX_EXPRESSION_LENGTH:
        raise _invalid_expression(
            f"the expression has {len(expression)} characters, the limit is {MAX_EXPRESSION_LENGTH}"
        )
    is_tag, text = kind is None or kind in ("", "TAG"), expression or ""
    if is_tag and text in ("", "*"):
        return _ALL_MESSAGES
    if kind is not None and not is_tag and kind != "SQL92":
        raise _invalid_expression(f"unknown filter kind {kind[:_SHORT_LENGTH]!r}: TAG and SQL92 are known")
    return (_compile_short if len(text) <= _SHORT_LENGTH else _compile_long)(
        _compile_tags if is_tag else _compile_sql, text
    )


def _compile(compiler: Callable[[str], MessageFilter], expression: str) -> MessageFilter:
    return compiler(expression)


_compile_short = lru_cache(maxsize=_CACHED_SHORT)(_compile)
_compile_long = lru_cache(maxsize=_CACHED_LONG)(_compile)


def _compile_tags(expression: str) -> MessageFilter:
    parts = expression.split("||")
    if not any(parts):
        raise _invalid_expression(f"the tag expression {expression[:_SHORT_LENGTH]!r} names no tag")
    # Blanks alone are no tag and no error to Java: no message matches.
    return MessageFilter(frozenset(java_hash(tag) for part in parts if (tag := part.strip(_JAVA_BLANKS))), None)


def _compile_sql(expression: str) -> MessageFilter:
    tree = parse_condition(expression)
    evaluate, names, cost = compile_condition(tree), property_names(tree), _condition_cost(tree)
    if len(names) > _MAX_SEARCHED_NAMES:
        return MessageFilter(None, lambda properties: evaluate(decode_properties(properties)), cost)
    searched = tuple((name, name.encode()) for name in names)

    def matches(properties: bytes) -> bool:
        found = {}
        for name, raw_name in searched:
            if raw := find_property(properties, raw_name):
                found[name] = raw.decode("utf-8", "replace")
        return evaluate(found)

    return MessageFilter(None, matches, cost)


def _invalid_expression(remark: str) -> SubscriptionUnreadable:
    return SubscriptionUnreadable(remark, code=23)


_ALL_MESSAGES = MessageFilter(None, None)
