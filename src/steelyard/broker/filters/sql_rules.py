"""Turns the tree of a SQL92 condition into one function of a message's properties, which says whether it matches.

The logic has three values: a property that is missing is null, whatever is compared with null is null, and only what
is true matches. Properties are texts. They are equal as texts; compared with a number, or ordered, they are read as
numbers (`sql_numbers`); equal to TRUE is "true" in any case. A property alone is never true: a text is no truth.

Where Java throws, for a text that is no number, say, the message does not match, whatever the rest of the condition
would have said; the parts are judged in the order written and only until they are decided, as there.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from operator import ge, gt, le, lt
from typing import TypeAlias

from steelyard.broker.filters.sql_numbers import fraction_of, not_comparable, relation, whole_of
from steelyard.broker.filters.sql_tree import (
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
    Search,
    Searched,
    Some,
    Text,
    Truth,
)
from steelyard.errors import ConfigurationError

__all__ = ["judge_of", "names_of", "weight_of"]

_Value: TypeAlias = str | float | None
_Truth: TypeAlias = bool | None
_Properties: TypeAlias = Mapping[str, str]
_Reading: TypeAlias = Callable[[_Properties], _Value]
_Judging: TypeAlias = Callable[[_Properties], _Truth]

_HOLDS: dict[Operator, Callable[[int, int], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}

_FOUND: dict[Search, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def judge_of(node: Node) -> Callable[[_Properties], bool]:
    """Return the function that says whether properties match a condition.

    >>> matches = judge_of(Compared(">", Property("amount"), Number(10)))
    >>> matches({"amount": "11"}), matches({"amount": "9"}), matches({"amount": "many"}), matches({})
    (True, False, False, False)
    """
    judging = _truth(node)

    def matches(properties: _Properties) -> bool:
        try:
            return judging(properties) is True
        except ConfigurationError:
            return False

    return matches


def names_of(node: Node) -> tuple[str, ...]:
    """Return the names of the properties that a condition looks at, each once.

    >>> names_of(Every((IsNull(Property("b")), Among(Property("a"), ("x",)), Property("b"))))
    ('b', 'a')
    """
    return tuple(dict.fromkeys(_names(node)))


def _names(node: Node) -> Iterator[str]:
    match node:
        case Property(name):
            yield name
        case Every(parts) | Some(parts):
            yield from chain.from_iterable(map(_names, parts))
        case Compared(_, left, right):
            yield from chain(_names(left), _names(right))
        case Between(operand, low, high):
            yield from chain(_names(operand), _names(low), _names(high))
        case Negative(operand) | Not(operand) | IsNull(operand) | Among(operand) | Searched(_, operand):
            yield from _names(operand)


def weight_of(node: Node) -> int:
    """Return how many values a condition looks at, at most, to judge one message.

    >>> weight_of(Every((IsNull(Property("b")), Compared("=", Property("a"), Number(1)))))
    3
    """
    match node:
        case Every(parts) | Some(parts):
            return sum(map(weight_of, parts))
        case Compared(_, left, right):
            return weight_of(left) + weight_of(right)
        case Between(operand, low, high):
            return 2 * weight_of(operand) + weight_of(low) + weight_of(high)
        case Negative(operand) | Not(operand) | IsNull(operand) | Searched(_, operand):
            return weight_of(operand)
    return 1


def _truth(node: Node) -> _Judging:
    """Return what judges a node where a condition is wanted."""
    match node:
        case Property(name):
            return lambda properties: False if name in properties else None
        case Truth(value):
            return lambda _: value
        case Not(operand):
            return _opposite(_truth(operand))
        case Compared():
            return _compared(node)
        case IsNull(operand, negated):
            reading = _value(operand)
            return lambda properties: (reading(properties) is None) is not negated
        case Among(Property(name), texts, negated):
            return _among(name, frozenset(texts), negated)
        case Searched():
            return _searched(node)
        case Between(operand, low, high, negated):
            ends: tuple[Operator, Operator] = ("<", ">") if negated else (">=", "<=")
            parts = [_truth(Compared(end, operand, bound)) for end, bound in zip(ends, (low, high), strict=True)]
            return _some(parts) if negated else _every(parts)
        case Every(operands):
            return _every([_truth(operand) for operand in operands])
        case Some(operands):
            return _some([_truth(operand) for operand in operands])
    # The parser lets no other value stand here.
    return lambda _: None


def _value(node: Node) -> _Reading:
    """Return what reads a node where a value is wanted."""
    match node:
        case Property(name):
            return lambda properties: properties.get(name)
        case Text(value) | Number(value):
            return lambda _: value
        case Negative(operand):
            return _negative(operand)
    return _truth(node)


def _negative(operand: Node) -> _Reading:
    reading = _value(operand)

    def read(properties: _Properties) -> _Value:
        value = reading(properties)
        return None if value is None or isinstance(value, str | bool) else -value

    return read


def _opposite(judging: _Judging) -> _Judging:
    def judge(properties: _Properties) -> _Truth:
        truth = judging(properties)
        return None if truth is None else not truth

    return judge


def _every(parts: list[_Judging]) -> _Judging:
    def judge(properties: _Properties) -> _Truth:
        known = True
        for part in parts:
            truth = part(properties)
            if truth is False:
                return False
            known = known and truth is not None
        return True if known else None

    return judge


def _some(parts: list[_Judging]) -> _Judging:
    def judge(properties: _Properties) -> _Truth:
        known = True
        for part in parts:
            truth = part(properties)
            if truth is True:
                return True
            known = known and truth is not None
        return False if known else None

    return judge


def _among(name: str, texts: frozenset[str], negated: bool) -> _Judging:
    def judge(properties: _Properties) -> _Truth:
        value = properties.get(name)
        return None if value is None else (value in texts) is not negated

    return judge


def _searched(node: Searched) -> _Judging:
    reading, found, text, negated = _value(node.operand), _FOUND[node.search], node.text, node.negated

    def judge(properties: _Properties) -> _Truth:
        # The empty text is nowhere, and not absent either.
        value = reading(properties) if text else None
        return isinstance(value, str) and found(value, text) is not negated

    return judge


def _compared(node: Compared) -> _Judging:
    if node.operator == "<>":
        return _opposite(_compared(Compared("=", node.left, node.right)))
    left, right = _value(node.left), _value(node.right)
    if node.operator == "=":
        return _equal(left, right)
    holds = _HOLDS[node.operator]

    def judge(properties: _Properties) -> _Truth:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return holds(relation(fraction_of(one), fraction_of(other)), 0)
        return holds(_order(one, other), 0)

    return judge


def _equal(left: _Reading, right: _Reading) -> _Judging:
    def judge(properties: _Properties) -> _Truth:
        one, other = left(properties), right(properties)
        if one is None:
            # Java's answer is not the same both ways round.
            return True if other is None else None
        return other is not None and _order(one, other) == 0

    return judge


def _order(left: str | float, right: str | float) -> int:
    """Say how two values relate; truths and numbers are never equal."""
    if isinstance(left, bool):
        if isinstance(right, str):
            # Java converts the wrong one of the two.
            raise not_comparable("a truth is compared with a text: write the text first")
        return left - right if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return (left.lower() == "true") - right if isinstance(left, str) else -1
    if isinstance(left, str):
        return (left > right) - (left < right) if isinstance(right, str) else relation(_read_like(left, right), right)
    return relation(left, _read_like(right, left) if isinstance(right, str) else right)


def _read_like(text: str, other: float) -> float:
    return whole_of(text, like=other) if isinstance(other, int) else fraction_of(text)
