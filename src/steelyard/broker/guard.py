"""Names in requests are looked at before a handler is: one place for all that carry one.

The requests that come with every message look by themselves, and only when they meet a name they do not know, so that
a send pays nothing for it.
"""

from collections.abc import Callable, Mapping

from steelyard.broker.names import check_group, check_topic
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.fields import Header
from steelyard.wire.headers.table import HEADER_OF_REQUEST

__all__ = ["check_names"]

_CHECKS: Mapping[str, Callable[[str], None]] = {
    "topic": check_topic,
    "origin_topic": check_topic,
    **dict.fromkeys(
        ("group", "consumer_group", "group_name", "src_group", "dest_group", "compare_group", "producer_group"),
        check_group,
    ),
}

_LOOK_BY_THEMSELVES = frozenset(
    {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.UPDATE_CONSUMER_OFFSET,
    }
)


def _named(kind: type[Header]) -> tuple[tuple[str, Callable[[str], None]], ...]:
    return tuple((name, _CHECKS[name]) for name in kind.__struct_fields__ if name in _CHECKS)


_GUARDED = {
    int(code): (kind, _named(kind))
    for code, kind in HEADER_OF_REQUEST.items()
    if code not in _LOOK_BY_THEMSELVES and _named(kind)
}


def check_names(request: Command) -> None:
    """Refuse a request whose header has a name that cannot be one; what may be left out may be empty."""
    guarded = _GUARDED.get(request.code)
    if guarded is None:
        return
    kind, named = guarded
    header = request.header(kind)
    for name, check in named:
        value = getattr(header, name)
        if value:
            check(value)
