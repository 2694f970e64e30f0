"""May this queue pull now: not while too many of its messages wait, too many bytes, or over too wide a span.

A limit for a whole topic is shared out over the queues of it that are owned, at least one message and one byte each.
The span is not looked at where messages are handled in order: there it cannot grow by itself. Messages that are lent
to the user, who keeps them until they are committed, do not wait.

Left out: when to look again. Whoever finishes messages of a queue that was held back asks anew.
"""

from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.balance.window import Window

__all__ = ["Pace", "share_of"]


def share_of(topic_limit: int | None, queues: int, queue_limit: int) -> int:
    """Return what one of so many queues may hold: its share of the topic's limit, and never more than a queue's own.

    >>> share_of(100, 8, 1_000), share_of(3, 8, 1_000), share_of(None, 8, 1_000)
    (12, 1, 1000)
    """
    return queue_limit if topic_limit is None else min(queue_limit, max(1, topic_limit // max(1, queues)))


class Pace:
    """The limits of one member.

    >>> from steelyard.model import Subscription
    >>> pace = Pace(MemberOptions("g", "m@sy1", {"t": Subscription("t")}, queue_messages=2, topic_messages=2))
    >>> pace.note_owned("t", 2)
    >>> window = Window(0)
    >>> window.add([0], 1, 10)
    >>> pace.may_pull("t", window)
    True
    >>> window.add([1], 2, 10)
    >>> pace.may_pull("t", window)
    False
    """

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._usual = options.queue_messages, options.queue_bytes
        self._span = options.queue_span if options.mode is not Mode.ORDERLY else None
        self._shared: dict[str, tuple[int, int]] = {}

    def note_owned(self, topic: str, queues: int) -> None:
        """Share the topic's limits over so many queues."""
        options = self._options
        messages = share_of(options.topic_messages, queues, options.queue_messages)
        size = share_of(options.topic_bytes, queues, options.queue_bytes)
        self._shared[topic] = messages, size

    def may_pull(self, topic: str, window: Window, lent: int = 0) -> bool:
        """Say whether a queue of a topic may pull, having this window, of which so many messages are lent."""
        messages, size = self._shared.get(topic, self._usual)
        waiting, body_bytes = window.count - lent, window.body_bytes
        if lent and waiting > 0:
            body_bytes = body_bytes * waiting // window.count
        if waiting > messages or (waiting > 0 and body_bytes > size):
            return False
        return self._span is None or window.span <= self._span
