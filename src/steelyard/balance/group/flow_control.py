"""Flow control: whether a queue may pull, by the number, bytes and offset span of its unfinished messages.

The limit of a topic is divided among its owned queues, at least one message and one byte each. The span is not limited
for orderly members, where it cannot grow by itself. Messages that the user polled and has not committed do not count.

Left out: when to check again. A queue under flow control is pulled again when messages of it were finished.
"""

from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.group.options import ConsumeMode, MemberOptions


def queue_share(topic_limit: int | None, queues: int, queue_limit: int) -> int:
    """Return the limit of one of several queues: its share of the topic's limit, and at most a queue's own limit.

    >>> queue_share(100, 8, 1_000), queue_share(3, 8, 1_000), queue_share(None, 8, 1_000)
    (12, 1, 1000)
    """
    return queue_limit if topic_limit is None else min(queue_limit, max(1, topic_limit // max(1, queues)))


class FlowControl:
    """The limits of one member.

    >>> from steelyard.model import Subscription
    >>> control = FlowControl(MemberOptions("g", "m@sy1", {"t": Subscription("t")}, queue_messages=2, topic_messages=2))
    >>> control.set_owned_queues("t", 2)
    >>> window = InflightWindow(0)
    >>> window.add([0], 1, 10)
    >>> control.may_pull("t", window)
    True
    >>> window.add([1], 2, 10)
    >>> control.may_pull("t", window)
    False
    """

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._queue_limits = options.queue_messages, options.queue_bytes
        self._max_span = options.queue_span if options.mode is not ConsumeMode.ORDERLY else None
        self._topic_limits: dict[str, tuple[int, int]] = {}

    def set_owned_queues(self, topic: str, queues: int) -> None:
        """Divide the topic's limits among this many queues."""
        options = self._options
        messages = queue_share(options.topic_messages, queues, options.queue_messages)
        size = queue_share(options.topic_bytes, queues, options.queue_bytes)
        self._topic_limits[topic] = messages, size

    def may_pull(self, topic: str, window: InflightWindow, polled: int = 0) -> bool:
        """Say whether a queue may pull that has this window, of which the user holds ``polled`` messages."""
        messages, size = self._topic_limits.get(topic, self._queue_limits)
        unfinished, body_bytes, span = window.usage()
        waiting = unfinished - polled
        if polled and waiting > 0:
            body_bytes = body_bytes * waiting // unfinished
        if waiting > messages or (waiting > 0 and body_bytes > size):
            return False
        return self._max_span is None or span <= self._max_span
