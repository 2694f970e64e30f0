"""Random values that Java can hold: what the tests of headers and bodies draw from.

Java's types are narrower than ours in places: an enum where we keep any text, a set where we keep a list. What falls
outside is not drawn here; what becomes of it is told by tests of their own.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from steelyard.wire import property_names
from steelyard.wire.bodies import groups, heartbeat, members, queue_assignment, topics
from steelyard.wire.codes import LANGUAGES
from steelyard.wire.header_codec import H, header_layout
from steelyard.wire.json_body import ById, ByQueue, JsonBody, encode_body
from tests.wire.stored_values import properties as any_properties

ASTRAL = "\U0001f40e\U00020bb7 ü\u2028\u007f"
"""Characters of two, three and four bytes."""

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
"""Any text that is not empty: in binary headers an empty one would be absent."""


def readable_name(name: str) -> str:
    """Return a name that 5.x can read as a property's: its reader fails on an escape beside a four-byte character."""
    escaped = not name.isprintable() or '"' in name or "\\" in name
    return "".join(letter for letter in name if letter < "\U00010000") if escaped else name


names = words.map(readable_name).filter(bool)
"""Any text for a name."""

properties = any_properties.map(
    lambda drawn: {name: value for name, value in drawn.items() if name != property_names.CRC32}
)
"""Any properties but the store's checksum, which we keep from users and Java does not."""

# Where Java has an enum, or checks the value.
_ALLOWED: Mapping[str, st.SearchStrategy[Any]] = {
    "topicFilterType": st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    "commitOrRollback": st.sampled_from([0, 8, 12]),
    "boundaryType": st.sampled_from(["LOWER", "UPPER"]),
}


def headers(kind: type[H], never_absent: Collection[str]) -> st.SearchStrategy[H]:
    """Build any header of a kind; fields named in ``never_absent`` are there even if they may be absent in ours."""
    plan = header_layout(kind)
    arguments: dict[str, st.SearchStrategy[Any]] = {}
    for attribute, name, wanted, digits, default in zip(
        plan.attributes, plan.names, plan.types, plan.safe_digits, plan.defaults, strict=True
    ):
        whole = {str: words, bool: st.booleans()}.get(wanted, int32 if digits == 9 else int64)
        value = _ALLOWED.get(name, whole)
        arguments[attribute] = value if default is msgspec.NODEFAULT or name in never_absent else st.none() | value
    return st.builds(kind, **arguments)


def for_java(value: Any) -> Any:
    """Return the nearest body that Java can hold: enums by their names, sets without repeats, ids that are ids."""
    if isinstance(value, JsonBody):
        parts = {field.name: for_java(getattr(value, field.name)) for field in msgspec.structs.fields(type(value))}
        return type(value)(**_within_enums(value, parts))
    if isinstance(value, ById):
        return ById({key & 0x7FFFFFFF: for_java(part) for key, part in value.items()})
    if isinstance(value, ByQueue):
        return ByQueue({key: for_java(part) for key, part in value.items()})
    if isinstance(value, Mapping):
        return {readable_name(key): for_java(part) for key, part in value.items()}
    if type(value) is tuple:
        return tuple({_told_apart_by(part): part for part in map(for_java, value)}.values())
    return value


def _within_enums(value: JsonBody, parts: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, members.ConnectionEntry | members.ProducerEntry) and value.language is not None:
        parts["language"] = LANGUAGES[len(value.language)]
    if isinstance(value, topics.TopicConfig):
        parts["filter_type"] = ("SINGLE_TAG", "MULTI_TAG")[len(value.filter_type) % 2]
        # Only one class of Java's has a static topic's details, and what it does with it has a test of its own.
        parts["mapping"] = None
    return parts


def _told_apart_by(part: Any) -> object:
    """Return what Java's sets tell an element by: names, and not all that is known beside them."""
    if isinstance(part, groups.SimpleSubscription):
        return part.topic, part.expression, part.expression_type
    if isinstance(part, heartbeat.SubscriptionBody):
        return f"{part.topic}@{part.expression}"
    if isinstance(part, queue_assignment.AssignedQueue):
        return part.queue
    return encode_body(part)
