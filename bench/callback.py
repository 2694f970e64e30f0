"""A plain Python callback that counts the messages it is handed, the same one whoever the client is.

It looks at each body, as a user's would. What it has counted is told as lines of JSON; after the last message it goes
on for a moment, so that one that comes twice is seen.
"""

import json
from itertools import count
from threading import Event
from time import sleep
from typing import Protocol

BODY_BYTES = 1024
_TELL_S = 0.05
_AFTER_S = 0.3


class HasBody(Protocol):
    """A message of any client."""

    @property
    def body(self) -> bytes:
        """Return what was sent."""
        ...


class Callback:
    """Counts up to what is expected; may be called by many threads at once."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        # Taking the next number is one step, which adding one is not.
        self._numbers = count(1)
        self._handled, self._wrong = 0, 0
        self._is_done = Event()

    def handle(self, message: HasBody) -> None:
        """Count a message."""
        number = self._handled = next(self._numbers)
        if len(message.body) != BODY_BYTES:
            self._wrong += 1
        if number == self._expected:
            self._is_done.set()

    def print_until_done(self) -> None:
        """Print how many there were, again and again, until all have come."""
        while not self._is_done.wait(_TELL_S):
            _print_result(self._handled, self._wrong)
        _print_result(self._expected, self._wrong)
        sleep(_AFTER_S)
        _print_result(next(self._numbers) - 1, self._wrong)


def _print_result(handled: int, wrong: int) -> None:
    print(json.dumps({"handled": handled, "wrong": wrong}), flush=True)
