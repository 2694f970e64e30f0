"""Producers and consumers inside a Java process, as objects here; a fixture stops them when their test is over."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tests.interop.backends import Cluster
from tests.interop.clients import Event, JavaProcess, JavaRefused
from tests.waiting import LONGEST_S

Queue = tuple[str, str, int]
"""A topic, a broker and a number."""

Subscription = tuple[str, str, str]
"""A topic, TAG or SQL92, and an expression."""

# Quicker than a user has them, so that tests do not wait: offsets are told and routes asked for every second or so.
_QUICK = {"pollNameServerInterval": 1000, "persistConsumerOffsetInterval": 500}
_FIRST = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
_names = itertools.count(1)

H = TypeVar("H", bound="_JavaClient")


class JavaSendResult(msgspec.Struct, frozen=True):
    """What a send came to."""

    status: str
    id: str
    offset_id: str | None
    queue: int
    offset: int
    state: str | None = None
    transaction: str | None = None


class Delivered(msgspec.Struct, frozen=True):
    """A message as Java's consumer sees it; what the listener noted is told by its event, and stands last."""

    topic: str
    broker: str | None
    queue: int
    offset: int
    body: str | None
    size: int
    sum: int
    tags: str | None
    keys: str | None
    id: str | None
    unique: str | None
    times: int
    born_ms: int
    stored_ms: int
    sys_flag: int
    properties: dict[str, str]
    failed: bool = False
    at_ms: int = 0
    batch: int = 0


class Pulled(msgspec.Struct, frozen=True):
    """The answer to one pull."""

    status: str
    next: int
    min: int
    max: int
    messages: list[Delivered]


def every(topic: str) -> Subscription:
    """Subscribe to all of a topic."""
    return (topic, "TAG", "*")


def tagged(topic: str, tags: str) -> Subscription:
    """Subscribe to some tags of a topic."""
    return (topic, "TAG", tags)


def sql(topic: str, condition: str) -> Subscription:
    """Subscribe by a condition."""
    return (topic, "SQL92", condition)


class _JavaClient:
    stop_verb = ""

    def __init__(self, process: JavaProcess, name: str, client_id: str) -> None:
        self.process, self.name, self.client_id = process, name, client_id

    def ask(self, verb: str, **words: object) -> Any:
        """Ask in the name of this one."""
        return self.process.ask(verb, name=self.name, **words)

    def stop(self, *, later: bool = False) -> None:
        """Say good-bye to the servers; `later` does not wait until it is said."""
        self.ask(self.stop_verb, later=later)


class JavaProducer(_JavaClient):
    """Sends in every way."""

    stop_verb = "producer-stop"

    def send(self, topic: str, body: str, **words: object) -> JavaSendResult:
        """Send one message and wait for the answer; `tags`, `keys`, `level`, `times`, `properties` as needed."""
        return self._sent("send", message={"topic": topic, "body": body, **words})

    def send_to(self, queue: Queue, body: str, **words: object) -> JavaSendResult:
        """Send one message to a queue."""
        return self._sent("send-queue", queue=queue, message={"topic": queue[0], "body": body, **words})

    def send_selected(self, topic: str, body: str, argument: int, **words: object) -> JavaSendResult:
        """Send one message to the queue of an argument."""
        return self._sent("send-select", argument=argument, message={"topic": topic, "body": body, **words})

    def send_async(self, topic: str, body: str, **words: object) -> None:
        """Send without waiting."""
        self.ask("send-async", message={"topic": topic, "body": body, **words})

    def wait_sent(self, count: int, seconds: float = LONGEST_S) -> list[Event]:
        """Wait for the answers to what was sent without waiting."""
        return self.process.wait(self.name, "sent", lambda events: len(events) >= count, seconds)

    def send_oneway(self, topic: str, body: str, **words: object) -> None:
        """Send and forget."""
        self.ask("send-oneway", message={"topic": topic, "body": body, **words})

    def send_batch(self, topic: str, bodies: Sequence[str], **words: object) -> JavaSendResult:
        """Send several messages at once."""
        return self._sent("send-batch", messages=[{"topic": topic, "body": body, **words} for body in bodies])

    def send_transaction(
        self, topic: str, body: str, at_once: str, when_asked: str = "UNKNOW", **words: str
    ) -> JavaSendResult:
        """Send in a transaction that ends so at once, and so when the broker asks."""
        properties = {"at_once": at_once, "when_asked": when_asked, **words}
        return self._sent("send-transaction", message={"topic": topic, "body": body, "properties": properties})

    def request(self, topic: str, body: str, timeout_ms: int = 10_000) -> Delivered:
        """Send a question and wait for its reply."""
        words = {"message": {"topic": topic, "body": body}, "timeout_ms": timeout_ms}
        return msgspec.convert(self.ask("request", **words), Delivered)

    def view(self, topic: str, message_id: str) -> Delivered:
        """Look a message up by either id."""
        return msgspec.convert(self.ask("view", topic=topic, id=message_id), Delivered)

    def query(self, topic: str, key: str, *, most: int = 32, from_ms: int = 0, to_ms: int = 1 << 62) -> list[Delivered]:
        """Look messages up by a key."""
        words = {"topic": topic, "key": key, "most": most, "from_ms": from_ms, "to_ms": to_ms}
        return msgspec.convert(self.ask("query", **words), list[Delivered])

    def _sent(self, verb: str, **words: object) -> JavaSendResult:
        return msgspec.convert(self.ask(verb, **words), JavaSendResult)


class JavaPushConsumer(_JavaClient):
    """Is handed messages."""

    stop_verb = "push-stop"

    def owned(self, topic: str) -> list[int]:
        """Return the numbers of the queues that this member holds by its own report."""
        return sorted(number for name, _, number in self.ask("push-owned") if name == topic)

    def persist(self) -> None:
        """Tell the broker at once how far this member is; by itself it does so ten seconds after its start."""
        self.ask("push-persist")

    def received(self) -> list[Delivered]:
        """Return what was handed over so far."""
        return [_delivered(event) for event in self.process.events(self.name, "message")]

    def wait(self, count: int, seconds: float = LONGEST_S) -> list[Delivered]:
        """Wait until so many messages were handed over."""
        return self.wait_until(lambda found: len(found) >= count, seconds)

    def wait_until(self, enough: Callable[[list[Delivered]], bool], seconds: float = LONGEST_S) -> list[Delivered]:
        """Wait until what was handed over is enough."""

        def reached(events: list[Event]) -> bool:
            return enough([_delivered(event) for event in events])

        return [_delivered(event) for event in self.process.wait(self.name, "message", reached, seconds)]


class JavaPullConsumer(_JavaClient):
    """Holds the loop itself."""

    stop_verb = "puller-stop"

    def queues(self, topic: str) -> list[Queue]:
        """Return the readable queues of a topic."""
        return msgspec.convert(self.ask("puller-queues", topic=topic), list[Queue])

    def pull(self, queue: Queue, offset: int, *, most: int = 32, tags: str = "*", sql: str = "") -> Pulled:
        """Pull once, without waiting."""
        words = {"queue": queue, "offset": offset, "most": most}
        kind = {"kind": "SQL92", "expression": sql} if sql else {"kind": "TAG", "expression": tags}
        return msgspec.convert(self.ask("puller-pull", **words, **kind), Pulled)

    def pull_waiting(self, queue: Queue, offset: int) -> Pulled:
        """Pull, and wait at the broker while there is nothing."""
        words = {"queue": queue, "offset": offset, "most": 32, "expression": "*", "wait": True}
        return msgspec.convert(self.ask("puller-pull", **words), Pulled)

    def commit(self, queue: Queue, offset: int) -> None:
        """Tell the broker how far this group is."""
        self.ask("puller-commit", queue=queue, offset=offset)

    def committed(self, queue: Queue) -> int:
        """Ask the broker how far this group is; -1 if it does not know."""
        return int(self.ask("puller-committed", queue=queue))

    def bounds(self, queue: Queue) -> tuple[int, int]:
        """Return the lowest and the next offset of a queue."""
        return msgspec.convert(self.ask("puller-bounds", queue=queue), tuple[int, int])

    def search(self, queue: Queue, at_ms: int) -> int:
        """Return the offset of a time."""
        return int(self.ask("puller-search", queue=queue, at_ms=at_ms))

    def give_back(self, queue: Queue, offset: int, level: int) -> None:
        """Give a message back as one that failed."""
        self.ask("puller-give-back", queue=queue, offset=offset, level=level)


class JavaLitePullConsumer(_JavaClient):
    """Is polled."""

    stop_verb = "lite-stop"

    def queues(self, topic: str) -> list[Queue]:
        """Return the readable queues of a topic."""
        return msgspec.convert(self.ask("lite-queues", topic=topic), list[Queue])

    def owned(self) -> list[Queue]:
        """Return the queues that this member holds."""
        return msgspec.convert(self.ask("lite-owned"), list[Queue])

    def poll(self, wait_ms: int = 1000) -> list[Delivered]:
        """Take what there is."""
        return msgspec.convert(self.ask("lite-poll", wait_ms=wait_ms), list[Delivered])

    def seek(self, queue: Queue, where: int | str) -> None:
        """Go on from an offset, from `begin` or from `end`."""
        self.ask("lite-seek", queue=queue, where=str(where))

    def commit(self) -> None:
        """Tell the broker how far this group is."""
        self.ask("lite-commit")

    def committed(self, queue: Queue) -> int:
        """Ask the broker how far this group is."""
        return int(self.ask("lite-committed", queue=queue))

    def search(self, queue: Queue, at_ms: int) -> int:
        """Return the offset of a time."""
        return int(self.ask("lite-search", queue=queue, at_ms=at_ms))


class JavaClients:
    """Starts producers and consumers of one release against one cluster, and stops them all."""

    def __init__(self, process: JavaProcess, cluster: Cluster) -> None:
        self.process, self.cluster = process, cluster
        self._started: list[_JavaClient] = []

    def producer(
        self, group: str, *, transactions: bool = False, trace: bool = False, **settings: object
    ) -> JavaProducer:
        """Start a producer; settings are Java's, by their names."""
        words = {"transactions": transactions, "trace": trace}
        return self._start(JavaProducer, "producer", group, settings, **words)

    def push(
        self,
        group: str,
        *subscriptions: Subscription,
        orderly: bool = False,
        trace: bool = False,
        replies_with: JavaProducer | None = None,
        **settings: object,
    ) -> JavaPushConsumer:
        """Start a consumer that is handed messages, from the first on unless told otherwise."""
        replier = replies_with.name if replies_with else None
        words = {"subscriptions": subscriptions, "orderly": orderly, "trace": trace, "replies_with": replier}
        return self._start(JavaPushConsumer, "push", group, _FIRST | settings, **words)

    def pull_consumer(self, group: str, **settings: object) -> JavaPullConsumer:
        """Start a consumer that holds the loop itself."""
        return self._start(JavaPullConsumer, "puller", group, settings)

    def lite(
        self, group: str, *subscriptions: Subscription, queues: Sequence[Queue] | None = None, **settings: object
    ) -> JavaLitePullConsumer:
        """Start a consumer that is polled, with subscriptions or with queues of its own."""
        words: dict[str, object] = {"subscriptions": subscriptions} | ({} if queues is None else {"queues": queues})
        return self._start(JavaLitePullConsumer, "lite", group, _FIRST | settings, **words)

    def _start(self, kind: type[H], verb: str, group: str, settings: dict[str, object], **words: object) -> H:
        name = f"{verb}-{next(_names)}"
        words |= {"name": name, "group": group, "settings": _QUICK | settings, "name_server": self.cluster.name_server}
        hand = kind(self.process, name, self.process.ask(verb, **words))
        self._started.append(hand)
        return hand

    def stop(self) -> None:
        """Stop all that still run."""
        while self._started:
            with suppress(JavaRefused):  # it was stopped before
                self._started.pop().stop(later=True)


def _delivered(event: Event) -> Delivered:
    noted = {name: event[name] for name in ("failed", "at_ms", "batch")}
    return msgspec.convert({**event["message"], **noted}, Delivered)
