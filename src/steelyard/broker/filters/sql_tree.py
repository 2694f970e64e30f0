"""What a SQL92 condition is made of, as the parser leaves it: small frozen nodes, no deeper than a named limit.

Two of them, a property and a negative, are values alone; the constants are values that may also stand where a condition
is wanted (``TRUE``); all else is a condition. A chain of ANDs or of ORs is one node with many parts, so that a long
condition is wide and not deep.
"""

from typing import Literal, TypeAlias, Union

from msgspec import Struct

__all__ = [
    "MOST_DEEP",
    "Among",
    "Between",
    "Compared",
    "Every",
    "IsNull",
    "Negative",
    "Node",
    "Not",
    "Number",
    "Operator",
    "Property",
    "Search",
    "Searched",
    "Some",
    "Text",
    "Truth",
]

MOST_DEEP = 100
"""How deep a condition may nest: parsing and judging both recurse, and a sender must not reach the stack's end."""

Operator: TypeAlias = Literal["=", "<>", ">", ">=", "<", "<="]
Search: TypeAlias = Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]
Node: TypeAlias = Union[
    "Property",
    "Text",
    "Number",
    "Truth",
    "Negative",
    "Not",
    "Compared",
    "IsNull",
    "Among",
    "Searched",
    "Between",
    "Every",
    "Some",
]


class Property(Struct, frozen=True):
    """The value of a property: a text, or null where the message has none by that name."""

    name: str


class Text(Struct, frozen=True):
    """A text in quotes."""

    value: str


class Number(Struct, frozen=True):
    """A number as written, so never negative: an int, or a float if it was written with a fraction."""

    value: float


class Truth(Struct, frozen=True):
    """TRUE, FALSE or NULL."""

    value: bool | None


class Negative(Struct, frozen=True):
    """A minus sign and what it stands before; of all but a number it makes null."""

    operand: "Node"


class Not(Struct, frozen=True):
    """The opposite; of null, null."""

    operand: "Node"


class Compared(Struct, frozen=True):
    """Two values and how they should relate."""

    operator: Operator
    left: "Node"
    right: "Node"


class IsNull(Struct, frozen=True):
    """IS NULL, or IS NOT NULL."""

    operand: "Node"
    negated: bool = False


class Among(Struct, frozen=True):
    """IN, or NOT IN, a list of texts."""

    operand: Property
    texts: tuple[str, ...]
    negated: bool = False


class Searched(Struct, frozen=True):
    """CONTAINS, STARTSWITH or ENDSWITH a text, or NOT so."""

    search: Search
    operand: "Node"
    text: str
    negated: bool = False


class Between(Struct, frozen=True):
    """BETWEEN two values, both included, or NOT BETWEEN them."""

    operand: "Node"
    low: "Node"
    high: "Node"
    negated: bool = False


class Every(Struct, frozen=True):
    """A chain of ANDs."""

    parts: tuple["Node", ...]


class Some(Struct, frozen=True):
    """A chain of ORs."""

    parts: tuple["Node", ...]
