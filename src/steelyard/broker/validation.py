"""Validation: names of topics, groups, brokers and clusters, names in request headers, and attributes.

A name becomes a folder and a key of tables, so it is checked before anything else. The allowed characters are Apache's,
which include neither a dot nor a slash: no name leaves the data directory. Names in headers are checked in one place
before the handler runs; the hot requests check for themselves, and only names that they do not know.

Attributes change by ``+name=value`` and ``-name``. Of Apache's topic attributes two values are refused, since this
broker would not honour them: the cleanup policy COMPACTION, and messages of MIXED type, which Apache refuses by
default, too.
"""

from collections.abc import Callable, Mapping

from steelyard.broker.request_errors import invalid_parameter
from steelyard.errors import ConfigurationError, InvalidParameter, NoPermission, ServerError
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX, TIMER_GROUP, TRANSACTION_GROUP
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.table import HEADER_OF_REQUEST

BROKER_GROUPS = frozenset({TRANSACTION_GROUP, TIMER_GROUP})
"""Groups whose offsets are the broker's own progress: clients may not change them."""

_NAME_CHARACTERS = frozenset("%|abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_MAX_TOPIC_LENGTH, _MAX_GROUP_LENGTH, _MAX_SYSTEM_TOPIC_LENGTH = 127, 120, 255
_MAX_SERVER_LENGTH = 120


def check_topic(name: str) -> None:
    """Refuse an invalid topic name.

    >>> check_topic("../etc")
    Traceback (most recent call last):
    steelyard.errors.InvalidParameter: ...
    """
    max_length = _MAX_SYSTEM_TOPIC_LENGTH if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else _MAX_TOPIC_LENGTH
    what = _find_problem(name, max_length)
    if what:
        raise InvalidParameter(f"the topic {_quote_name(name)} {what}", code=29, server="the broker")


def check_group(name: str) -> None:
    """Refuse an invalid group name."""
    what = _find_problem(name, _MAX_GROUP_LENGTH)
    if what:
        raise InvalidParameter(f"the group {_quote_name(name)} {what}", code=29, server="the broker")


def check_not_broker_group(name: str) -> None:
    """Refuse to change the offsets of a group that holds the broker's own progress."""
    if name in BROKER_GROUPS:
        raise NoPermission(
            f"the offsets of {name} are the broker's own and cannot be moved", code=16, server="the broker"
        )


def check_broker(name: str) -> None:
    """Refuse an invalid broker name; it is the name of a topic, too. ``room@name`` names its machine room.

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
        wrong = _find_problem(name.replace("@", "", 1), _MAX_SERVER_LENGTH)
    _raise_if_invalid("broker", name, wrong)


def check_cluster(name: str) -> None:
    """Refuse an invalid cluster name; it is the name of a topic, too."""
    _raise_if_invalid("cluster", name, _find_problem(name, _MAX_SERVER_LENGTH))


def _raise_if_invalid(what: str, name: str, wrong: str | None) -> None:
    if wrong:
        raise ConfigurationError(f"the {what}'s name {_quote_name(name)} {wrong}", next_step="give it another name")


def _find_problem(name: str, max_length: int) -> str | None:
    if not name:
        return "is empty"
    if len(name) > max_length:
        return f"has {len(name)} letters, at most {max_length} are allowed"
    if not _NAME_CHARACTERS.issuperset(name):
        return "may only have letters, digits, and the signs % | _ -"
    return None


def _quote_name(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "topic": check_topic,
    "origin_topic": check_topic,
    **dict.fromkeys(
        ("group", "consumer_group", "group_name", "src_group", "dest_group", "producer_group"),
        check_group,
    ),
}

_SELF_CHECKED = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.UPDATE_CONSUMER_OFFSET,
    }
)


def _named_fields(kind: type[Header]) -> tuple[tuple[str, Callable[[str], None]], ...]:
    return tuple((name, _CHECKS[name]) for name in kind.__struct_fields__ if name in _CHECKS)


CHECKED_HEADERS = {
    int(code): (kind, _named_fields(kind))
    for code, kind in HEADER_OF_REQUEST.items()
    if code not in _SELF_CHECKED and _named_fields(kind)
}


def check_request_names(request: Command) -> None:
    """Refuse a request of `CHECKED_HEADERS` whose header has an invalid name; optional names may be empty."""
    kind, named = CHECKED_HEADERS[request.code]
    header = request.header(kind)
    for name, check in named:
        value = getattr(header, name)
        if value:
            check(value)


AttributeRules = Mapping[str, Callable[[str], bool]]
"""By attribute name: a predicate for its values."""

_MAX_TIME_DIGITS = 18


def _is_time(value: str) -> bool:
    digits = value.removeprefix("-")
    return value == "-1" or (digits == value and value.isascii() and value.isdigit() and len(value) <= _MAX_TIME_DIGITS)


TOPIC_ATTRIBUTES: AttributeRules = {
    "queue.type": frozenset({"BatchCQ", "SimpleCQ"}).__contains__,
    "cleanup.policy": frozenset({"DELETE"}).__contains__,
    "message.type": frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"}).__contains__,
    "reserve.time": _is_time,
}
GROUP_ATTRIBUTES: AttributeRules = {}
"""Apache has none either."""


def parse_attribute_changes(text: str | None) -> dict[str, str]:
    """Parse changes from a string; each name keeps its sign.

    >>> parse_attribute_changes("+message.type=FIFO,-reserve.time")
    {'+message.type': 'FIFO', '-reserve.time': ''}
    """
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if name in changes:
            raise _attribute_error(f"{part[:80]!r} appears twice")
        changes[name] = value
    return changes


def apply_attribute_changes(
    known: AttributeRules, current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes after the changes, or refuse all of them.

    >>> apply_attribute_changes(TOPIC_ATTRIBUTES, {"message.type": "FIFO"}, {"+reserve.time": "5", "-message.type": ""})
    {'reserve.time': '5'}
    """
    after = dict(current or {})
    for change, value in changes.items():
        sign, name = change[:1], change[1:]
        if name not in known:
            raise _attribute_error(f"unknown attribute {name[:80]!r}; known: {', '.join(known) or 'none'}")
        if sign == "+" and known[name](value):
            after[name] = value
        elif sign == "-" and name in after and not value:
            del after[name]
        else:
            raise _attribute_error(
                f"{change[:80]!r} cannot be {value[:80]!r}: write +name=value, or -name of an existing one"
            )
    return after


def _attribute_error(what: str) -> ServerError:
    return invalid_parameter(f"attributes: {what}")
