"""What `steelyard plan` is given, checked once: a JSON file, or a number of queues and of members."""

import importlib
import sys
from itertools import chain
from pathlib import Path
from typing import Any, cast

import msgspec

from steelyard.balance.allocate import Owned, Rule, Settings, read_settings
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["PlanInput", "load_rule", "member_counts", "read_input", "worked_input"]

MOST_QUEUES = 4096
MOST_MEMBERS = 62
"""For drawing: a member is shown as one letter or digit."""

_EXAMPLE = '{"group": "g", "queues": [["topic", "broker", 0]], "members": ["c1"]}'


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """The file as it is written."""

    group: str
    queues: list[Queue]
    members: list[str]
    previous: dict[str, list[Queue]] | None = None
    config: dict[str, Any] | None = None


class PlanInput(msgspec.Struct, frozen=True):
    """A group to be planned: its queues and members, who had what before, and the strategy's settings."""

    group: str
    queues: list[Queue]
    members: list[str]
    previous: Owned | None
    settings: Settings


def read_input(name: str) -> PlanInput:
    """Read a group from a JSON file, or from stdin for ``-``."""
    try:
        written = msgspec.json.decode(_read(name), type=_Written)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{name} is not a plan's input: {error}", next_step=f"it looks like {_EXAMPLE}"
        ) from error
    settings = read_settings(written.config or {})
    fixed = settings.queues or []
    lists = [
        written.queues,
        *(written.previous or {}).values(),
        *(fixed.values() if isinstance(fixed, dict) else [fixed]),
    ]
    for queue in chain.from_iterable(lists):
        if not queue.topic or not queue.broker or queue.queue_id < 0:
            raise ConfigurationError(
                f"{name} has the queue {list(queue)}", next_step='a queue is ["topic", "broker", id] with an id from 0'
            )
    return PlanInput(written.group, written.queues, written.members, written.previous, settings)


def _read(name: str) -> bytes:
    if name == "-" and sys.stdin is None:
        raise ConfigurationError("stdin is closed", next_step="give a JSON file, or write to stdin")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"the file {name!r} cannot be read ({error.strerror})", next_step="give a JSON file, or - for stdin"
        ) from error


def worked_input(queues: int, members: int) -> PlanInput:
    """Make a group of so many queues and members: one topic on two brokers in two rooms, members in turn in each."""
    if not 1 <= queues <= MOST_QUEUES:
        raise ConfigurationError(f"{queues} queues cannot be drawn", next_step=f"give 1 to {MOST_QUEUES}")
    half = (queues + 1) // 2
    east = [Queue("orders", "east@broker-a", number) for number in range(half)]
    west = [Queue("orders", "west@broker-b", number) for number in range(queues - half)]
    names = [f"c{number:02d}" if members > 9 else f"c{number}" for number in range(1, members + 1)]
    settings = Settings(
        rooms=frozenset({"east", "west"}),
        member_rooms={name: ("east", "west")[place % 2] for place, name in enumerate(names)},
        queues={name: [*west, *east][place::members] for place, name in enumerate(names)},
    )
    return PlanInput("example", [*east, *west], names, None, settings)


def member_counts(text: str) -> list[int]:
    """Read numbers of members, such as ``3``, ``1..3`` or ``2,4,8``.

    >>> member_counts("1..3"), member_counts("2,4,8")
    ([1, 2, 3], [2, 4, 8])
    """
    try:
        first, dots, last = text.partition("..")
        counts = range(int(first), int(last) + 1) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= MOST_MEMBERS for count in counts):
        raise ConfigurationError(
            f"--members {text} is not a number of members",
            next_step=f"give one such as 3, a range such as 1..3 or a list such as 2,4,8, from 1 to {MOST_MEMBERS}",
        )
    return list(counts)


def load_rule(name: str) -> Rule:
    """Import a strategy of the user's own by ``package.module:callable``; the current folder is looked in too."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        # Whatever a user's module does while it is imported, be it to end the process, is told in one line.
        raise ConfigurationError(
            f"the strategy {name} cannot be loaded ({type(error).__name__}: {error})",
            next_step="give module:callable, importable from here",
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{name} is a {type(found).__name__}", next_step="name a callable")
    return cast("Rule", found)
