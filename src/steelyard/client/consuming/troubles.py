"""Errors of handlers, for people to read: the first of its kind with where it came from, those after it counted."""

import logging
import threading

from steelyard.client.consuming.handlers import Handler
from steelyard.client.consuming.received import Received

__all__ = ["Troubles"]

_log = logging.getLogger("steelyard")


class Troubles:
    """What went wrong in the handlers of one consumer; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._untold: dict[tuple[str, str], int] = {}
        self._homeless: set[str] = set()

    def note(self, handler: Handler, message: Received, error: BaseException) -> None:
        """Take note that a handler raised."""
        kind = handler.name, type(error).__qualname__
        with self._lock:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            if count > 1:
                self._untold[kind] = self._untold.get(kind, 0) + 1
        if count == 1:
            _log.warning(
                "the handler %s raised %s at message %s of %s, offset %d; it is asked for again",
                *kind,
                message.message_id,
                message.queue,
                message.offset,
                exc_info=error,
            )

    def note_homeless(self, topic: str) -> None:
        """Take note that a message came back which nobody here handles."""
        if topic not in self._homeless:
            self._homeless.add(topic)
            _log.warning(
                "a message of topic %r came back to the group, and no handler here takes it: it is given to others; "
                "let all members of a group handle the same topics",
                topic,
            )

    def tell(self) -> None:
        """Say how often each kind of error came again since this was said last."""
        with self._lock:
            untold, self._untold = self._untold, {}
        for (name, error), count in sorted(untold.items()):
            times = "once more" if count == 1 else f"{count} more times"
            _log.warning("the handler %s raised %s %s", name, error, times)

    def counts(self) -> dict[str, int]:
        """Return how often each handler raised each error."""
        with self._lock:
            return {f"{name}: {error}": count for (name, error), count in sorted(self._counts.items())}
