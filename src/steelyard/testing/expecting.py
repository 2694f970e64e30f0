"""What a test does with a cluster, whichever it is: send, look, expect; and a failed expectation says what was there.

Messages are sent over a line like any program's. Looks are not: see testing/sight.py. Clients are loaded when they are
first used, since many tests bring their own.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from steelyard.client.connect import Connect
from steelyard.client.names import Names
from steelyard.errors import NotAsExpected
from steelyard.model import Message, StoredMessage
from steelyard.serve.looking import Waiting
from steelyard.testing.counts import Count
from steelyard.testing.look import Look
from steelyard.testing.matching import BodyWish, Wish
from steelyard.testing.sight import Sight
from steelyard.testing.telling import tell

if TYPE_CHECKING:
    from steelyard.client.blocking.admin import Admin
    from steelyard.client.blocking.producer import Producer
    from steelyard.client.producing.sent import Sent

__all__ = ["Body", "Expecting"]

Body = bytes | str
"""The body of a message; text is written as UTF-8."""

_FIRST_LOOK_S, _LOOK_S = 0.001, 0.02
_GROUP = "mq"


class Expecting:
    """A cluster, as a test sees it. Names are the test's own: `name` tells what the servers know them by."""

    def __init__(self, connect: Connect, sight: Sight) -> None:
        self._connect, self._sight = connect, sight
        self._names = Names(connect.namespace)
        self._opening = threading.Lock()
        """Threads of a test may come at the same time, and a client too many would be left open."""
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the name servers are, as clients of any language take it."""
        return str(self._connect)

    @property
    def connect(self) -> Connect:
        """The same for our own clients: ``Consumer(mq.connect, "billing")``. It has the namespace, if there is one."""
        return self._connect

    def name(self, name: str) -> str:
        """Return the name that the servers know a topic or group of this test by."""
        return self._names.full(name)

    @property
    def admin(self) -> "Admin":
        """An administrator's client, for all that is not here; it is closed with the test."""
        with self._opening:
            if self._admin is None:
                from steelyard.client.blocking.admin import Admin

                self._admin = Admin(self._connect)
            return self._admin

    # -- doing --------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        key: str | int | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> "Sent":
        """Send a message, and wait until it is stored. A topic that is not there is made.

        It goes over a line like everybody's, so faults are for it, too. The options are those of `Producer.send`.
        """
        message = Message(topic, _as_bytes(body), tags, keys, properties or {})
        return self._own_producer().send(message, key=key, delay_s=delay_s, deliver_at=deliver_at)

    def _own_producer(self) -> "Producer":
        with self._opening:
            if self._producer is None:
                from steelyard.client.blocking.producer import Producer

                self._producer = Producer(self._connect, group=_GROUP)
            return self._producer

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic with so many queues on each broker, before anybody else does."""
        self.admin.create_topic(topic, queues)

    # -- looking ------------------------------------------------------------------------------------------------------

    def sent(self, topic: str) -> list[StoredMessage]:
        """Return the messages of a topic that consumers can see, in the order in which they were stored."""
        return list(self._look(topic).messages)

    def waiting(self, topic: str) -> list[Waiting]:
        """Return the messages to a topic that wait for their time, the next one first."""
        return list(self._look(topic).delayed)

    def handled(self, topic: str, *, group: str) -> Count:
        """Count the messages of a topic that a group has handled: it is through with them, and they did not fail.

        One that failed and waits to be tried again is not handled, nor is a dead letter, nor what the group does not
        want by its tags. In a failing assert the number says what became of each message. A broadcasting group has no
        offsets at the broker, and nothing is counted for it.
        """
        return Count.of(self._look(topic, group))

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return what a group gave up."""
        look = self._look("", group).group
        return list(look.dead) if look is not None else []

    def explain(self, topic: str, *, group: str | None = None) -> str:
        """Say what is known of a topic, and of what a group did with it."""
        return "\n".join(tell(self._look(topic, group)))

    def _look(self, topic: str, group: str | None = None) -> Look:
        return self._sight.look(topic, group)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def wait_until_handled(self, topic: str, *, group: str, count: int | None = None, timeout_s: float = 10.0) -> Count:
        """Wait until a group has handled so many messages; without a count, all that it wants, and at least one."""
        __tracebackhide__ = True
        look = self._until(lambda look: _is_done(look, count), topic, group, timeout_s)
        if not _is_done(look, count):
            wanted = look.wanted if count is None else count
            raise _failed(f"group {group} handled {look.handled} and not {wanted} in {timeout_s:g} s", look)
        return Count.of(look)

    def wait_until_sent(self, topic: str, *, count: int = 1, timeout_s: float = 10.0) -> list[StoredMessage]:
        """Wait until a topic has so many messages that consumers can see, and return them."""
        __tracebackhide__ = True
        look = self._until(lambda look: len(look.messages) >= count, topic, None, timeout_s)
        if len(look.messages) < count:
            raise _failed(f"{topic} has {len(look.messages)} messages and not {count} in {timeout_s:g} s", look)
        return list(look.messages)

    def _until(
        self,
        holds: Callable[[Look], bool],
        topic: str,
        group: str | None,
        timeout_s: float,
    ) -> Look:
        end_s, spent_s, pause_s = time.monotonic() + timeout_s, 0.0, _FIRST_LOOK_S
        look = self._look(topic, group)
        # What was slept counts, too: a test may have stopped the clock of its process.
        while not holds(look) and time.monotonic() < end_s and spent_s < timeout_s:
            time.sleep(pause_s)
            spent_s += pause_s
            pause_s = min(_LOOK_S, 2 * pause_s)
            look = self._look(topic, group)
        return look

    # -- expecting ----------------------------------------------------------------------------------------------------

    def assert_sent(
        self,
        topic: str,
        body: BodyWish = None,
        *,
        json: Any = None,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        count: int | None = None,
    ) -> list[StoredMessage]:
        """Expect messages in a topic, at least one or exactly ``count``, and return them.

        A message is counted if all that is given fits: its body, or what it says as JSON; its tag; these keys and
        properties among its own.
        """
        __tracebackhide__ = True
        look = self._look(topic)
        wish = Wish.of(body, json, tags, keys, properties)
        found = [message for message in look.messages if wish.fits(message)]
        if (count is None and not found) or (count is not None and len(found) != count):
            many = "no message" if not found else "1 message" if len(found) == 1 else f"{len(found)} messages"
            expected = "at least one was" if count is None else f"{count} {'was' if count == 1 else 'were'}"
            raise _failed(f"{topic} has {many}{wish.in_words()}, and {expected} expected", look)
        return found

    def assert_nothing_sent(self, topic: str | None = None) -> None:
        """Expect no message in a topic, or in any; one that waits for its time counts as sent."""
        __tracebackhide__ = True
        for each in [topic] if topic is not None else self._sight.topics():
            look = self._look(each)
            if look.messages or look.delayed:
                raise _failed(f"nothing was to be sent to {each}", look)

    def assert_handled(self, topic: str, *, group: str, count: int | None = None) -> None:
        """Expect a group to have handled so many messages; without a count, all that it wants, and at least one."""
        __tracebackhide__ = True
        look = self._look(topic, group)
        wanted = look.wanted if count is None else count
        if look.handled != wanted or not _is_done(look, count):
            raise _failed(f"group {group} has handled {look.handled} and not {wanted} messages of {topic}", look)

    # -- its end ------------------------------------------------------------------------------------------------------

    def close_clients(self) -> None:
        """Close the lines of its own."""
        producer, self._producer = self._producer, None
        admin, self._admin = self._admin, None
        for client in (producer, admin):
            if client is not None:
                client.close()


def _is_done(look: Look, count: int | None) -> bool:
    """Say whether a group has handled so many messages, or all that it wants if nobody says how many."""
    return 0 < look.handled == look.wanted if count is None else look.handled >= count


def _as_bytes(body: Body) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _failed(what: str, look: Look) -> NotAsExpected:
    return NotAsExpected("\n".join([what, *(f"  {line}" for line in tell(look))]))
