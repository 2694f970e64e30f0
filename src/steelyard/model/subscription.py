"""What a group wants of a topic: everything, some tags, or a SQL92 condition.

The broker compares tag hashes only, so two tags with one hash pass it; whoever hands a message to a handler checks the
tag itself with `Subscription.takes`.
"""

from dataclasses import dataclass, field
from enum import Enum

from steelyard.errors import ConfigurationError
from steelyard.model.java_text import java_hash

__all__ = ["FilterKind", "Subscription", "plain_tags"]

_EVERYTHING = "*"

# What Java trims. Python's own idea of blanks is wider: U+00A0 is part of a tag to every other member.
_BLANKS = "".join(map(chr, range(0x21)))


class FilterKind(Enum):
    """The two languages a subscription's expression can be written in, by their names on the wire."""

    TAG = "TAG"
    SQL92 = "SQL92"


def plain_tags(expression: str) -> str:
    """Return a tag expression in the one way to write it: two that take the same messages become equal.

    >>> plain_tags("sent||paid || sent"), plain_tags(" ")
    ('paid || sent', '*')
    """
    tags = {tag for part in expression.split("||") if (tag := part.strip(_BLANKS))}
    return " || ".join(sorted(tags)) or _EVERYTHING


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and an expression over it. ``version`` grows with each change, in milliseconds.

    >>> wanted = Subscription("orders", "paid || refunded")
    >>> wanted.tags, wanted.takes("paid"), wanted.takes("lost"), wanted.takes(None)
    (('paid', 'refunded'), True, False, False)
    >>> Subscription("orders", " ").expression, Subscription("orders").takes(None)
    ('*', True)
    """

    topic: str
    expression: str = _EVERYTHING
    kind: FilterKind = FilterKind.TAG
    version: int = 0
    tags: tuple[str, ...] = field(init=False, default=())
    """The tags of a tag expression in the order written, without repeats; empty means all."""

    def __post_init__(self) -> None:
        if not self.topic or not isinstance(self.topic, str):
            raise ConfigurationError("a subscription names no topic", next_step="give the topic's name")
        if not isinstance(self.expression, str) or not isinstance(self.kind, FilterKind):
            raise ConfigurationError(
                f"the subscription to {self.topic!r} has the expression {self.expression!r} of kind {self.kind!r}",
                next_step="give a text and a FilterKind",
            )
        expression = self.expression.strip(_BLANKS)
        if self.kind is FilterKind.SQL92:
            if not expression:
                raise ConfigurationError(
                    f"the SQL92 condition on topic {self.topic!r} is empty",
                    next_step="write one, such as: amount > 10",
                )
            return
        if expression in ("", _EVERYTHING):
            object.__setattr__(self, "expression", _EVERYTHING)
            return
        tags = tuple(dict.fromkeys(tag for part in expression.split("||") if (tag := part.strip(_BLANKS))))
        if not tags:
            raise ConfigurationError(
                f"the tag expression {self.expression!r} on topic {self.topic!r} names no tag",
                next_step="write tags as: paid || refunded, or * for all",
            )
        object.__setattr__(self, "tags", tags)

    @property
    def hashes(self) -> tuple[int, ...]:
        """Java's hash of each tag: what a broker compares with its index."""
        return tuple(map(java_hash, self.tags))

    def takes(self, tag: str | None) -> bool:
        """Say whether a message with this tag is wanted. A SQL92 condition was decided by the broker: always."""
        return not self.tags or tag in self.tags
