"""A group's subscription to a topic: all messages, some tags, or a SQL92 expression.

The broker compares tag hashes only, and two tags may have the same hash: consumers check the tag itself with
`Subscription.matches_tag`.
"""

from dataclasses import dataclass, field
from enum import Enum

from steelyard.errors import ConfigurationError
from steelyard.model.java_strings import java_hash

_ALL_TAGS = "*"

# What Java trims. Python trims more: U+00A0 is part of a tag for every other member.
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


class ExpressionType(Enum):
    """The languages of a subscription's expression, by their names on the wire."""

    TAG = "TAG"
    SQL92 = "SQL92"


def normalize_tags(expression: str) -> str:
    """Return a tag expression in normal form: two that match the same messages become equal.

    >>> normalize_tags("sent||paid || sent"), normalize_tags(" ")
    ('paid || sent', '*')
    """
    tags = {tag for part in expression.split("||") if (tag := part.strip(_JAVA_BLANKS))}
    return " || ".join(sorted(tags)) or _ALL_TAGS


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic and an expression over it. ``version`` grows with each change, in milliseconds.

    >>> wanted = Subscription("orders", "paid || refunded")
    >>> wanted.tags, wanted.matches_tag("paid"), wanted.matches_tag("lost"), wanted.matches_tag(None)
    (('paid', 'refunded'), True, False, False)
    >>> Subscription("orders", " ").expression, Subscription("orders").matches_tag(None)
    ('*', True)
    """

    topic: str
    expression: str = _ALL_TAGS
    expression_type: ExpressionType = ExpressionType.TAG
    version: int = 0
    tags: tuple[str, ...] = field(init=False, default=())
    """The tags of a tag expression in their order, without duplicates; empty means all."""

    def __post_init__(self) -> None:
        if not self.topic or not isinstance(self.topic, str):
            raise ConfigurationError("a subscription names no topic", next_step="give the topic's name")
        if not isinstance(self.expression, str) or not isinstance(self.expression_type, ExpressionType):
            raise ConfigurationError(
                f"the subscription to {self.topic!r} is {self.expression!r} of type {self.expression_type!r}",
                next_step="give a text and an ExpressionType",
            )
        expression = self.expression.strip(_JAVA_BLANKS)
        if self.expression_type is ExpressionType.SQL92:
            if not expression:
                raise ConfigurationError(
                    f"the SQL92 condition on topic {self.topic!r} is empty",
                    next_step="write one, such as: amount > 10",
                )
            return
        if expression in ("", _ALL_TAGS):
            object.__setattr__(self, "expression", _ALL_TAGS)
            return
        tags = tuple(dict.fromkeys(tag for part in expression.split("||") if (tag := part.strip(_JAVA_BLANKS))))
        if not tags:
            raise ConfigurationError(
                f"the tag expression {self.expression!r} on topic {self.topic!r} names no tag",
                next_step="write tags as: paid || refunded, or * for all",
            )
        object.__setattr__(self, "tags", tags)

    @property
    def tag_hashes(self) -> tuple[int, ...]:
        """Java's hash of each tag, which a broker compares with its consume queue."""
        return tuple(map(java_hash, self.tags))

    def matches_tag(self, tag: str | None) -> bool:
        """Whether a message with this tag matches. SQL92 is evaluated by the broker: always."""
        return not self.tags or tag in self.tags
