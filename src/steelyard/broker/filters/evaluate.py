"""Evaluation of message filters: tags as codes of the consume queue, SQL92 conditions as a function of properties.

Tags are compared by hash; two tags may share one, so consumers check again. An expression that cannot be parsed is
refused with position and reason: a pull that got every message instead would deliver what its client filtered out.
Expressions repeat with every pull, so compiled ones are cached: many short ones, and a few long ones, since clients
choose them and the memory is ours.

SQL92 has three-valued logic: a missing property is null, a comparison with null is null, and only true matches.
Properties are strings, equal as strings; compared with a number, or ordered, they are parsed as numbers (java_numbers);
equal to TRUE is "true" in any case. A property alone is never true. Where Java throws, for a string that is no number,
say, the message does not match, whatever the rest of the condition is; the parts are evaluated in order and only until
they are decided, as there.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from operator import ge, gt, le, lt
from typing import TypeAlias

from msgspec import Struct

from steelyard.broker.filters.java_numbers import compare_numbers, not_comparable, parse_fraction, parse_whole
from steelyard.broker.filters.parser import (
    And,
    Between,
    BooleanLiteral,
    Comparison,
    InList,
    IsNull,
    Negation,
    Node,
    Not,
    NumberLiteral,
    Operator,
    Or,
    PropertyRef,
    StringMatch,
    StringMatchKind,
    TextLiteral,
    parse_condition,
)
from steelyard.errors import ConfigurationError, SubscriptionUnreadable
from steelyard.model import java_hash
from steelyard.wire.properties import decode_properties, find_property

__all__ = ["MAX_EXPRESSION_LENGTH", "MessageFilter", "compile_condition", "compile_filter", "property_names"]


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
    match node:
        case PropertyRef(name):
            yield name
        case And(parts) | Or(parts):
            yield from chain.from_iterable(map(_iter_names, parts))
        case Comparison(_, left, right):
            yield from chain(_iter_names(left), _iter_names(right))
        case Between(operand, low, high):
            yield from chain(_iter_names(operand), _iter_names(low), _iter_names(high))
        case Negation(operand) | Not(operand) | IsNull(operand) | InList(operand) | StringMatch(_, operand):
            yield from _iter_names(operand)


def _condition_cost(node: Node) -> int:
    """Return how many values a condition reads at most for one message.

    >>> _condition_cost(And((IsNull(PropertyRef("b")), Comparison("=", PropertyRef("a"), NumberLiteral(1)))))
    3
    """
    match node:
        case And(parts) | Or(parts):
            return sum(map(_condition_cost, parts))
        case Comparison(_, left, right):
            return _condition_cost(left) + _condition_cost(right)
        case Between(operand, low, high):
            return 2 * _condition_cost(operand) + _condition_cost(low) + _condition_cost(high)
        case Negation(operand) | Not(operand) | IsNull(operand) | StringMatch(_, operand):
            return _condition_cost(operand)
    return 1


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
            return _any_of(parts) if negated else _all_of(parts)
        case And(operands):
            return _all_of([_compile_truth(operand) for operand in operands])
        case Or(operands):
            return _any_of([_compile_truth(operand) for operand in operands])
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


def _all_of(parts: list[_Predicate]) -> _Predicate:
    def evaluate(properties: _Properties) -> _Ternary:
        known = True
        for part in parts:
            truth = part(properties)
            if truth is False:
                return False
            known = known and truth is not None
        return True if known else None

    return evaluate


def _any_of(parts: list[_Predicate]) -> _Predicate:
    def evaluate(properties: _Properties) -> _Ternary:
        known = True
        for part in parts:
            truth = part(properties)
            if truth is True:
                return True
            known = known and truth is not None
        return False if known else None

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
            return holds(compare_numbers(parse_fraction(one), parse_fraction(other)), 0)
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
            raise not_comparable("a boolean is compared with a string: write the string first")
        return left - right if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return (left.lower() == "true") - right if isinstance(left, str) else -1
    if isinstance(left, str):
        return (
            (left > right) - (left < right)
            if isinstance(right, str)
            else compare_numbers(_parse_like(left, right), right)
        )
    return compare_numbers(left, _parse_like(right, left) if isinstance(right, str) else right)


def _parse_like(text: str, other: float) -> float:
    return parse_whole(text, like=other) if isinstance(other, int) else parse_fraction(text)


MAX_EXPRESSION_LENGTH = 32 * 1024
"""The longest expression, in characters; people write less, and a generator can use several groups."""

_CODE = 23
_TAG_KINDS = ("", "TAG")
_SQL = "SQL92"
_MATCH_ALL = ("", "*")
# The characters that Java's trim removes.
_BLANKS = "".join(map(chr, range(0x21)))

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
    if kind is None or kind in _TAG_KINDS:
        if expression is None or expression in _MATCH_ALL:
            return _ALL_MESSAGES
        return _compile_cached(_compile_tags, expression)
    if kind != _SQL:
        raise _invalid_expression(f"unknown filter kind {kind[:_SHORT_LENGTH]!r}: TAG and SQL92 are known")
    return _compile_cached(_compile_sql, expression or "")


def _compile_cached(compiler: Callable[[str], MessageFilter], expression: str) -> MessageFilter:
    return (_compile_short if len(expression) <= _SHORT_LENGTH else _compile_long)(compiler, expression)


def _compile(compiler: Callable[[str], MessageFilter], expression: str) -> MessageFilter:
    return compiler(expression)


_compile_short = lru_cache(maxsize=_CACHED_SHORT)(_compile)
_compile_long = lru_cache(maxsize=_CACHED_LONG)(_compile)


def _compile_tags(expression: str) -> MessageFilter:
    parts = expression.split("||")
    if not any(parts):
        raise _invalid_expression(f"the tag expression {expression[:_SHORT_LENGTH]!r} names no tag")
    # Blanks alone are no tag and no error to Java: no message matches.
    return MessageFilter(frozenset(java_hash(tag) for part in parts if (tag := part.strip(_BLANKS))), None)


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
    return SubscriptionUnreadable(remark, code=_CODE)


_ALL_MESSAGES = MessageFilter(None, None)
