r"""Compiles what a subscription says into what a pull needs: hashes to look up in an index, or a test of properties.

Tags are compared by their hashes, which stand in the queue's index; two tags may share one, so consumers look again.
A SQL92 condition needs the properties of each message. What cannot be read is refused with its place and the reason:
a pull that quietly got every message instead would hand its reader what it asked not to have.

Expressions repeat with every pull, so what was compiled is remembered: many short ones, and a few of the long ones,
since senders choose the texts and the memory is ours.
"""

from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from steelyard.broker.filters.sql_parser import parse_condition
from steelyard.broker.filters.sql_rules import judge_of, names_of, weight_of
from steelyard.errors import SubscriptionUnreadable
from steelyard.model import java_hash
from steelyard.wire.properties import find_property, parse_properties

__all__ = ["EXPRESSION_LENGTH", "Filter", "compile_filter"]

EXPRESSION_LENGTH = 32 * 1024
"""The longest expression that is read, in characters; a person writes less, and a generator can use several groups."""

_CODE = 23
_TAG_KINDS = ("", "TAG")
_SQL = "SQL92"
_EVERYTHING = ("", "*")
# What Java trims.
_BLANKS = "".join(map(chr, range(0x21)))

_SHORT = 512
_SHORT_ONES, _LONG_ONES = 1024, 16
# Up to here it is faster to look for each property by its name than to read them all.
_FEW_NAMES = 4


class Filter(Struct, frozen=True):
    """What to hand out: messages whose mark in the index is one of these, whose properties match; None is no limit."""

    marks: frozenset[int] | None
    matches: Callable[[bytes], bool] | None
    weight: int = 0
    """How many values a condition looks at in each message: that is what it costs."""


def compile_filter(kind: str | None, expression: str | None) -> Filter:
    r"""Return the filter of a subscription; raise SubscriptionUnreadable with place and reason if there is none.

    >>> compile_filter("TAG", "TagA || TagB").marks == {2598919, 2598920}, compile_filter(None, "*").marks
    (True, None)
    >>> matches = compile_filter("SQL92", "region = 'eu' AND amount > 10").matches
    >>> matches is not None and matches(b"region\x01eu\x02amount\x0112\x02")
    True
    """
    if expression is not None and len(expression) > EXPRESSION_LENGTH:
        raise _unreadable(f"the expression has {len(expression)} characters, the limit is {EXPRESSION_LENGTH}")
    if kind is None or kind in _TAG_KINDS:
        return _EVERY_MESSAGE if expression is None or expression in _EVERYTHING else _remembered(_tags, expression)
    if kind != _SQL:
        raise _unreadable(f"no filter is of the kind {kind[:_SHORT]!r}: TAG and SQL92 are known")
    return _remembered(_condition, expression or "")


def _remembered(compile_it: Callable[[str], Filter], expression: str) -> Filter:
    return (_short_one if len(expression) <= _SHORT else _long_one)(compile_it, expression)


def _compiled(compile_it: Callable[[str], Filter], expression: str) -> Filter:
    return compile_it(expression)


_short_one = lru_cache(maxsize=_SHORT_ONES)(_compiled)
_long_one = lru_cache(maxsize=_LONG_ONES)(_compiled)


def _tags(expression: str) -> Filter:
    parts = expression.split("||")
    if not any(parts):
        raise _unreadable(f"the tag expression {expression[:_SHORT]!r} names no tag")
    # Blanks alone are no tag and no mistake to Java: nothing is handed out.
    return Filter(frozenset(java_hash(tag) for part in parts if (tag := part.strip(_BLANKS))), None)


def _condition(expression: str) -> Filter:
    tree = parse_condition(expression)
    judge, names, weight = judge_of(tree), names_of(tree), weight_of(tree)
    if len(names) > _FEW_NAMES:
        return Filter(None, lambda properties: judge(parse_properties(properties)), weight)
    looked_for = tuple((name, name.encode()) for name in names)

    def matches(properties: bytes) -> bool:
        found = {}
        for name, raw_name in looked_for:
            if raw := find_property(properties, raw_name):
                found[name] = raw.decode("utf-8", "replace")
        return judge(found)

    return Filter(None, matches, weight)


def _unreadable(remark: str) -> SubscriptionUnreadable:
    return SubscriptionUnreadable(remark, code=_CODE)


_EVERY_MESSAGE = Filter(None, None)
