"""Attributes of topics and groups: changed by ``+name=value`` and ``-name``, from a list of names that mean something.

Of Apache's topic attributes two values are refused here, since a broker that took them would not do what they say: a
cleanup policy of COMPACTION, and messages of MIXED type, which Apache's refuses by default, too.
"""

from collections.abc import Callable, Mapping

from steelyard.broker.refusals import refusal
from steelyard.errors import ServerError
from steelyard.wire.codes import ResponseCode

__all__ = ["GROUP_ATTRIBUTES", "TOPIC_ATTRIBUTES", "Attributes", "altered", "read_changes"]

Attributes = Mapping[str, Callable[[str], bool]]
"""By name, which values an attribute may have."""

_DIGITS = 18


def _is_time(value: str) -> bool:
    digits = value.removeprefix("-")
    return value == "-1" or (digits == value and value.isascii() and value.isdigit() and len(value) <= _DIGITS)


TOPIC_ATTRIBUTES: Attributes = {
    "queue.type": frozenset({"BatchCQ", "SimpleCQ"}).__contains__,
    "cleanup.policy": frozenset({"DELETE"}).__contains__,
    "message.type": frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"}).__contains__,
    "reserve.time": _is_time,
}
GROUP_ATTRIBUTES: Attributes = {}
"""Apache knows none either."""


def read_changes(text: str | None) -> dict[str, str]:
    """Read changes from one text; each name keeps its sign.

    >>> read_changes("+message.type=FIFO,-reserve.time")
    {'+message.type': 'FIFO', '-reserve.time': ''}
    """
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if name in changes:
            raise _wrong(f"{part[:80]!r} is said twice")
        changes[name] = value
    return changes


def altered(known: Attributes, current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes after changes, or refuse them all.

    >>> altered(TOPIC_ATTRIBUTES, {"message.type": "FIFO"}, {"+reserve.time": "5", "-message.type": ""})
    {'reserve.time': '5'}
    """
    after = dict(current or {})
    for change, value in changes.items():
        sign, name = change[:1], change[1:]
        if name not in known:
            raise _wrong(f"no attribute is called {name[:80]!r}; known: {', '.join(known) or 'none'}")
        if sign == "+" and known[name](value):
            after[name] = value
        elif sign == "-" and name in after and not value:
            del after[name]
        else:
            raise _wrong(f"{change[:80]!r} cannot be {value[:80]!r}: write +name=value, or -name of one that is there")
    return after


def _wrong(what: str) -> ServerError:
    return refusal(ResponseCode.INVALID_PARAMETER, f"attributes: {what}")
