"""Conditions for tests: trees that the parser can make, how to write them, and messages that are near to matching."""

from hypothesis import strategies as st

from steelyard.broker.filters import (
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
)

NAMES = ("a", "b", "TAGS", "$x_1")

# Near each other, so that things are sometimes equal; and whatever has an edge in Java's numbers.
_TEXTS = ("", "a", "ab", "b", "it's", "true", "TRUE", "1", "3", "é€😀")
VALUES = (
    *_TEXTS[1:],
    *(
        "0",
        "-1",
        "+3",
        "03",
        "2.5",
        " 3 ",
        "3.",
        ".5",
        "3e0",
        "3d",
        "1_0",
        "\u0663",
        "\U0001d7d1",
        "0x3p0",
        "0x.8P1",
        "0x1p9999",
    ),
    *("NaN", "-NaN", "Infinity", "-Infinity", "inf", "nan", "-0.0", "0.0", "-", "+", ".", "1e400", "-1e400", "1e-400"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "9007199254740993", "9007199254740992", "00000000000000000000000000000003", "false"),
)
_NUMBERS = (0, 1, 3, 10, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 0.5, 2.5, 3.0, 1e300, 5e-324, 2.0**53, 2.0**31)

messages = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text("0123456789.+-eE", min_size=1))
"""Properties of a message."""

_ORDERS: tuple[Operator, ...] = (">", ">=", "<", "<=")
_EQUALITIES: tuple[Operator, ...] = ("=", "<>")
_SEARCHES: tuple[StringMatchKind, ...] = ("CONTAINS", "STARTSWITH", "ENDSWITH")

_properties = st.builds(PropertyRef, st.sampled_from(NAMES))
_numbers = st.builds(NumberLiteral, st.sampled_from(_NUMBERS))
_texts = st.sampled_from(_TEXTS)
_plain = _numbers | _properties


def _negatives(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(Negation, operands)


_ordered: st.SearchStrategy[Node] = _plain | _negatives(_plain) | _negatives(_negatives(_plain))
"""What may be ordered."""

values: st.SearchStrategy[Node] = _ordered | st.builds(TextLiteral, _texts)
"""What is compared."""

_leaves: st.SearchStrategy[Node] = (
    st.builds(BooleanLiteral, st.sampled_from((True, False, None)))
    | _properties
    | st.builds(Comparison, st.sampled_from(_ORDERS), _ordered, _ordered)
    | st.builds(Comparison, st.sampled_from(_EQUALITIES), values, values)
    | st.builds(InList, _properties, st.lists(_texts, min_size=1, max_size=6).map(tuple), st.booleans())
    | st.builds(StringMatch, st.sampled_from(_SEARCHES), values, _texts, st.booleans())
    | st.builds(Between, _ordered, _ordered, _ordered, st.booleans())
)


def _larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    # Conditions may be compared too, and a minus sign makes null of one; few people write such things.
    odd = inner | values | _negatives(inner)
    return (
        st.builds(And, several)
        | st.builds(Or, several)
        | st.builds(Not, inner)
        | st.builds(IsNull, odd, st.booleans())
        | st.builds(Comparison, st.sampled_from(_EQUALITIES), odd, odd)
        | st.builds(Comparison, st.sampled_from(_ORDERS), _negatives(inner), _ordered)
        | st.builds(StringMatch, st.sampled_from(_SEARCHES), odd, _texts, st.booleans())
    )


conditions: st.SearchStrategy[Node] = st.recursive(_leaves, _larger, max_leaves=12)
"""Trees of conditions; a few of them are refused, for what they compare."""


def written(node: Node) -> str:
    """Write a tree as a condition, with a parenthesis around each part that could be read otherwise."""
    match node:
        case PropertyRef() | TextLiteral() | NumberLiteral() | BooleanLiteral():
            return _leaf(node)
        case Negation(operand):
            return f"- {_part(operand)}"
        case Not(operand):
            return f"NOT {_part(operand)}"
        case Comparison(operator, left, right):
            return f"{_part(left)} {operator} {_part(right)}"
        case IsNull(operand, negated):
            return f"{_part(operand)} IS {_not(negated)}NULL"
        case InList(PropertyRef(name), texts, negated):
            return f"{name} {_not(negated)}IN ({', '.join(map(_quoted, texts))})"
        case StringMatch(search, operand, text, negated):
            return f"{_part(operand)} {_not(negated)}{search} {_quoted(text)}"
        case Between(operand, low, high, negated):
            return f"{_part(operand)} {_not(negated)}BETWEEN {_part(low)} AND {_part(high)}"
        case And(parts):
            return " AND ".join(map(_part, parts))
        case Or(parts):
            return " OR ".join(map(_part, parts))
    raise AssertionError(f"{node!r} is no node that is written")


def _leaf(node: PropertyRef | TextLiteral | NumberLiteral | BooleanLiteral) -> str:
    match node:
        case PropertyRef(name):
            return name
        case TextLiteral(value):
            return _quoted(value)
        case NumberLiteral(value):
            return repr(value)
        case BooleanLiteral(value):
            return "NULL" if value is None else str(value).upper()


def _part(node: Node) -> str:
    return (
        _leaf(node)
        if isinstance(node, PropertyRef | TextLiteral | NumberLiteral | BooleanLiteral)
        else f"({written(node)})"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""
