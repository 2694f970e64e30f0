"""The producer for asyncio: chooses a queue, sends, and retries on other brokers within one deadline.

    async with Producer("localhost:9876", group="shop") as producer:
        sent = await producer.send(Message("orders", b"{}"))

It routes around brokers that fail or are slow. The rules are those of `balance.producer`; send_async.py drives one send
through them, accumulator.py many at once. What the caller decides is checked here: the queue, the delay, the namespace.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self, TypeVar, Unpack

from steelyard.balance.producer.broker_latency import BrokerHealth
from steelyard.balance.producer.send_attempts import SendAttempts, SendGaveUp, SendOptions
from steelyard.client.config import ClientConfig, NamesrvOrConfig, signature_with_options
from steelyard.client.observers.message_trace import MessageTraceWriter
from steelyard.client.observers.observers import Observers
from steelyard.client.process_guard import AsyncClient, closed_error
from steelyard.client.producer.accumulator import BatchAccumulator, MessageKey, send_many
from steelyard.client.producer.latency_report import LatencyReporter
from steelyard.client.producer.options import ProducerOptions, ProducerSettings
from steelyard.client.producer.prepare import A, Select, SendPreparer, SharedQueueRotation
from steelyard.client.producer.request_reply import RequestReply
from steelyard.client.producer.send_async import AsyncSend, InFlightLimit, Promise
from steelyard.client.producer.send_request import BatchSend, HalfSend, SendDefaults, SendRequest
from steelyard.client.producer.send_result import SendResult
from steelyard.client.producer.transactions import ProducerTransactions, Transaction, TransactionCheck
from steelyard.client.session import Session
from steelyard.errors import CannotConnect, ConfigurationError, ConnectionClosed, SteelyardError
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.reserved_names import DEFAULT_PRODUCER_GROUP
from steelyard.net.clock import steady_ms
from steelyard.protocol.send import HalfMessageRef, supports_timers

DEFAULT_GROUP = DEFAULT_PRODUCER_GROUP

R = TypeVar("R")

_POLL_S = 0.005
_VERSION_TIMEOUT_MS = 1_000
"""How long to wait for a broker's first answer: the form of a delay depends on the broker's version."""

_log = logging.getLogger("steelyard.client")


class Producer(AsyncClient):
    """Sends messages; any number of tasks of one loop may share one. All options are in `ProducerOptions`.

    >>> from steelyard.serve.embedded import Cluster
    >>> async def send_both(namesrv: str) -> set[str]:
    ...     async with Producer(namesrv, group="shop") as producer:
    ...         one, other = Message("orders", b"1"), Message("orders", b"2")
    ...         sent = await asyncio.gather(producer.send(one, key="order-1"), producer.send(other, delay_s=30))
    ...     return {each.queue.topic for each in sent}
    >>> with Cluster() as cluster:
    ...     asyncio.run(send_both(cluster.namesrv))
    {'orders'}
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
        super().__init__()
        if not group or not isinstance(group, str):
            raise ConfigurationError("a producer has no group", next_step="give the group's name")
        if check is not None and not callable(check):
            raise ConfigurationError(
                f"check is a {type(check).__name__}", next_step="give a callable: message -> True, False or None"
            )
        self.config = ClientConfig.of(namesrv)
        self.options = ProducerOptions(**settings)
        self._group, self._check = group, check
        options = self.options
        trace = (
            MessageTraceWriter(self.config, "producer", group, options.trace_topic) if options.message_trace else None
        )
        self.observers = Observers("producer", group, options.observers, trace)
        self.default_options = self.options.send_options()
        self._warned: set[str] = set()
        self._session: Session | None = None
        self._is_closed = False
        self._opening = asyncio.Lock()

    __signature__ = signature_with_options(__init__, ProducerOptions)

    async def open(self) -> Self:
        """Connect unless connected; the first send does it too."""
        await self._ensure_open()
        return self

    async def close(self) -> None:
        """Wait for sends in flight, fail what is left, and disconnect; calling it again does nothing."""
        if self.is_forked or self._is_closed:
            return
        self._is_closed = True
        async with self._opening:
            session = self._session
        if session is None or session.is_loop_closed:
            return
        if self._accumulator is not None:
            self._accumulator.flush()
        end_ms = steady_ms() + round(self.options.close_timeout_s * 1000)
        while self.in_flight.count and steady_ms() < end_ms:
            await asyncio.sleep(_POLL_S)
        self.in_flight.close(ConnectionClosed("the producer was closed before an answer came"))
        self._request_reply.close()
        await self.observers.closed()
        await session.close()

    async def _ensure_open(self) -> Session:
        session = self._session
        if session is not None and not self._is_closed and not self.is_forked:
            session.check_loop()
            return session
        self.check_process()
        self.check_open()
        async with self._opening:
            self.check_open()
            return self._session or await self._open()

    async def _open(self) -> Session:
        session = Session(self.config)
        session.producer_groups.add(session.namespace.wrap(self._group))
        await session.start()
        options = self.options
        defaults = SendDefaults(
            session.namespace.wrap(self._group),
            session.namespace,
            options.compress_from,
            options.compression_kind,
            self._has_timers,
            self._warn_once,
        )
        self.preparer = SendPreparer(session, defaults.group, options, defaults)
        LatencyReporter(session, self.preparer.rotations)
        self.in_flight = InFlightLimit(options.in_flight, options.in_flight_bytes)
        self._request_reply = RequestReply(session)
        self._transactions = ProducerTransactions(
            session,
            defaults.group,
            self.preparer.next_key,
            self._send_half,
            self._check,
            self.default_options.timeout_ms,
            self.observers.ended_transaction,
        )
        self._accumulator: BatchAccumulator | None = None
        if options.linger_ms is not None:
            self._accumulator = BatchAccumulator(
                self._start_batch, self.preparer, options.linger_ms, options.batch_bytes, options.compress_from
            )
        self.observers.opened(session)
        self._session = session
        return session

    @property
    def session(self) -> Session:
        """Its session, once it is open."""
        if self._session is None:
            raise ConfigurationError("the producer is not open", next_step="open it, or use it as a context")
        return self._session

    @property
    def client_id(self) -> str:
        """The id that brokers know it by."""
        return self.session.client_id

    def check_open(self) -> None:
        """Raise ConfigurationError once it is closed."""
        if self._is_closed:
            raise closed_error(type(self).__name__)

    async def send(
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

        Messages with one ``key`` go to one queue as long as the topic keeps its queues, so create the topic first.
        They are stored in the order of sending if each send is awaited before the next. ``select`` is another rule, and
        gets ``select_arg`` if it has a third parameter; ``queue`` names the queue. Raises SendFailed, which lists each
        attempt.
        """
        session = self._session
        if session is None or self._is_closed or self.is_forked:
            session = await self._ensure_open()
        session.check_loop()
        is_delayed = delay_s is not None or deliver_at is not None
        with self.observers.sending(message, delay_s=delay_s, deliver_at=deliver_at) as observed:
            preparer = self.preparer
            options = self.default_options if timeout_s is None else self.options.send_options(timeout_s)
            message = preparer.validate(observed.messages[0])
            rotation = preparer.rotations.by_topic.get(message.topic)
            if rotation is None:
                rotation, options = await preparer.find_rotation_in_time(message.topic, options)
            chosen = preparer.choose_queue(rotation, message, key, select, select_arg, queue)
            promise: asyncio.Future[SendResult] = session.loop.create_future()
            if is_delayed:
                await self.wait_for_broker_versions(rotation)
            elif self._accumulator is not None and timeout_s is None and self._accumulator.accepts(message):
                await self.in_flight.acquire(1, len(message.body))
                self._accumulator.add(rotation, message, chosen, promise)
                return observed.set_result(await promise)
            request = preparer.prepare(message, delay_s=delay_s, deliver_at=deliver_at)
            # As in `send_prepared`, written out: most messages go this way.
            if not self.in_flight.try_acquire(1, request.size):
                await self.in_flight.acquire(1, request.size)
            AsyncSend(session, self.in_flight, rotation, request, promise, options, chosen)
            return observed.set_result(await promise)

    async def send_many(
        self, messages: Iterable[Message], *, key: MessageKey = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        """Send messages packed into batches, and return a result for each, in their order.

        ``timeout_s`` applies to each batch. Raises PartlySent if some were not stored; its ``results`` say which.
        """
        await self._ensure_open()
        with self.observers.sending(*messages) as observed:
            return observed.set_result(await self.send_batches(observed.messages, key, timeout_s))

    async def send_batches(
        self, messages: Sequence[Message], key: MessageKey, timeout_s: float | None
    ) -> list[SendResult]:
        """Send messages packed into batches; observers are the caller's business."""
        options = self.options_for(timeout_s)

        async def send_batch(
            rotation: SharedQueueRotation, batch: Sequence[Message], queue: Queue | None
        ) -> list[SendResult]:
            if len(batch) == 1:
                return [await self.send_prepared(rotation, self.preparer.prepare(batch[0]), options, queue)]
            return await self.send_prepared(rotation, self.preparer.prepare_batch(batch), options, queue)

        return await send_many(self.preparer, send_batch, messages, key, self.options.batch_bytes)

    async def post(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Send a message one way: one attempt, no answer, no guarantee. Raises SendFailed without a connection."""
        session = await self._ensure_open()
        with self.observers.sending(message, kind="oneway") as observed:
            message = self.preparer.validate(observed.messages[0])
            options = self.options.send_options(timeout_s, is_oneway=True)
            rotation, options = await self.preparer.find_rotation_in_time(message.topic, options)
            attempts = SendAttempts(rotation, options)
            attempt = attempts.begin(steady_ms())
            end_ms = steady_ms() + attempt.timeout_ms
            try:
                connection = session.broker_connection(attempt.queue.broker)
                while connection.is_write_blocked or not connection.is_open:
                    if steady_ms() >= end_ms or connection.failures:
                        raise CannotConnect(connection.last_error or f"no connection to {connection.address} is free")
                    await asyncio.sleep(_POLL_S)
                connection.send(self.preparer.prepare(message, is_oneway=True).encode(attempt.queue))
                attempts.succeeded(steady_ms())
            except SteelyardError as error:
                end = attempts.failed(error, steady_ms())
                if isinstance(end, SendGaveUp):
                    raise end.error from None

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> Transaction:
        """Begin a transaction, as a context: it stores the half message, and leaving it commits."""
        self.check_process()
        self.check_open()
        return Transaction(self._open_transactions, message, timeout_s)

    async def request(
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
        options = self.options_for(timeout_s)
        await self._ensure_open()

        async def send(message: Message, extra: Mapping[str, str]) -> SendResult:
            with self.observers.sending(message) as observed:
                message = self.preparer.validate(observed.messages[0])
                rotation, left = await self.preparer.find_rotation_in_time(message.topic, options)
                chosen = self.preparer.choose_queue(rotation, message, key, select, select_arg, queue)
                request = self.preparer.prepare(message, extra_properties=extra)
                return observed.set_result(await self.send_prepared(rotation, request, left, chosen))

        return await self._request_reply.request(message, send, options.timeout_ms)

    def brokers(self) -> list[BrokerHealth]:
        """Return the latency and failures of each broker; nothing unless ``avoid_slow_brokers`` is set."""
        return self.preparer.rotations.broker_health() if self._session is not None else []

    async def send_prepared(
        self, rotation: SharedQueueRotation, request: SendRequest[R], options: SendOptions, chosen: Queue | None = None
    ) -> R:
        """Send a request, and return what it reads from the broker's answer."""
        promise: asyncio.Future[R] = self.session.loop.create_future()
        if not self.in_flight.try_acquire(request.count, request.size):
            await self.in_flight.acquire(request.count, request.size)
        self.start_send(rotation, request, promise, options, chosen)
        return await promise

    def start_send(
        self,
        rotation: SharedQueueRotation,
        request: SendRequest[R],
        promise: Promise[R],
        options: SendOptions,
        chosen: Queue | None = None,
    ) -> None:
        """Start a send that has acquired its room in flight; the promise gets its result."""
        if self.in_flight.is_closed:
            self.in_flight.release(request.count, request.size)
            promise.set_exception(ConnectionClosed("the producer was closed before the message was sent"))
            return
        AsyncSend(self.session, self.in_flight, rotation, request, promise, options, chosen)

    def accumulate(
        self, rotation: SharedQueueRotation, message: Message, queue: Queue | None, promise: Promise[SendResult]
    ) -> None:
        """Add a message that has its room to a batch, or start its send if it cannot be batched."""
        if self._accumulator is not None and self._accumulator.accepts(message):
            self._accumulator.add(rotation, message, queue, promise)
        else:
            self.start_send(rotation, self.preparer.prepare(message), promise, self.default_options, queue)

    def _start_batch(
        self, rotation: SharedQueueRotation, batch: BatchSend, promise: Promise[list[SendResult]], queue: Queue | None
    ) -> None:
        self.start_send(rotation, batch, promise, self.default_options, queue)

    async def _open_transactions(self) -> ProducerTransactions:
        await self._ensure_open()
        return self._transactions

    async def _send_half(
        self, message: Message, unique_key: str, timeout_s: float | None
    ) -> tuple[SendResult, HalfMessageRef]:
        await self._ensure_open()
        with self.observers.sending(message, kind="half") as observed:
            message = self.preparer.validate(observed.messages[0])
            rotation, options = await self.preparer.find_rotation_in_time(message.topic, self.options_for(timeout_s))
            request = HalfSend(self.preparer.defaults, message, unique_key)
            sent, half = await self.send_prepared(rotation, request, options)
            return observed.set_result(sent), half

    def options_for(self, timeout_s: float | None) -> SendOptions:
        """Return the options of one send."""
        return self.default_options if timeout_s is None else self.options.send_options(timeout_s)

    def _has_timers(self, broker: str) -> bool:
        return supports_timers(self.session.broker_connection(broker).version)

    async def wait_for_broker_versions(self, rotation: SharedQueueRotation) -> None:
        """Wait until every broker has answered once: its version decides whether it can deliver at any time."""
        end_ms = steady_ms() + _VERSION_TIMEOUT_MS
        connections = [self.session.broker_connection(broker) for broker in rotation.brokers]
        while any(not each.version and not each.failures for each in connections) and steady_ms() < end_ms:
            await asyncio.sleep(_POLL_S)

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warned and len(self._warned) < 100:
            self._warned.add(warning)
            _log.warning("%s", warning)
