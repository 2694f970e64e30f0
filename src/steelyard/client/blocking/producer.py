"""The producer for threads: the same rules, waited for in the thread that sends.

A plain `send` does not go through the loop, nor does a single batch: the thread has a line of its own to each broker
(client/producing/direct.py). Many sends at once do (`submit`): they share the loop's lines, and what several threads
hand over crosses to it together.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self, Unpack

from steelyard.balance.attempts import SendOptions
from steelyard.balance.ledger import Standing
from steelyard.client.blocking.face import Face
from steelyard.client.connect import Where
from steelyard.client.hub import Hub
from steelyard.client.keywords import with_options
from steelyard.client.producing.batches import Key, partly_sent
from steelyard.client.producing.direct import Direct
from steelyard.client.producing.outbox import A, Select
from steelyard.client.producing.parcels import Single
from steelyard.client.producing.pickers import SharedPicker
from steelyard.client.producing.producer import DEFAULT_GROUP
from steelyard.client.producing.producer import Producer as AsyncProducer
from steelyard.client.producing.producer_options import ProducerOptions, ProducerSettings
from steelyard.client.producing.sends import has_new_route
from steelyard.client.producing.sent import Sent
from steelyard.client.producing.submits import Submits
from steelyard.client.producing.transactions import Check
from steelyard.client.producing.transactions import Transaction as AsyncTransaction
from steelyard.dialect.batching import pack
from steelyard.errors import SendFailed, ServerError, TransportError
from steelyard.model import Message, Queue, StoredMessage

__all__ = ["Producer", "Transaction"]


class _Handed(NamedTuple):
    """A message on its way to the loop."""

    future: "Future[Sent]"
    picker: SharedPicker
    message: Message
    parcel: Single | None
    """None where it may wait for others to share a batch with."""
    options: SendOptions
    queue: Queue | None


class _Ways(NamedTuple):
    """How messages leave."""

    direct: Direct
    """In the caller's own thread."""
    submits: Submits[_Handed]
    """By the loop."""


class Producer(Face[AsyncProducer]):
    """Sends messages; any number of threads may share one. All options are in `ProducerOptions`.

    >>> from steelyard.serve.embedded import Cluster
    >>> with Cluster() as cluster, Producer(cluster.namesrv, group="shop") as producer:
    ...     sent = producer.send(Message("orders", b"{}", tags="paid"))
    ...     many = producer.send_many([Message("orders", b"1"), Message("orders", b"2")])
    ...     future = producer.submit(Message("orders", b"3"), key="order-1")
    ...     with producer.transaction(Message("orders", b"4")) as transaction:
    ...         del transaction  # here is what has to succeed before the message is seen
    ...     sent.queue.topic, len(many), future.result().late
    ('orders', 2, False)
    """

    def __init__(
        self,
        where: Where = None,
        group: str = DEFAULT_GROUP,
        *,
        check: Check | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Make a producer; ``check`` says what became of a transaction that another process began."""
        super().__init__(AsyncProducer(where, group, check=check, **settings))
        self._usual = self._client.options.send_options()
        self._ways: _Ways | None = None

    __signature__ = with_options(__init__, ProducerOptions)

    @property
    def options(self) -> ProducerOptions:
        """How it works."""
        return self._client.options

    @property
    def client_id(self) -> str:
        """What brokers know it by."""
        self._ready()
        return self._client.client_id

    def send(
        self,
        message: Message,
        *,
        key: str | int | None = None,
        select: Select[A] | None = None,
        select_arg: A | None = None,
        queue: Queue | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        timeout_s: float | None = None,
    ) -> Sent:
        """Send a message, and wait until a broker has stored it.

        Messages with one ``key`` go to one queue, in the order of sending, as long as the topic keeps its queues: so
        make it first. ``select`` chooses by another rule, which is given ``select_arg`` if it has a third parameter;
        ``queue`` names the queue. Raises SendFailed, which lists each attempt.
        """
        if delay_s is not None or deliver_at is not None:
            return self._ready().run(
                self._client.send(
                    message,
                    key=key,
                    select=select,
                    select_arg=select_arg,
                    queue=queue,
                    delay_s=delay_s,
                    deliver_at=deliver_at,
                    timeout_s=timeout_s,
                )
            )
        if self._client.options.linger_ms is not None:
            return self.submit(
                message, key=key, select=select, select_arg=select_arg, queue=queue, timeout_s=timeout_s
            ).result()
        direct = self._ways_now().direct
        observing = self._client.observing
        if observing is not None and observing.is_on and observing.takes(message):
            with observing.sending(message) as flight:
                return flight.stored(
                    self.send(
                        flight.message, key=key, select=select, select_arg=select_arg, queue=queue, timeout_s=timeout_s
                    )
                )
        outbox = self._client.outbox
        message = outbox.checked(message)
        picker, options = outbox.picker(message.topic), self._options(timeout_s)
        if picker is None:
            picker, options = self._find_in_time(message.topic, options)
        chosen = None
        if not (key is select is select_arg is queue is None):
            chosen = outbox.choose(picker, message, key, select, select_arg, queue)
        return direct.send(picker, outbox.single(message), options, chosen)

    def submit(
        self,
        message: Message,
        *,
        key: str | int | None = None,
        select: Select[A] | None = None,
        select_arg: A | None = None,
        queue: Queue | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        timeout_s: float | None = None,
    ) -> "Future[Sent]":
        """Send a message without waiting for it; it waits only while too many are on their way already.

        What is wrong with the message is raised here, and what becomes of it is in the future, which cannot be
        cancelled. A callback of the future runs on the loop: it may submit, and must not wait.
        """
        ways = self._ways_now()
        client, outbox = self._client, self._client.outbox
        is_delayed = delay_s is not None or deliver_at is not None
        if client.observing is not None and client.observing.is_on and client.observing.takes(message):
            flight = client.observing.sending(message, kind="delayed" if is_delayed else "normal")
            try:
                told = self.submit(
                    flight.message,
                    key=key,
                    select=select,
                    select_arg=select_arg,
                    queue=queue,
                    delay_s=delay_s,
                    deliver_at=deliver_at,
                    timeout_s=timeout_s,
                )
            except BaseException as error:
                flight.ended(error)
                raise
            told.add_done_callback(flight.landed)
            return told
        message = outbox.checked(message)
        picker, options = outbox.picker(message.topic), self._options(timeout_s)
        future: Future[Sent] = Future()
        future.set_running_or_notify_cancel()  # it cannot be called back
        try:
            if picker is None:
                picker, options = self._find_in_time(message.topic, options)
            if is_delayed:
                self._ready().run(client.wait_for_ages(picker))
        except (TransportError, ServerError) as error:
            future.set_exception(error)
            return future
        chosen = outbox.choose(picker, message, key, select, select_arg, queue)
        parcel = None
        if client.options.linger_ms is None or is_delayed or timeout_s is not None:
            parcel = outbox.single(message, delay_s=delay_s, deliver_at=deliver_at)
        client.flights.enter_in_thread(1, len(message.body))
        ways.submits.put(_Handed(future, picker, message, parcel, options, chosen))
        return future

    def send_many(self, messages: Iterable[Message], *, key: Key = None, timeout_s: float | None = None) -> list[Sent]:
        """Send messages packed into batches, and return a result for each, in their order.

        ``timeout_s`` is each batch's. Raises PartlySent if some were not stored; its ``results`` say which.
        """
        given = list(messages)
        ways, outbox, observing = self._ways_now(), self._client.outbox, self._client.observing
        if observing is not None and observing.is_on and observing.takes_all(given):
            with observing.sending(*given) as flight:
                return flight.stored(self.send_many(flight.messages, key=key, timeout_s=timeout_s))
        together = [outbox.checked(message) for message in given]
        if key is None and len(pack(together, most_bytes=self._client.options.batch_bytes)) == 1:
            return self._send_together(ways.direct, together, self._options(timeout_s))
        return self._ready().run(self._client.send_many(given, key=key, timeout_s=timeout_s))

    def _send_together(self, direct: Direct, messages: Sequence[Message], options: SendOptions) -> list[Sent]:
        """Send one batch, for which this thread would only wait: so it needs no loop."""
        outbox = self._client.outbox
        topic = messages[0].topic
        picker = outbox.picker(topic)
        if picker is None:
            picker, options = self._find_in_time(topic, options)
        try:
            if len(messages) == 1:
                return [direct.send(picker, outbox.single(messages[0]), options)]
            return direct.send(picker, outbox.batch(messages), options)
        except SendFailed as error:
            raise partly_sent([error] * len(messages)) from None

    def post(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Send a message one way: no answer, no promise; tried once. Raises SendFailed if there is no line."""
        direct = self._ways_now().direct
        observing = self._client.observing
        if observing is not None and observing.is_on and observing.takes(message):
            with observing.sending(message, kind="oneway") as flight:
                self.post(flight.message, timeout_s=timeout_s)
            return
        outbox = self._client.outbox
        message = outbox.checked(message)
        picker, options = outbox.picker(message.topic), self._client.options.send_options(timeout_s, is_oneway=True)
        if picker is None:
            picker, options = self._find_in_time(message.topic, options)
        direct.tell(picker, outbox.single(message, is_oneway=True), options)

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> "Transaction":
        """Begin a transaction, as a context: half a message first, then your work; leaving it commits."""
        return Transaction(self._ready(), self._client.transaction(message, timeout_s=timeout_s))

    def request(
        self,
        message: Message,
        *,
        timeout_s: float = 3.0,
        key: str | int | None = None,
        select: Select[A] | None = None,
        select_arg: A | None = None,
        queue: Queue | None = None,
    ) -> StoredMessage:
        """Send a message that wants a reply, and return the reply; raises ReplyTimedOut."""
        hub = self._ready()
        return hub.run(
            self._client.request(
                message, timeout_s=timeout_s, key=key, select=select, select_arg=select_arg, queue=queue
            )
        )

    def brokers(self) -> list[Standing]:
        """Show what is known of the brokers' speed and faults; nothing, unless slow ones are avoided."""
        self._ready()
        return self._client.brokers()

    def close(self) -> None:
        """Wait for what is on its way, hang up, and end its thread if it was the last. It cannot be opened again."""
        if not self.is_elsewhere and self._ways is not None:
            self._ways.direct.close(self._client.options.close_timeout_s)
        super().close()

    def _ways_now(self) -> _Ways:
        ways = self._ways
        if ways is not None and self._hub is not None and not self.is_elsewhere:
            return ways
        hub = self._ready()
        with self._opening:
            if self._ways is None:
                routes = self._client.session.routes
                self._ways = _Ways(
                    Direct(
                        self._client.session,
                        lambda topic, allowed_ms: hub.run(has_new_route(routes, topic, allowed_ms)),
                    ),
                    Submits(hub.loop, self._launch),
                )
            return self._ways

    def _launch(self, handed: _Handed) -> None:
        future, picker, message, parcel, options, queue = handed
        if parcel is None:
            self._client.linger(picker, message, queue, future)
        else:
            self._client.launch(picker, parcel, future, options, queue)

    def _find_in_time(self, topic: str, options: SendOptions) -> tuple[SharedPicker, SendOptions]:
        return self._ready().run(self._client.outbox.find_in_time(topic, options))

    def _options(self, timeout_s: float | None) -> SendOptions:
        return self._usual if timeout_s is None else self._client.options.send_options(timeout_s)


class Transaction:
    """One transaction, as a context: leaving it commits, an exception rolls back. Or `begin` and end it by hand.

    `Producer.transaction` makes it.
    """

    def __init__(self, hub: Hub, behind: AsyncTransaction) -> None:
        self._hub, self._behind = hub, behind

    @property
    def sent(self) -> Sent:
        """Where its half message is; consumers do not see it before the commit."""
        return self._behind.sent

    @property
    def message_id(self) -> str:
        """The id of its message."""
        return self._behind.message_id

    def begin(self) -> Self:
        """Store the half message."""
        self._hub.run(self._behind.begin())
        return self

    def commit(self) -> bool:
        """Let the message be seen; return whether the broker confirmed it. If not, it will ask, and be told."""
        return self._hub.run(self._behind.commit())

    def rollback(self) -> bool:
        """Drop the message; return whether the broker confirmed it. If not, it will ask, and be told."""
        return self._hub.run(self._behind.rollback())

    def __enter__(self) -> Self:
        """Store the half message."""
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back after an exception; nothing, if it was ended by hand."""
        self._hub.run(self._behind.__aexit__(kind, error, trace))
