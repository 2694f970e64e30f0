"""What of one JSON text is missing, or different, in another: the measure of what a reader understood.

Both are compared as trees. Where only the second has something, nothing was lost: a reader may add its defaults.
"""

import json
from collections.abc import Collection, Iterator
from itertools import permutations
from typing import Any

import msgspec

from steelyard.wire.java_json import to_standard_json

Loss = tuple[str, object, object]
"""A property by its name, what it was, and what it became; None if it is gone."""


def tree(text: bytes) -> Any:
    """Read a body as plain values; maps by queue become lists of pairs."""
    return msgspec.json.decode(to_standard_json(text, "body"))


def losses(before: Any, after: Any, sets: Collection[str], name: str = "") -> Iterator[Loss]:
    """Yield what was lost on the way from one tree to the other.

    ``sets`` names the lists that have no order, and the maps whose lists have none.

    >>> list(losses({"a": 1, "b": [1, 2]}, {"b": [2, 1], "c": 3}, sets=["b"]))
    [('a', 1, None)]
    """
    before, after = _by_queue(before), _by_queue(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                inherits = name in sets and isinstance(value, list) and key not in sets
                yield from losses(value, after[key], sets, name if inherits else key)
            else:
                yield key, value, None
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        orders = permutations(after) if name in sets else [after]
        yield from min((_in_order(before, order, sets, name) for order in orders), key=len)
    elif before != after:
        yield name, before, after


def _in_order(before: list[Any], after: Any, sets: Collection[str], name: str) -> list[Loss]:
    return [loss for one, other in zip(before, after, strict=True) for loss in losses(one, other, sets, name)]


def _by_queue(found: Any) -> Any:
    """Turn a list of pairs, whose order means nothing, into a dict."""
    if isinstance(found, list) and found and all(isinstance(part, list) and len(part) == 2 for part in found):
        return {json.dumps(key, sort_keys=True): value for key, value in found}
    return found
