"""JSON objects from a file or from stdin: a list of them, one alone, or one a line."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import ConfigurationError

__all__ = ["objects_in", "read_objects"]

_MOST_BYTES = 64 * 1024 * 1024


def read_objects(source: str, how: str) -> list[Any]:
    """Read what is in a file, or with ``-`` what comes through stdin; ``how`` says how it is to be written."""
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read ({error.strerror})", next_step=how) from None
    if len(data) > _MOST_BYTES:
        raise ConfigurationError(f"{source} has more than {_MOST_BYTES >> 20} MiB", next_step="give it in parts")
    return objects_in(data, how)


def objects_in(data: bytes, how: str) -> list[Any]:
    r"""Read JSON: a list, one value, or one a line.

    >>> objects_in(b'[{"a": 1}]', ""), objects_in(b'{"a": 1}\n{"a": 2}\n', "")
    ([{'a': 1}], [{'a': 1}, {'a': 2}])
    """
    try:
        try:
            whole = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"that is no JSON ({error})", next_step=how) from None
    return whole if isinstance(whole, list) else [whole]
