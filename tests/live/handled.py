"""What handlers were given, in the order they were, to be waited for."""

import threading
from collections.abc import Callable, Sequence

from steelyard import Admin, Consumer, Message, Producer, PullConsumer, Queue, StoredMessage
from steelyard.client.producer.send_result import SendResult
from tests.live.clusters import until


class Handled:
    """Takes messages from any thread."""

    def __init__(self) -> None:
        self._messages: list[StoredMessage] = []
        self._lock = threading.Lock()

    def __call__(self, message: StoredMessage) -> None:
        """Take one: this is a handler."""
        with self._lock:
            self._messages.append(message)

    async def later(self, message: StoredMessage) -> None:
        """Take one: this is a handler for a loop."""
        self(message)

    @property
    def messages(self) -> Sequence[StoredMessage]:
        """All that came."""
        with self._lock:
            return tuple(self._messages)

    @property
    def bodies(self) -> list[str]:
        """Their bodies."""
        return [message.body.decode() for message in self.messages]

    def wait(self, enough: int | Callable[["Handled"], object], meanwhile: Callable[[], object] | None = None) -> None:
        """Wait for so many, or until what came is enough; ``meanwhile`` is done now and then."""
        until(
            lambda: len(self.messages) >= enough if isinstance(enough, int) else enough(self),
            "enough messages were handled",
            meanwhile,
        )


def send_all(producer: Producer, topic: str, bodies: Sequence[str], tags: str | None = None) -> None:
    """Send messages, one after the other."""
    for body in bodies:
        producer.send(Message(topic, body.encode(), tags))


def poll_all(consumer: PullConsumer, count: int, meanwhile: Callable[[], object] | None = None) -> list[StoredMessage]:
    """Poll until there are so many; ``meanwhile`` is done after each poll."""
    found: list[StoredMessage] = []

    def is_complete() -> bool:
        found.extend(consumer.poll(timeout_s=1 if meanwhile is None else 0.05))
        return len(found) >= count

    until(is_complete, f"{count} messages were polled", meanwhile)
    return found


def shown(admin: Admin, topic: str) -> set[bytes]:
    """Return the bodies that a topic shows: each once, for a transaction that is asked about twice is shown twice."""
    return {message.body for message in admin.messages.list(topic)}


def stored(admin: Admin, sent: SendResult) -> StoredMessage:
    """Return a message that was sent, as it is stored: Apache's brokers show it a moment after they said that it is."""
    found: list[StoredMessage] = []

    def is_complete() -> bool:
        message = admin.messages.at(sent.queue, sent.offset)
        found.extend([message] if message is not None else [])
        return bool(found)

    until(is_complete, f"{sent} is shown")
    return found[0]


def owned(member: Consumer | PullConsumer, topic: str) -> list[Queue]:
    """Return the queues of a topic that a member has; those of its group's retries are not among them."""
    return [queue for queue in member.assignment if queue.topic == topic]
