"""What a test does with any cluster: send, inspect, wait, assert; a failed assertion describes the cluster.

Messages are sent over a connection like any program's; snapshots are not: see testing/inspector.py. `HandledCount` is
an int that describes the messages when it is compared in a failing assert:

    assert mq.handled("orders", group="billing") == 2

Clients are imported when they are first used, since many tests bring their own.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from steelyard.client.config import ClientConfig
from steelyard.client.namespace import ClientNamespace
from steelyard.errors import NotAsExpected
from steelyard.model import Message, StoredMessage
from steelyard.model.formatting import pluralize
from steelyard.testing.broker_inspection import DelayedMessage
from steelyard.testing.inspector import ClusterInspector
from steelyard.testing.snapshots import TopicSnapshot, describe_snapshot

if TYPE_CHECKING:
    from steelyard.client.producer.send_result import SendResult
    from steelyard.client.sync.admin import Admin
    from steelyard.client.sync.producer import Producer


class HandledCount(int):
    """The number of messages that a group has handled, with the snapshot that it was counted in."""

    snapshot: TopicSnapshot

    @classmethod
    def of(cls, snapshot: TopicSnapshot) -> Self:
        """Count the handled messages of a snapshot."""
        count = cls(snapshot.handled_count)
        count.snapshot = snapshot
        return count

    def explain(self) -> list[str]:
        """Describe the snapshot, as lines."""
        return describe_snapshot(self.snapshot)


BodyMatcher = bytes | str | Callable[[bytes], bool] | None  # a body, or a predicate
_Condition = tuple[str, Callable[[StoredMessage], bool]]  # what a message must have, and whether it has it


def _conditions(
    body: BodyMatcher, json: Any, tags: str | None, keys: str | Iterable[str], properties: Mapping[str, str] | None
) -> Iterator[_Condition]:
    """Yield the conditions of an assertion; what is not given is none.

    >>> from steelyard.model import Queue
    >>> stored = StoredMessage(Queue("orders", "a", 0), 0, b'{"id": 1}', {"TAGS": "paid", "KEYS": "a b"})
    >>> [(text, is_met(stored)) for text, is_met in _conditions("{}", {"id": 1}, "paid", "a", None)]
    [("the body '{}'", False), ("the JSON {'id': 1}", True), ('the tag paid', True), ('the keys a', True)]
    """
    if callable(body):
        accepts = body
        yield f"a body that {getattr(body, '__name__', 'the function')} accepts", lambda each: accepts(each.body)
    elif body is not None:
        wanted = _as_bytes(body)
        yield f"the body {body!r}", lambda each: each.body == wanted
    if json is not None:
        yield f"the JSON {json!r}", lambda each: bool(_parse_json(each.body) == json)
    if tags is not None:
        yield f"the tag {tags}", lambda each: each.tags == tags
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if names:
        yield f"the keys {', '.join(names)}", lambda each: set(names) <= set(each.keys)
    if properties:
        items = properties.items()
        yield (
            f"the properties {dict(properties)!r}",
            lambda each: all(each.properties.get(name) == text for name, text in items),
        )


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


MessageBody = bytes | str  # the body of a message; text is encoded as UTF-8

_FIRST_POLL_S, _MAX_POLL_S = 0.001, 0.02
_GROUP = "mq"


class ClusterUnderTest:
    """A cluster in a test. Names are without a namespace; `name` adds it."""

    def __init__(self, config: ClientConfig, inspector: ClusterInspector) -> None:
        self._config, self._inspector = config, inspector
        self._names = ClientNamespace(config.namespace)
        self._clients_lock = threading.Lock()  # threads of a test may race, and a second client would leak
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    @property
    def address(self) -> str:
        """The addresses of the name servers, for clients of any language."""
        return str(self._config)

    @property
    def connect(self) -> ClientConfig:
        """The configuration for our own clients, with the namespace: ``Consumer(mq.connect, "billing")``."""
        return self._config

    def name(self, name: str) -> str:
        """Return the name of a topic or group with the namespace of this test."""
        return self._names.wrap(name)

    @property
    def admin(self) -> "Admin":
        """An admin client, for all that is not here; it is closed with the test."""
        with self._clients_lock:
            if self._admin is None:
                from steelyard.client.sync.admin import Admin

                self._admin = Admin(self._config)
            return self._admin

    def send(
        self,
        topic: str,
        body: MessageBody,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        key: str | int | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> "SendResult":
        """Send a message, and wait until it is stored. A missing topic is created.

        Faults apply to it as to any client. The options are those of `Producer.send`.
        """
        message = Message(topic, _as_bytes(body), tags, keys, properties or {})
        return self._get_producer().send(message, key=key, delay_s=delay_s, deliver_at=deliver_at)

    def _get_producer(self) -> "Producer":
        with self._clients_lock:
            if self._producer is None:
                from steelyard.client.sync.producer import Producer

                self._producer = Producer(self._config, group=_GROUP)
            return self._producer

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with this many queues on each broker."""
        self.admin.topics.create(topic, queues)

    def sent(self, topic: str) -> list[StoredMessage]:
        """Return the messages of a topic that consumers can see, in the order in which they were stored."""
        return list(self._inspector.inspect(topic).messages)

    def waiting(self, topic: str) -> list[DelayedMessage]:
        """Return the delayed messages of a topic, the next one first."""
        return list(self._inspector.inspect(topic).delayed)

    def handled(self, topic: str, *, group: str) -> HandledCount:
        """Count the messages of a topic that a group has handled.

        One that failed and waits for a retry is not handled, nor is a dead letter, nor what the group filters out by
        tags. In a failing assert the number describes each message. A broadcast group has no offsets at the broker, and
        nothing is counted for it.
        """
        return HandledCount.of(self._inspector.inspect(topic, group))

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the dead letters of a group."""
        snapshot = self._inspector.inspect("", group).group
        return list(snapshot.dead_letters) if snapshot is not None else []

    def explain(self, topic: str, *, group: str | None = None) -> str:
        """Describe a topic, and what a group did with it."""
        return "\n".join(describe_snapshot(self._inspector.inspect(topic, group)))

    def wait_until_handled(
        self, topic: str, *, group: str, count: int | None = None, timeout_s: float = 10.0
    ) -> HandledCount:
        """Wait until a group has handled ``count`` messages; without a count, all that match, and at least one."""
        __tracebackhide__ = True
        found = self._poll_until(lambda snapshot: _is_done(snapshot, count), topic, group, timeout_s)
        if not _is_done(found, count):
            wanted = found.wanted_count if count is None else count
            raise _assertion_error(
                f"group {group} handled {found.handled_count} and not {wanted} in {timeout_s:g} s", found
            )
        return HandledCount.of(found)

    def wait_until_sent(self, topic: str, *, count: int = 1, timeout_s: float = 10.0) -> list[StoredMessage]:
        """Wait until a topic has ``count`` messages that consumers can see, and return them."""
        __tracebackhide__ = True
        found = self._poll_until(lambda snapshot: len(snapshot.messages) >= count, topic, None, timeout_s)
        if len(found.messages) < count:
            raise _assertion_error(
                f"{topic} has {pluralize(len(found.messages), 'message')} and not {count} in {timeout_s:g} s", found
            )
        return list(found.messages)

    def _poll_until(
        self,
        condition: Callable[[TopicSnapshot], bool],
        topic: str,
        group: str | None,
        timeout_s: float,
    ) -> TopicSnapshot:
        end_s, spent_s, pause_s = time.monotonic() + timeout_s, 0.0, _FIRST_POLL_S
        snapshot = self._inspector.inspect(topic, group)
        # The pauses count, too: a test may have stopped the clock of its process.
        while not condition(snapshot) and time.monotonic() < end_s and spent_s < timeout_s:
            time.sleep(pause_s)
            spent_s += pause_s
            pause_s = min(_MAX_POLL_S, 2 * pause_s)
            snapshot = self._inspector.inspect(topic, group)
        return snapshot

    def assert_sent(
        self,
        topic: str,
        body: BodyMatcher = None,
        *,
        json: Any = None,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        count: int | None = None,
    ) -> list[StoredMessage]:
        """Assert that a topic has messages, at least one or exactly ``count``, and return them.

        A message counts if everything that is given matches: its body, or its body as JSON; its tag; these keys and
        properties among its own.
        """
        __tracebackhide__ = True
        snapshot = self._inspector.inspect(topic)
        conditions = list(_conditions(body, json, tags, keys, properties))
        found = [each for each in snapshot.messages if all(is_met(each) for _, is_met in conditions)]
        if (count is None and not found) or (count is not None and len(found) != count):
            many = "no message" if not found else "1 message" if len(found) == 1 else f"{len(found)} messages"
            having = f" with {' and '.join(text for text, _ in conditions)}" if conditions else ""
            expected = "at least one was" if count is None else f"{count} {'was' if count == 1 else 'were'}"
            raise _assertion_error(f"{topic} has {many}{having}, and {expected} expected", snapshot)
        return found

    def assert_nothing_sent(self, topic: str | None = None) -> None:
        """Assert that a topic, or any topic, has no message; a delayed one counts as sent."""
        __tracebackhide__ = True
        for each in [topic] if topic is not None else self._inspector.topics():
            snapshot = self._inspector.inspect(each)
            if snapshot.messages or snapshot.delayed:
                raise _assertion_error(f"{each} was expected to be empty", snapshot)

    def assert_handled(self, topic: str, *, group: str, count: int | None = None) -> None:
        """Assert that a group has handled ``count`` messages; without a count, all that match, and at least one."""
        __tracebackhide__ = True
        snapshot = self._inspector.inspect(topic, group)
        wanted = snapshot.wanted_count if count is None else count
        if snapshot.handled_count != wanted or not _is_done(snapshot, count):
            raise _assertion_error(
                f"group {group} has handled {snapshot.handled_count} and not {wanted} messages of {topic}", snapshot
            )

    def close_clients(self) -> None:
        """Close its own clients."""
        clients = self._producer, self._admin
        self._producer = self._admin = None
        for client in clients:
            if client is not None:
                client.close()


def _is_done(snapshot: TopicSnapshot, count: int | None) -> bool:
    """Say whether a group has handled ``count`` messages, or all that match without a count."""
    return 0 < snapshot.handled_count == snapshot.wanted_count if count is None else snapshot.handled_count >= count


def _as_bytes(body: MessageBody) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _assertion_error(what: str, snapshot: TopicSnapshot) -> NotAsExpected:
    return NotAsExpected("\n".join([what, *(f"  {line}" for line in describe_snapshot(snapshot))]))
