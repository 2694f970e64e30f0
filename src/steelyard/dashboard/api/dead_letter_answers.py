"""What the page `dead letters` is answered: rows of a list, one dead letter whole, and what is sent again."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from steelyard.client.admin.dead_letters import topic_of
from steelyard.client.names import Names
from steelyard.dashboard.message.bodies import Body, Row, row_of
from steelyard.model import StoredMessage

__all__ = [
    "DeadAnswer",
    "DeadListAnswer",
    "DeadRow",
    "End",
    "GroupRow",
    "GroupsAnswer",
    "Origin",
    "ResendAnswer",
    "ResendWish",
    "dead_row",
]


_Whole = Annotated[int, Meta(ge=0)]


class GroupRow(Struct, frozen=True):
    """A group that gave messages up."""

    group: str
    messages: int
    last_at: datetime | None


class GroupsAnswer(Struct, frozen=True):
    """All groups that gave something up."""

    groups: tuple[GroupRow, ...]
    messages: int
    command: str


class DeadRow(Struct, frozen=True):
    """A dead letter in a list."""

    id: str
    """That of its place; its producer's is the message's."""
    message: Row
    to: str | None
    """The topic that it was sent to."""
    attempts: int
    born_ms: int


class DeadListAnswer(Struct, frozen=True):
    """The newest dead letters of a group."""

    group: str
    rows: tuple[DeadRow, ...]
    total: int
    retries: int | None
    """How often the group has a message tried again before it gives it up; None where its brokers do not agree."""
    command: str


class Origin(Struct, frozen=True):
    """Where the message lies that was given up."""

    topic: str
    broker: str
    queue_id: int
    offset: int


class DeadAnswer(Struct, frozen=True):
    """One dead letter whole."""

    row: DeadRow
    body: Body
    properties: dict[str, str]
    born_host: str
    origin: Origin | None
    command: str
    notes: tuple[str, ...]


class End(Struct, frozen=True):
    """Where the dead letters of a queue begin and end."""

    broker: str
    queue_id: _Whole
    start: _Whole
    end: _Whole


class ResendWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters to send again: some by the ids of their places, or all."""

    ids: list[str] = []
    all: bool = False
    ends: list[End] | None = None
    """Of all: those before these offsets, as the preview told them."""


class ResendAnswer(Struct, frozen=True):
    """What would be sent again, or was."""

    messages: int
    rows: tuple[DeadRow, ...]
    """The first of them."""
    ends: tuple[End, ...]
    notes: tuple[str, ...] = ()


def dead_row(dead: StoredMessage, names: Names) -> DeadRow:
    """Return a dead letter as a list shows it."""
    return DeadRow(
        dead.offset_id or dead.message_id,
        row_of(dead.topic, dead),
        names.bare(topic_of(dead)) or None,
        dead.reconsume_times,
        dead.born_ms,
    )
