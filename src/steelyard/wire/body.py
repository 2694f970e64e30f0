"""What every JSON body has in common: how its properties are named, ordered, left out and bounded.

The rules are Java's. Properties are written in alphabetical order of their wire names, so fields are declared in that
order. What is absent (None) is left out; a zero, a False and an empty list are written: a default that must be written
is made with `always`. Unknown properties are ignored. Numbers have Java's bounds, so that whatever was read can also be
packed. A field is called in our words; its wire name follows from it (``queue_id``, ``queueId``) or is given by name.
"""

from typing import Any, ClassVar, TypeVar

from msgspec import Struct, field

__all__ = ["Body", "always", "always_map"]

T = TypeVar("T")


class Body(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """A JSON body, or an object inside one. What is made of it repeats ``frozen=True, kw_only=True`` for msgspec."""

    old_names: ClassVar[dict[str, str]] = {}
    """Other wire names that are read as well, and what they are called now."""


def always(value: T, name: str | None = None) -> T:
    """Give a field a default that is written all the same.

    >>> class Example(Body, frozen=True, kw_only=True):
    ...     a: int = always(0)
    ...     b: int | None = None
    >>> import msgspec
    >>> msgspec.json.encode(Example())
    b'{"a":0}'
    """
    written: T = field(default_factory=lambda: value, name=name)
    return written


def always_map(name: str | None = None) -> dict[str, Any]:
    """Give a field a new empty map as its default, which is written all the same."""
    written: dict[str, Any] = field(default_factory=_new_map, name=name)
    return written


def _new_map() -> dict[str, Any]:
    # Not `dict` itself: msgspec takes an empty dict for a default, and leaves it out, when `dict` makes the default.
    return {}
