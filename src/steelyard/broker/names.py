"""Which names a broker takes: for topics, groups, brokers and clusters, and which groups are its own.

A name becomes a folder and a key of tables, so it is looked at before anything else is. The letters are Apache's, which
hold neither a dot nor a slash: no name leaves the data directory.
"""

from steelyard.errors import ConfigurationError, InvalidParameter, NoPermission
from steelyard.model.names import DEAD, RETRY, TIMER_GROUP, TRANSACTION_GROUP

__all__ = [
    "OWN_GROUPS",
    "check_broker",
    "check_cluster",
    "check_group",
    "check_topic",
    "refuse_own_group",
]

OWN_GROUPS = frozenset({TRANSACTION_GROUP, TIMER_GROUP})
"""Groups whose offsets are the broker's own progress: nobody else may move them."""

_LETTERS = frozenset("%|abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_TOPIC, _LONGEST_GROUP, _LONGEST_OWN_TOPIC = 127, 120, 255
_LONGEST_SERVER = 120


def check_topic(name: str) -> None:
    """Refuse a name that cannot be a topic's.

    >>> check_topic("../etc")
    Traceback (most recent call last):
    steelyard.errors.InvalidParameter: ...
    """
    longest = _LONGEST_OWN_TOPIC if name.startswith((RETRY, DEAD)) else _LONGEST_TOPIC
    what = _wrong(name, longest)
    if what:
        raise InvalidParameter(f"the topic {_short(name)} {what}", code=29, server="the broker")


def check_group(name: str) -> None:
    """Refuse a name that cannot be a group's."""
    what = _wrong(name, _LONGEST_GROUP)
    if what:
        raise InvalidParameter(f"the group {_short(name)} {what}", code=29, server="the broker")


def refuse_own_group(name: str) -> None:
    """Refuse to move the offsets of a group that the broker itself keeps its progress in."""
    if name in OWN_GROUPS:
        raise NoPermission(
            f"the offsets of {name} are the broker's own and cannot be moved", code=16, server="the broker"
        )


def check_broker(name: str) -> None:
    """Refuse a name that cannot be a broker's; it is the name of a topic, too. ``room@name`` tells where it stands.

    >>> check_broker("east@broker-a")
    >>> check_broker("east@")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the broker's name 'east@' has nothing before or behind its @; \
give it another name
    """
    room, at, rest = name.partition("@")
    if at and not (room and rest):
        wrong: str | None = "has nothing before or behind its @"
    else:
        wrong = _wrong(name.replace("@", "", 1), _LONGEST_SERVER)
    _refuse_own("broker", name, wrong)


def check_cluster(name: str) -> None:
    """Refuse a name that cannot be a cluster's; it is the name of a topic, too."""
    _refuse_own("cluster", name, _wrong(name, _LONGEST_SERVER))


def _refuse_own(what: str, name: str, wrong: str | None) -> None:
    if wrong:
        raise ConfigurationError(f"the {what}'s name {_short(name)} {wrong}", next_step="give it another name")


def _wrong(name: str, longest: int) -> str | None:
    if not name:
        return "is empty"
    if len(name) > longest:
        return f"has {len(name)} letters, at most {longest} are allowed"
    if not _LETTERS.issuperset(name):
        return "may only have letters, digits, and the signs % | _ -"
    return None


def _short(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
