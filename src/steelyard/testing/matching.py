"""Which message a test means: each part that is given must fit, and what is not given fits always."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.model import StoredMessage

__all__ = ["BodyWish", "Wish"]

BodyWish = bytes | str | Callable[[bytes], bool] | None
"""What a body should be: itself, or a function that says whether it will do."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A message that is looked for.

    >>> from steelyard.model import Queue
    >>> stored = StoredMessage(Queue("orders", "a", 0), 0, b'{"id": 1}', {"TAGS": "paid", "KEYS": "a b"})
    >>> Wish.of(None, {"id": 1}, "paid", "a", None).fits(stored), Wish.of("{}", None, None, (), None).fits(stored)
    (True, False)
    """

    body: BodyWish
    json: Any
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]

    @classmethod
    def of(
        cls,
        body: BodyWish,
        json: Any,
        tags: str | None,
        keys: str | Iterable[str],
        properties: Mapping[str, str] | None,
    ) -> "Wish":
        """Make a wish of what a test gave."""
        return cls(body, json, tags, (keys,) if isinstance(keys, str) else tuple(keys), properties or {})

    def fits(self, message: StoredMessage) -> bool:
        """Say whether this message is meant."""
        return (
            self._fits_body(message.body)
            and (self.json is None or _parsed(message.body) == self.json)
            and (self.tags is None or message.tags == self.tags)
            and set(self.keys) <= set(message.keys)
            and all(message.properties.get(name) == text for name, text in self.properties.items())
        )

    def _fits_body(self, body: bytes) -> bool:
        if self.body is None:
            return True
        if callable(self.body):
            return self.body(body)
        return body == (self.body.encode() if isinstance(self.body, str) else self.body)

    def in_words(self) -> str:
        """Say what is looked for, as the end of a sentence; nothing if everything fits."""
        said = []
        if callable(self.body):
            said.append(f"a body that {getattr(self.body, '__name__', 'the function')} takes")
        elif self.body is not None:
            said.append(f"the body {self.body!r}")
        if self.json is not None:
            said.append(f"the JSON {self.json!r}")
        if self.tags is not None:
            said.append(f"the tag {self.tags}")
        if self.keys:
            said.append(f"the keys {', '.join(self.keys)}")
        if self.properties:
            said.append(f"the properties {dict(self.properties)!r}")
        return f" with {' and '.join(said)}" if said else ""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
