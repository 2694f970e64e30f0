"""Errors for a topic or group that does not exist, with the closest known name."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from steelyard.errors import GroupNotFound, TopicNotFound

_MAX_COMPARED = 10_000
"""Comparing is slow: of more names only those with the same first letter are compared."""


def closest_match(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was most likely meant, or None if none is close.

    >>> closest_match("ordres", ["orders", "invoices"]), closest_match("Orders", ["orders"])
    ('orders', 'orders')
    >>> closest_match("x", ["orders"]) is None
    True
    """
    names = {each.casefold(): each for each in known if each != name}
    wanted = name.casefold()
    if len(names) > _MAX_COMPARED:
        names = {each: real for each, real in names.items() if each[:1] == wanted[:1]}
    close = get_close_matches(wanted, list(names)[:_MAX_COMPARED], n=1)
    return names[close[0]] if close else None


def topic_not_found(name: str, known: Iterable[str], *, namesrv: str, asked: Iterable[str] = ()) -> TopicNotFound:
    """Return the error for a topic that does not exist; ``asked`` are the brokers that were asked.

    >>> print(topic_not_found("ordres", ["orders"], namesrv="localhost:9876", asked=["broker-0", "broker-1"]))
    topic 'ordres' does not exist on localhost:9876 (asked broker-0, broker-1). Did you mean 'orders'? \
Create it with: steelyard topic create ordres
    """
    what, hint = _not_found_text("topic", name, known, namesrv, asked)
    next_step = f"{hint}Create it with: steelyard topic create {name}"
    return TopicNotFound(server=namesrv, what=what, next_step=next_step)


def topic_unknown(
    name: str, known: Collection[str] | None, *, namesrv: str, asked: Iterable[str] = ()
) -> TopicNotFound:
    """Return the error for a topic that no name server knows; without any known topic no broker is registered.

    >>> print(topic_unknown("orders", [], namesrv="localhost:9876"))
    no broker is registered with localhost:9876, so topic 'orders' is nowhere; start one, such as by: steelyard up
    """
    if known is None or known:
        return topic_not_found(name, known or (), namesrv=namesrv, asked=asked)
    # Brokers always have some topics of their own.
    what = f"no broker is registered with {namesrv}, so topic {name!r} is nowhere"
    return TopicNotFound(server=namesrv, what=what, next_step="start one, such as by: steelyard up")


def group_not_found(name: str, known: Iterable[str], *, namesrv: str, asked: Iterable[str] = ()) -> GroupNotFound:
    """Return the error for a group that does not exist.

    >>> print(group_not_found("biling", ["billing"], namesrv="localhost:9876"))
    group 'biling' does not exist on localhost:9876. Did you mean 'billing'? \
Its first consumer makes it, or: steelyard group create biling
    """
    what, hint = _not_found_text("group", name, known, namesrv, asked)
    next_step = f"{hint}Its first consumer makes it, or: steelyard group create {name}"
    return GroupNotFound(server=namesrv, what=what, next_step=next_step)


def _not_found_text(noun: str, name: str, known: Iterable[str], namesrv: str, asked: Iterable[str]) -> tuple[str, str]:
    brokers = ", ".join(asked)
    meant = closest_match(name, known)
    hint = f"Did you mean {meant!r}? " if meant else ""
    return f"{noun} {name!r} does not exist on {namesrv}{f' (asked {brokers})' if brokers else ''}.", hint
