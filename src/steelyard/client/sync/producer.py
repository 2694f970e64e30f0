"""The blocking producer: the same rules as the async one, for any number of threads.

A plain `send` does not cross to the loop, nor does a single batch: each thread has its own connection to each broker
(client/producer/send_blocking.py). `submit` does: its sends share the loop's connections, and what several threads
submit crosses to the loop together.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self, Unpack

from steelyard.balance.producer.broker_latency import BrokerHealth
from steelyard.balance.producer.send_attempts import SendOptions
from steelyard.client.config import NamesrvOrConfig, signature_with_options
from steelyard.client.loop_thread import LoopThread
from steelyard.client.producer.accumulator import MessageKey, partly_sent
from steelyard.client.producer.options import ProducerOptions, ProducerSettings
from steelyard.client.producer.prepare import A, Select, SharedQueueRotation
from steelyard.client.producer.producer import DEFAULT_GROUP
from steelyard.client.producer.producer import Producer as AsyncProducer
from steelyard.client.producer.send_async import route_changed
from steelyard.client.producer.send_blocking import BlockingSender, LoopHandoff
from steelyard.client.producer.send_request import SingleSend
from steelyard.client.producer.send_result import SendResult
from steelyard.client.producer.transactions import Transaction as AsyncTransaction
from steelyard.client.producer.transactions import TransactionCheck
from steelyard.client.sync.client import SyncClient
from steelyard.errors import SendFailed, ServerError, TransportError
from steelyard.model import Message, Queue, StoredMessage
from steelyard.protocol.batch_send import group_into_batches


class _Submitted(NamedTuple):
    """A message on its way to the loop."""

    future: "Future[SendResult]"
    rotation: SharedQueueRotation
    message: Message
    request: SingleSend | None
    """None for a message that may be batched with others."""
    options: SendOptions
    queue: Queue | None


class _Senders(NamedTuple):
    """The two ways to send: in the caller's thread, and on the loop."""

    blocking: BlockingSender
    handoff: LoopHandoff[_Submitted]


class Producer(SyncClient[AsyncProducer]):
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
        namesrv: NamesrvOrConfig = None,
        group: str = DEFAULT_GROUP,
        *,
        check: TransactionCheck | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Make a producer; ``check`` decides about a transaction that another process began."""
        super().__init__(AsyncProducer(namesrv, group, check=check, **settings))
        self._senders: _Senders | None = None

    __signature__ = signature_with_options(__init__, ProducerOptions)

    @property
    def options(self) -> ProducerOptions:
        """Its options."""
        return self._client.options

    @property
    def client_id(self) -> str:
        """The id that brokers know it by."""
        self._ensure_open()
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
    ) -> SendResult:
        """Send a message, and wait until a broker has stored it.

        Messages with one ``key`` go to one queue, in the order of sending, as long as the topic keeps its queues, so
        create the topic first. ``select`` is another rule, and gets ``select_arg`` if it has a third parameter;
        ``queue`` names the queue. Raises SendFailed, which lists each attempt.
        """
        client = self._client
        if delay_s is not None or deliver_at is not None:
            return self._ensure_open().run(
                client.send(
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
        if client.options.linger_ms is not None:
            return self.submit(
                message, key=key, select=select, select_arg=select_arg, queue=queue, timeout_s=timeout_s
            ).result()
        senders = self._senders
        if senders is None or self._loop_thread is None or self.is_forked:
            senders = self._open_senders()
        if client.observers.is_on:
            with client.observers.sending(message) as observed:
                return observed.set_result(
                    self._send(senders.blocking, observed.messages[0], key, select, select_arg, queue, timeout_s)
                )
        return self._send(senders.blocking, message, key, select, select_arg, queue, timeout_s)

    def _send(
        self,
        sender: BlockingSender,
        message: Message,
        key: str | int | None,
        select: Select[A] | None,
        select_arg: A | None,
        queue: Queue | None,
        timeout_s: float | None,
    ) -> SendResult:
        client, preparer = self._client, self._client.preparer
        message = preparer.validate(message)
        options = client.default_options if timeout_s is None else client.options.send_options(timeout_s)
        rotation = preparer.rotations.by_topic.get(message.topic)
        if rotation is None:
            rotation, options = self._find_rotation(message.topic, options)
        chosen = None
        if not (key is select is select_arg is queue is None):
            chosen = preparer.choose_queue(rotation, message, key, select, select_arg, queue)
        return sender.send(rotation, preparer.prepare(message), options, chosen)

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
    ) -> "Future[SendResult]":
        """Start to send a message, and return the future of its result; it blocks only while too many are in flight.

        An invalid message raises here; everything else ends up in the future, which cannot be cancelled. A callback of
        the future runs on the loop: it may submit, and must not block.
        """
        senders = self._open_senders()
        client, preparer = self._client, self._client.preparer
        is_delayed = delay_s is not None or deliver_at is not None
        with client.observers.sending(message, delay_s=delay_s, deliver_at=deliver_at) as observed:
            message = preparer.validate(observed.messages[0])
            options = client.options_for(timeout_s)
            future: Future[SendResult] = Future()
            future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
            try:
                rotation, options = self._find_rotation(message.topic, options)
                if is_delayed:
                    self._ensure_open().run(client.wait_for_broker_versions(rotation))
            except (TransportError, ServerError) as error:
                future.set_exception(error)
                return observed.defer(future)
            chosen = preparer.choose_queue(rotation, message, key, select, select_arg, queue)
            request = None
            if client.options.linger_ms is None or is_delayed or timeout_s is not None:
                request = preparer.prepare(message, delay_s=delay_s, deliver_at=deliver_at)
            client.in_flight.acquire_in_thread(1, len(message.body))
            senders.handoff.submit(_Submitted(future, rotation, message, request, options, chosen))
            return observed.defer(future)

    def send_many(
        self, messages: Iterable[Message], *, key: MessageKey = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        """Send messages packed into batches, and return a result for each, in their order.

        ``timeout_s`` applies to each batch. Raises PartlySent if some were not stored; its ``results`` say which.
        """
        senders, client = self._open_senders(), self._client
        with client.observers.sending(*messages) as observed:
            given = observed.messages
            valid = [client.preparer.validate(message) for message in given]
            if key is None and len(group_into_batches(valid, max_bytes=client.options.batch_bytes)) == 1:
                return observed.set_result(self._send_batch(senders.blocking, valid, client.options_for(timeout_s)))
            return observed.set_result(self._ensure_open().run(client.send_batches(given, key, timeout_s)))

    def _send_batch(
        self, sender: BlockingSender, messages: Sequence[Message], options: SendOptions
    ) -> list[SendResult]:
        """Send one batch in this thread, which would only wait for the loop."""
        preparer = self._client.preparer
        rotation, options = self._find_rotation(messages[0].topic, options)
        try:
            if len(messages) == 1:
                return [sender.send(rotation, preparer.prepare(messages[0]), options)]
            return sender.send(rotation, preparer.prepare_batch(messages), options)
        except SendFailed as error:
            raise partly_sent([error] * len(messages)) from None

    def post(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Send a message one way: one attempt, no answer, no guarantee. Raises SendFailed without a connection."""
        sender, client = self._open_senders().blocking, self._client
        with client.observers.sending(message, kind="oneway") as observed:
            message = client.preparer.validate(observed.messages[0])
            options = client.options.send_options(timeout_s, is_oneway=True)
            rotation, options = self._find_rotation(message.topic, options)
            sender.send_oneway(rotation, client.preparer.prepare(message, is_oneway=True), options)

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> "Transaction":
        """Begin a transaction, as a context: it stores the half message, and leaving it commits."""
        return Transaction(self._ensure_open(), self._client.transaction(message, timeout_s=timeout_s))

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
        """Send a request and return its reply; raises ReplyTimedOut."""
        return self._ensure_open().run(
            self._client.request(
                message, timeout_s=timeout_s, key=key, select=select, select_arg=select_arg, queue=queue
            )
        )

    def brokers(self) -> list[BrokerHealth]:
        """Return the latency and failures of each broker; nothing unless ``avoid_slow_brokers`` is set."""
        self._ensure_open()
        return self._client.brokers()

    def close(self) -> None:
        """Wait for sends in flight, disconnect, and end the loop's thread if it was the last. It cannot be reopened."""
        if not self.is_forked and self._senders is not None:
            self._senders.blocking.close(self._client.options.close_timeout_s)
        super().close()

    def _open_senders(self) -> _Senders:
        senders = self._senders
        if senders is not None and self._loop_thread is not None and not self.is_forked:
            return senders
        loop_thread = self._ensure_open()
        with self._opening:
            if self._senders is None:
                session = self._client.session
                self._senders = _Senders(
                    BlockingSender(
                        session,
                        lambda topic, allowed_ms: loop_thread.run(route_changed(session.routes, topic, allowed_ms)),
                    ),
                    LoopHandoff(loop_thread.loop, self._start_send),
                )
            return self._senders

    def _start_send(self, submitted: _Submitted) -> None:
        future, rotation, message, request, options, queue = submitted
        if request is None:
            self._client.accumulate(rotation, message, queue, future)
        else:
            self._client.start_send(rotation, request, future, options, queue)

    def _find_rotation(self, topic: str, options: SendOptions) -> tuple[SharedQueueRotation, SendOptions]:
        """Return the rotation of a topic, looked up on the loop if need be, and options with the time that is left."""
        rotation = self._client.preparer.rotations.by_topic.get(topic)
        if rotation is not None:
            return rotation, options
        return self._ensure_open().run(self._client.preparer.find_rotation_in_time(topic, options))


class Transaction:
    """One transaction, as a context: leaving it commits, an exception rolls back. Or `begin` and end it by hand.

    `Producer.transaction` makes it.
    """

    def __init__(self, loop_thread: LoopThread, transaction: AsyncTransaction) -> None:
        self._loop_thread, self._transaction = loop_thread, transaction

    @property
    def sent(self) -> SendResult:
        """The result of sending the half message, which consumers do not see before the commit."""
        return self._transaction.sent

    @property
    def message_id(self) -> str:
        """The id of its message."""
        return self._transaction.message_id

    def begin(self) -> Self:
        """Store the half message."""
        self._loop_thread.run(self._transaction.begin())
        return self

    def commit(self) -> bool:
        """Make the message visible; return whether the broker confirmed it. If not, its check-back gets it."""
        return self._loop_thread.run(self._transaction.commit())

    def rollback(self) -> bool:
        """Drop the message; return whether the broker confirmed it. If not, its check-back gets it."""
        return self._loop_thread.run(self._transaction.rollback())

    def __enter__(self) -> Self:
        """Store the half message."""
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back after an exception, unless it was ended by hand."""
        self._loop_thread.run(self._transaction.__aexit__(kind, error, trace))
