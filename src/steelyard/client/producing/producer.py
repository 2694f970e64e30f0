"""The producer: from a message to a broker's word that it is stored.

    async with Producer("localhost:9876", group="shop") as producer:
        sent = await producer.send(Message("orders", b"{}"))

It picks the queue, walks around brokers that fail or are slow, and tries again elsewhere, all inside one deadline. The
rules are those of `balance`; how one message is driven through them is in sends.py, many at once in batches.py. What a
caller may decide is decided here: which queue, how late, in which namespace.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self, TypeVar, Unpack

from steelyard.balance.attempts import GaveUp, Sending, SendOptions
from steelyard.balance.ledger import Standing
from steelyard.client.connect import Connect, Where
from steelyard.client.context import Context
from steelyard.client.guard import closed
from steelyard.client.keywords import with_options
from steelyard.client.observing.message_trace import MessageTrace
from steelyard.client.observing.observing import Observing
from steelyard.client.producing.batches import Key, Lingering, send_many
from steelyard.client.producing.flights import Flights
from steelyard.client.producing.outbox import A, Outbox, Select
from steelyard.client.producing.parcels import Batch, HalfMessage, Parcel, Stamp
from steelyard.client.producing.pickers import SharedPicker
from steelyard.client.producing.producer_options import ProducerOptions, ProducerSettings
from steelyard.client.producing.requests import Requests
from steelyard.client.producing.sends import Dispatch, Promise
from steelyard.client.producing.sent import Sent
from steelyard.client.producing.telling import LedgerTeller
from steelyard.client.producing.transactions import Check, Transaction, Transactions
from steelyard.client.session import Session
from steelyard.dialect.delays import has_timers
from steelyard.dialect.sending import Half
from steelyard.errors import CannotConnect, ConfigurationError, LineClosed, SteelyardError
from steelyard.model import Message, Queue, StoredMessage
from steelyard.model.names import DEFAULT_PRODUCERS
from steelyard.net.clock import steady_ms

__all__ = ["DEFAULT_GROUP", "Producer"]

DEFAULT_GROUP = DEFAULT_PRODUCERS

R = TypeVar("R")

_LOOK_S = 0.005
_AGE_MS = 1_000
"""How long to wait for a broker's first word, where a delay depends on how old the broker is."""

_log = logging.getLogger("steelyard")


class Producer(Context):
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
        where: Where = None,
        group: str = DEFAULT_GROUP,
        *,
        check: Check | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Make a producer; ``check`` says what became of a transaction that another process began."""
        super().__init__()
        if not group or not isinstance(group, str):
            raise ConfigurationError("a producer has no group", next_step="give the group's name")
        if check is not None and not callable(check):
            raise ConfigurationError(
                f"check is a {type(check).__name__}", next_step="give a callable: message -> True, False or None"
            )
        self.connect = Connect.of(where)
        self.options = ProducerOptions(**settings)
        self._group, self._check = group, check
        options = self.options
        trace = MessageTrace(self.connect, "producer", group, options.trace_topic) if options.message_trace else None
        self.observing = Observing.of("producer", group, options.observers, trace)
        """Who is told what happens; None where nobody is."""
        self._usual = self.options.send_options()
        self._told: set[str] = set()
        self._session: Session | None = None
        self._is_closed = False
        self._opening = asyncio.Lock()

    __signature__ = with_options(__init__, ProducerOptions)

    # -- its life -----------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect, if it is not connected; sending something does it too."""
        await self._ready()
        return self

    async def close(self) -> None:
        """Wait for what is on its way, hang up, and fail what is left; calling it again does nothing."""
        if self.is_elsewhere or self._is_closed:
            return
        self._is_closed = True
        async with self._opening:
            session = self._session
        if session is None or session.is_stranded:
            return
        if self._lingering is not None:
            self._lingering.flush()
        end_ms = steady_ms() + round(self.options.close_timeout_s * 1000)
        while self.flights.count and steady_ms() < end_ms:
            await asyncio.sleep(_LOOK_S)
        self.flights.close(LineClosed("the producer was closed before an answer came"))
        self._requests.close()
        if self.observing is not None:
            await self.observing.closed()
        await session.close()

    async def _ready(self) -> Session:
        session = self._session
        if session is not None and not self._is_closed and not self.is_elsewhere:
            session.check_loop()
            return session
        self.check_process()
        self.check_open()
        async with self._opening:
            self.check_open()
            return self._session or await self._open()

    async def _open(self) -> Session:
        session = Session(self.connect)
        session.producer_groups.add(session.names.full(self._group))
        await session.start()
        options = self.options
        stamp = Stamp(
            session.names.full(self._group),
            session.names,
            options.compress_from,
            options.kind,
            self._has_timers,
            self._tell_once,
        )
        self.outbox = Outbox(session, stamp.group, options, stamp)
        LedgerTeller(session, self.outbox.pickers)
        self.flights = Flights(options.in_flight, options.in_flight_bytes)
        self._requests = Requests(session)
        self._transactions = Transactions(
            session, stamp.group, self.outbox.next_key, self._send_half, self._check, self._usual.timeout_ms
        )
        self._lingering: Lingering | None = None
        if options.linger_ms is not None:
            self._lingering = Lingering(
                self._launch_batch, self.outbox, options.linger_ms, options.batch_bytes, options.compress_from
            )
        if self.observing is not None:
            self._transactions.on_end = self.observing.ended_transaction
            self.observing.opened(session)
        self._session = session
        return session

    @property
    def session(self) -> Session:
        """Its lines; there once it is open."""
        if self._session is None:
            raise ConfigurationError("the producer is not open", next_step="open it, or use it as a context")
        return self._session

    @property
    def client_id(self) -> str:
        """What brokers know it by."""
        return self.session.client_id

    def check_open(self) -> None:
        """Refuse to work once it is closed."""
        if self._is_closed:
            raise closed(type(self).__name__)

    # -- sending ------------------------------------------------------------------------------------------------------

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
    ) -> Sent:
        """Send a message, and wait until a broker has stored it.

        Messages with one ``key`` go to one queue, as long as the topic keeps its queues: so make it first. They are in
        the order of sending, as long as each is waited for. ``select`` chooses by another rule, which is given
        ``select_arg`` if it has a third parameter; ``queue`` names the queue. Raises SendFailed, which lists each
        attempt.
        """
        if self.observing is not None and self.observing.is_on and self.observing.takes(message):
            await self._ready()
            kind = "normal" if delay_s is None and deliver_at is None else "delayed"
            with self.observing.sending(message, kind=kind) as flight:
                return flight.stored(
                    await self.send(
                        flight.message,
                        key=key,
                        select=select,
                        select_arg=select_arg,
                        queue=queue,
                        delay_s=delay_s,
                        deliver_at=deliver_at,
                        timeout_s=timeout_s,
                    )
                )
        session = self._session
        if session is None or self._is_closed or self.is_elsewhere:
            session = await self._ready()
        session.check_loop()
        outbox, options = self.outbox, self._usual if timeout_s is None else self.options.send_options(timeout_s)
        message = outbox.checked(message)
        picker = outbox.picker(message.topic)
        if picker is None:
            picker, options = await outbox.find_in_time(message.topic, options)
        chosen = outbox.choose(picker, message, key, select, select_arg, queue)
        size = len(message.body)
        promise: asyncio.Future[Sent] = session.loop.create_future()
        if delay_s is not None or deliver_at is not None:
            await self.wait_for_ages(picker)
            parcel = outbox.single(message, delay_s=delay_s, deliver_at=deliver_at)
        elif self._lingering is not None and timeout_s is None and self._lingering.takes(message):
            await self.flights.enter(1, size)
            self._lingering.add(picker, message, chosen, promise)
            return await promise
        else:
            parcel = outbox.single(message)
        # As in `deliver`, written out: this is the way that most messages go.
        if not self.flights.try_enter(1, size):
            await self.flights.enter(1, size)
        Dispatch(session, self.flights, picker, parcel, promise, options, chosen)
        return await promise

    async def send_many(
        self, messages: Iterable[Message], *, key: Key = None, timeout_s: float | None = None
    ) -> list[Sent]:
        """Send messages packed into batches, and return a result for each, in their order.

        ``timeout_s`` is each batch's. Raises PartlySent if some were not stored; its ``results`` say which.
        """
        await self._ready()
        options, given = self._options(timeout_s), list(messages)
        if self.observing is not None and self.observing.is_on and self.observing.takes_all(given):
            with self.observing.sending(*given) as flight:
                return flight.stored(await self.send_many(flight.messages, key=key, timeout_s=timeout_s))

        async def deliver(picker: SharedPicker, together: Sequence[Message], queue: Queue | None) -> list[Sent]:
            if len(together) == 1:
                return [await self.deliver(picker, self.outbox.single(together[0]), options, queue)]
            return await self.deliver(picker, self.outbox.batch(together), options, queue)

        return await send_many(self.outbox, deliver, given, key, self.options.batch_bytes)

    async def post(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Send a message one way: no answer, no promise; tried once. Raises SendFailed if there is no line."""
        session = await self._ready()
        if self.observing is not None and self.observing.is_on and self.observing.takes(message):
            with self.observing.sending(message, kind="oneway") as flight:
                await self.post(flight.message, timeout_s=timeout_s)
            return
        message = self.outbox.checked(message)
        options = self.options.send_options(timeout_s, is_oneway=True)
        picker, options = await self.outbox.find_in_time(message.topic, options)
        sending = Sending(picker, options)
        attempt = sending.begin(steady_ms())
        end_ms = steady_ms() + attempt.timeout_ms
        try:
            caller = session.broker(attempt.queue.broker)
            while caller.is_full or not caller.is_open:
                if steady_ms() >= end_ms or caller.failures:
                    raise CannotConnect(caller.why or f"no line to {caller.address} is free")
                await asyncio.sleep(_LOOK_S)
            caller.say(self.outbox.single(message, is_oneway=True).request(attempt.queue))
            sending.succeeded(steady_ms())
        except SteelyardError as error:
            end = sending.failed(error, steady_ms())
            if isinstance(end, GaveUp):
                raise end.error from None

    def transaction(self, message: Message, *, timeout_s: float | None = None) -> Transaction:
        """Begin a transaction, as a context: half a message first, then your work; leaving it commits."""
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
        """Send a message that wants a reply, and return the reply; raises ReplyTimedOut."""
        options = self._options(timeout_s)
        await self._ready()

        async def send(message: Message, more: Mapping[str, str]) -> Sent:
            if self.observing is not None and self.observing.is_on and self.observing.takes(message):
                with self.observing.sending(message) as flight:
                    return flight.stored(await send(flight.message, more))
            full = self.outbox.checked(message)
            picker, left = await self.outbox.find_in_time(full.topic, options)
            chosen = self.outbox.choose(picker, full, key, select, select_arg, queue)
            return await self.deliver(picker, self.outbox.single(full, more=more), left, chosen)

        return await self._requests.ask(message, send, options.timeout_ms)

    def brokers(self) -> list[Standing]:
        """Show what is known of the brokers' speed and faults; nothing, unless slow ones are avoided."""
        return self.outbox.pickers.standings() if self._session is not None else []

    # -- for those who send in other ways -----------------------------------------------------------------------------

    async def deliver(
        self, picker: SharedPicker, parcel: Parcel[R], options: SendOptions, chosen: Queue | None = None
    ) -> R:
        """Send a parcel, and return what a broker said to it."""
        promise: asyncio.Future[R] = self.session.loop.create_future()
        if not self.flights.try_enter(parcel.count, parcel.size):
            await self.flights.enter(parcel.count, parcel.size)
        self.launch(picker, parcel, promise, options, chosen)
        return await promise

    def launch(
        self,
        picker: SharedPicker,
        parcel: Parcel[R],
        promise: Promise[R],
        options: SendOptions,
        chosen: Queue | None = None,
    ) -> None:
        """Let a parcel leave that has its room already; the promise is kept later."""
        if self.flights.is_closed:
            self.flights.leave(parcel.count, parcel.size)
            promise.set_exception(LineClosed("the producer was closed before the message was sent"))
            return
        Dispatch(self.session, self.flights, picker, parcel, promise, options, chosen)

    def linger(self, picker: SharedPicker, message: Message, queue: Queue | None, promise: Promise[Sent]) -> None:
        """Let a message that has its room wait for others, or leave at once if it may not."""
        if self._lingering is not None and self._lingering.takes(message):
            self._lingering.add(picker, message, queue, promise)
        else:
            self.launch(picker, self.outbox.single(message), promise, self._usual, queue)

    def _launch_batch(
        self, picker: SharedPicker, batch: Batch, promise: Promise[list[Sent]], queue: Queue | None
    ) -> None:
        self.launch(picker, batch, promise, self._usual, queue)

    async def _open_transactions(self) -> Transactions:
        await self._ready()
        return self._transactions

    async def _send_half(self, message: Message, unique_key: str, timeout_s: float | None) -> tuple[Sent, Half]:
        await self._ready()
        if self.observing is not None and self.observing.is_on and self.observing.takes(message):
            with self.observing.sending(message, kind="half") as flight:
                sent, half = await self._send_half(flight.message, unique_key, timeout_s)
                return flight.stored(sent), half
        message = self.outbox.checked(message)
        picker, options = await self.outbox.find_in_time(message.topic, self._options(timeout_s))
        return await self.deliver(picker, HalfMessage(self.outbox.stamp, message, unique_key), options)

    def _options(self, timeout_s: float | None) -> SendOptions:
        return self._usual if timeout_s is None else self.options.send_options(timeout_s)

    def _has_timers(self, broker: str) -> bool:
        return has_timers(self.session.broker(broker).version)

    async def wait_for_ages(self, picker: SharedPicker) -> None:
        """Wait until every broker said something: its release is in it, and an old one knows no times of one's own."""
        end_ms = steady_ms() + _AGE_MS
        callers = [self.session.broker(broker) for broker in picker.brokers]
        while any(not caller.version and not caller.failures for caller in callers) and steady_ms() < end_ms:
            await asyncio.sleep(_LOOK_S)

    def _tell_once(self, note: str) -> None:
        if note not in self._told and len(self._told) < 100:
            self._told.add(note)
            _log.warning("%s", note)
