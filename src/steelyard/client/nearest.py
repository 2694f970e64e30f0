"""A name that is not there: which known one was meant, and the sentence that says so.

Left out: where the known names come from; a topic's from a name server, a group's from brokers.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from steelyard.errors import GroupNotFound, TopicNotFound

__all__ = ["missing_group", "missing_topic", "nearest", "no_broker"]

_MOST_COMPARED = 10_000
"""Comparing is slow: of more names than that only those are looked at that begin alike."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was most likely meant, or None if none is close.

    >>> nearest("ordres", ["orders", "invoices"]), nearest("Orders", ["orders"]), nearest("x", ["orders"])
    ('orders', 'orders', None)
    """
    names = {each.casefold(): each for each in known if each != name}
    wanted = name.casefold()
    if len(names) > _MOST_COMPARED:
        names = {each: real for each, real in names.items() if each[:1] == wanted[:1]}
    close = get_close_matches(wanted, list(names)[:_MOST_COMPARED], n=1)
    return names[close[0]] if close else None


def missing_topic(name: str, known: Iterable[str], *, where: str, asked: Iterable[str] = ()) -> TopicNotFound:
    """Make the error for a topic that is not there; ``where`` are the name servers, ``asked`` the brokers.

    >>> print(missing_topic("ordres", ["orders"], where="localhost:9876", asked=["broker-0", "broker-1"]))
    topic 'ordres' does not exist on localhost:9876 (asked broker-0, broker-1). Did you mean 'orders'? \
Create it with: steelyard topic create ordres
    """
    what, hint = _sentence("topic", name, known, where, asked)
    next_step = f"{hint}Create it with: steelyard topic create {name}"
    return TopicNotFound(code=17, server=where, what=what, next_step=next_step)


def no_broker(topic: str, *, where: str) -> TopicNotFound:
    """Make the error for a topic where nobody can have it: no broker has told the name servers of itself.

    >>> print(no_broker("orders", where="localhost:9876"))
    no broker is registered with localhost:9876, so topic 'orders' is nowhere; start one, such as by: steelyard up
    """
    return TopicNotFound(
        code=17,
        server=where,
        what=f"no broker is registered with {where}, so topic {topic!r} is nowhere",
        next_step="start one, such as by: steelyard up",
    )


def missing_group(name: str, known: Iterable[str], *, where: str, asked: Iterable[str] = ()) -> GroupNotFound:
    """Make the error for a group that is not there.

    >>> print(missing_group("biling", ["billing"], where="localhost:9876"))
    group 'biling' does not exist on localhost:9876. Did you mean 'billing'? \
Its first consumer makes it, or: steelyard group create biling
    """
    what, hint = _sentence("group", name, known, where, asked)
    next_step = f"{hint}Its first consumer makes it, or: steelyard group create {name}"
    return GroupNotFound(code=26, server=where, what=what, next_step=next_step)


def _sentence(noun: str, name: str, known: Iterable[str], where: str, asked: Iterable[str]) -> tuple[str, str]:
    brokers = ", ".join(asked)
    meant = nearest(name, known)
    hint = f"Did you mean {meant!r}? " if meant else ""
    return (
        f"{noun} {name!r} does not exist on {where}{f' (asked {brokers})' if brokers else ''}.",
        hint,
    )
