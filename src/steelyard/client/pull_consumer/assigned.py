"""AssignedReader: reads exactly the given queues, without a membership and without rebalances.

Each queue has one pull under way; the next starts before the messages of the last are polled, while flow control allows
it. A failed pull is repeated after a pause, and a permanent refusal (`PullRefusals`) also raises in the next poll. An
unreadable message is handled as by a member; until its dead letter is stored, its offset is not done. A queue is done
up to its first message that is not, or up to where the next pull begins.

A 4.9 broker answers 0 for a group without a committed offset in a young queue; its table of all offsets (43) has the
truth.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from steelyard.balance.group.actions import MemberReport, PullMessages, StartPosition
from steelyard.balance.group.events import Pulled, PullFailed, PullOutcome, UnreadableMessage
from steelyard.balance.group.flow_control import queue_share
from steelyard.balance.group.options import UnreadablePolicy
from steelyard.client.broker_connection import BrokerConnection
from steelyard.client.consumer.explain import MemberExplanation, QueueExplanation
from steelyard.client.consumer.member_runner import PullRefusals, pull_refusal
from steelyard.client.consumer.notifications import Notifications
from steelyard.client.consumer.received_message import ReceivedMessage, message_type_for
from steelyard.client.pull_consumer.fetch_buffer import FetchBuffer, QueueBuffer
from steelyard.client.pull_consumer.options import PullConsumerOptions
from steelyard.client.pull_consumer.subscribed import unreadable_error
from steelyard.client.session import Session
from steelyard.errors import (
    ConfigurationError,
    NotFound,
    ProtocolError,
    ServerError,
    SteelyardError,
    TransportError,
    error_for,
)
from steelyard.model import Queue, Subscription
from steelyard.model.finding import Finding
from steelyard.net.clock import steady_ms
from steelyard.protocol.dead_letters import unreadable_letter_header
from steelyard.protocol.offset_lookup import (
    FindStartOffset,
    reports_missing_offsets,
    start_offset_request,
    stored_offset,
)
from steelyard.protocol.pull import LONG_POLL_MS, decode_pull, pull_by_offset_request
from steelyard.wire.codes import STORED_CODES, RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import OffsetResponse
from steelyard.wire.headers.group import CommitOffset, QueryConsumerOffset

_PULL_TIMEOUT_MS = LONG_POLL_MS + 15_000
_RETRY_DELAYS_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The delays before a failed pull is repeated; the last one repeats."""
_BUSY_S = 0.02
_EMPTY_MS, _MAX_EMPTY_PULLS = 100, 2
"""After so many pulls that were answered at once with nothing, though they asked for long polling."""
_COMMIT_S = 1.0
_TABLE_TIMEOUT_MS = 10_000
_DEAD_LETTER_TIMEOUT_MS = 3_000
_UNREADABLE_ACTIONS = {
    UnreadablePolicy.DEAD_LETTER: "it goes to the dead letters",
    UnreadablePolicy.SKIP: "it is skipped",
    UnreadablePolicy.STOP: "the queue stands still there",
}

_log = logging.getLogger("steelyard.client")


async def query_offset(session: Session, queue: Queue, start: StartPosition) -> int:
    """Return the offset of a start position in a queue."""
    code, header = start_offset_request(FindStartOffset(queue, start))
    answer = await session.request_ok(queue.broker, Command(code, header))
    return answer.header(OffsetResponse).offset


async def query_committed_offset(session: Session, group: str, queue: Queue) -> int | None:
    """Return a group's committed offset; None if it never committed."""
    topic, broker, queue_id = queue
    header = QueryConsumerOffset(group, topic, queue_id, set_zero_if_not_found=False)
    try:
        answer = await session.request_ok(broker, Command(RequestCode.QUERY_CONSUMER_OFFSET, header))
    except NotFound:
        return None
    offset = answer.header(OffsetResponse).offset
    if offset or reports_missing_offsets(answer.version):
        return offset
    request = Command(RequestCode.GET_ALL_CONSUMER_OFFSET, {})
    try:
        answer = await session.request_ok(broker, request, timeout_ms=_TABLE_TIMEOUT_MS)
        return stored_offset(answer.body, group, queue)
    except (ServerError, ProtocolError):
        return offset


@dataclass(slots=True, eq=False)
class _AssignedQueue:
    """One assigned queue."""

    queue: Queue
    buffer: QueueBuffer
    next: int | None = None
    """Where the next pull begins; None until that is known."""
    stored: int | None = None
    """The group's committed offset, as far as it is known."""
    broker_id: int = 0
    """Which broker of the name is read from: the master, or the replica that it suggested."""
    failures: int = 0
    empty_pulls: int = 0
    """How many pulls in a row were answered at once with nothing."""
    stopped: str = ""
    task: "asyncio.Task[None] | None" = None

    def low(self) -> int | None:
        """Return the first offset that is not done."""
        waiting = self.buffer.low()
        return self.next if waiting is None else waiting


class AssignedReader:
    """The assigned queues of one pull consumer, on the loop of its session."""

    def __init__(
        self,
        session: Session,
        options: PullConsumerOptions,
        subscriptions: Mapping[Queue, Subscription],
        buffer: FetchBuffer,
        wake: Callable[[], None],
        on_warning: Callable[[Finding], None],
    ) -> None:
        self._notifications = Notifications(options.group, session.namespace, lambda _: None, on_warning)
        self._dead_letter_tasks: set[asyncio.Task[None]] = set()
        self._session, self._options, self._buffer, self._wake = session, options, buffer, wake
        self._group = session.namespace.wrap(options.group)
        self._message_type = message_type_for(session.namespace)
        self._subscriptions = dict(subscriptions)
        self._readers: dict[Queue, _AssignedQueue] = {}
        self._generation = 0
        self._changed = asyncio.Event()
        """Set when a queue finds its start, or has room again."""
        self._committing: asyncio.Task[None] | None = None
        self.pending_error: SteelyardError | None = None
        """An error for the next poll."""
        self._refusals = PullRefusals()
        self._warned: set[object] = set()
        """What was logged once, by subject: sentences contain numbers that change."""
        self._since_ms = steady_ms()

    def start(self) -> None:
        """Start to read every queue from its committed offset, or from where the options say."""
        for queue in self._subscriptions:
            reader = self._readers[queue] = _AssignedQueue(queue, self._new_buffer(queue))
            self._run(reader)
        if self._options.auto_commit:
            self._committing = asyncio.get_running_loop().create_task(self._commit_periodically())

    async def close(self) -> None:
        """Stop reading; with ``auto_commit`` what is done is committed."""
        tasks = [reader.task for reader in self._readers.values() if reader.task is not None]
        tasks += self._dead_letter_tasks
        if self._committing is not None:
            tasks.append(self._committing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._options.auto_commit:
            try:
                await self.commit()
            except SteelyardError as error:
                _log.warning("the offsets of group %s could not be committed: %s", self._options.group, error)

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues, in their given order."""
        return tuple(self._subscriptions)

    def may_poll(self, buffer: QueueBuffer) -> bool:
        """Say whether messages of a buffer may be polled: its queue is not stopped."""
        return not self._readers[buffer.queue].stopped

    def handle_unreadable(self, message: ReceivedMessage, found: UnreadableMessage) -> bool:
        """Handle a message that cannot be read; return whether its queue stops."""
        reader, offset = self._readers[message.queue], message.offset
        choice = UnreadablePolicy.STOP if found.is_local else UnreadablePolicy(self._options.on_unreadable)
        error = unreadable_error(self._session.namespace.unwrap_queue(message.queue), offset, found)
        reader.buffer.remove_polled(offset)
        self._notifications.report(
            MemberReport("unreadable", f"{error.what} ({_UNREADABLE_ACTIONS[choice]})", (message.queue,)), steady_ms()
        )
        if choice is UnreadablePolicy.SKIP:
            return False
        reader.buffer.held.add(offset)
        if choice is UnreadablePolicy.STOP:
            reader.stopped = found.why
            self.pending_error = error
            return True
        task = asyncio.get_running_loop().create_task(self._send_dead_letter(reader.buffer, message, found.why))
        self._dead_letter_tasks.add(task)
        task.add_done_callback(self._dead_letter_tasks.discard)
        return False

    async def _send_dead_letter(self, buffer: QueueBuffer, message: ReceivedMessage, why: str) -> None:
        """Send a message to the dead letters, with retries until it is stored."""
        queue, tries = message.queue, 0
        letter = Command(RequestCode.SEND_MESSAGE_V2, unreadable_letter_header(self._group, message, why), message.body)
        while True:
            try:
                answer = await self._session.broker_connection(queue.broker).request(letter, _DEAD_LETTER_TIMEOUT_MS)
                if answer.code in STORED_CODES:
                    buffer.held.discard(message.offset)
                    return
                refused = error_for(answer.code, answer.remark or "", server=queue.broker)
                self._warn_once(f"a dead letter of {queue} cannot be stored: {refused}", about=(queue, answer.code))
            except TransportError as error:
                _log.debug("a dead letter of %s cannot be stored now: %s", queue, error)
            await asyncio.sleep(_RETRY_DELAYS_S[min(tries, len(_RETRY_DELAYS_S) - 1)])
            tries += 1

    def drop_revoked(self) -> None:
        """Do nothing: assigned queues are never revoked."""

    def on_polled(self) -> None:
        """Continue to pull: there may be room again."""
        self._signal_change()

    def on_done(self, buffer: QueueBuffer, _offsets: list[int]) -> None:
        """Do nothing: the buffer keeps what is done."""

    def pop_lost(self) -> tuple[Queue, ...]:
        """Return nothing: assigned queues are never revoked."""
        return ()

    def explain(self) -> MemberExplanation:
        """Explain what is read, and how far."""
        names, since_s = self._session.namespace, (steady_ms() - self._since_ms) / 1000
        explanations = [
            QueueExplanation(names.unwrap_queue(reader.queue), "assigned", since_s, _describe_progress(reader))
            for reader in self._readers.values()
        ]
        member = self._session.client_id
        return MemberExplanation(
            self._options.group, member, "assignment by hand", (member,), tuple(explanations), None, ()
        )

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""
        reader = self._reader(queue)
        while reader.next is None:
            if self.pending_error is not None:
                trouble, self.pending_error = self.pending_error, None
                raise trouble
            await self._changed.wait()
        first = reader.buffer.first()
        return reader.next if first is None else first

    def seek(self, queue: Queue, offset: int) -> None:
        """Continue at another offset; what was pulled is forgotten, and what was polled does not count any more."""
        reader = self._reader(queue)
        reader.buffer = self._new_buffer(queue)
        reader.next, reader.failures, reader.stopped = offset, 0, ""
        self._run(reader)

    def _reader(self, queue: Queue) -> _AssignedQueue:
        reader = self._readers.get(queue)
        if reader is None:
            named = ", ".join(map(str, self._subscriptions))
            raise ConfigurationError(f"{queue} is not assigned to this consumer", next_step=f"it has: {named}")
        return reader

    async def commit(self) -> tuple[Queue, ...]:
        """Commit what is done, where it changed. All queues are tried before an error is raised."""
        moved = {
            reader.queue: low
            for reader in self._readers.values()
            if (low := reader.low()) is not None and low != reader.stored
        }
        return await self.commit_at(moved)

    async def commit_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Commit these offsets as they are."""
        for queue in offsets:
            self._reader(queue)
        outcomes = await asyncio.gather(*(self._commit_one(*each) for each in offsets.items()), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return ()

    async def _commit_one(self, queue: Queue, offset: int) -> None:
        header = CommitOffset(self._group, queue.topic, queue.queue_id, offset)
        await self._session.request_ok(queue.broker, Command(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        self._readers[queue].stored = offset

    async def _commit_periodically(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            try:
                await self.commit()
            except TransportError as error:
                _log.debug("the offsets of group %s were not committed: %s", self._options.group, error)
            except SteelyardError as error:
                sentence = f"the offsets of group {self._options.group} cannot be committed: {error}"
                self._warn_once(sentence, about=type(error))

    def _new_buffer(self, queue: Queue) -> QueueBuffer:
        self._generation += 1
        return self._buffer.create(queue, self._generation)

    def _run(self, reader: _AssignedQueue) -> None:
        if reader.task is not None:
            # Whatever it waits for, such as a held pull, is not for this offset.
            reader.task.cancel()
        reader.task = asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: _AssignedQueue) -> None:
        while True:
            try:
                if reader.next is None:
                    await self._find_start(reader)
                else:
                    await self._wait_for_room(reader)
                    await self._pull(reader, reader.next)
            except TransportError as error:
                _log.debug("%s cannot be read now: %s", reader.queue, error)
                # Its master may be gone, and the name servers may know of a replica.
                self._session.routes.refresh_soon(reader.queue.topic)
            except SteelyardError as error:
                self._pull_refused(reader, error)
            else:
                reader.failures = 0
                refusal = self._refusals.clear(reader.queue)
                if refusal is self.pending_error:
                    # It reads again: a previous error would only disturb the next poll.
                    self.pending_error = None
                continue
            reader.broker_id = 0
            reader.failures += 1
            await asyncio.sleep(_RETRY_DELAYS_S[min(reader.failures, len(_RETRY_DELAYS_S)) - 1])

    async def _find_start(self, reader: _AssignedQueue) -> None:
        stored = await query_committed_offset(self._session, self._group, reader.queue)
        offset = stored
        if offset is None:
            offset = await query_offset(self._session, reader.queue, self._options.start)
        reader.next, reader.stored = offset, stored
        self._signal_change()

    async def _wait_for_room(self, reader: _AssignedQueue) -> None:
        options, buffer = self._options, reader.buffer
        queues = sum(queue.topic == reader.queue.topic for queue in self._subscriptions)
        most = queue_share(options.topic_messages, queues, options.queue_messages)
        most_bytes = queue_share(options.topic_bytes, queues, options.queue_bytes)
        while buffer.count >= most or buffer.body_bytes >= most_bytes:
            await self._changed.wait()

    async def _pull(self, reader: _AssignedQueue, offset: int) -> None:
        buffer = reader.buffer
        pull = PullMessages(reader.queue, buffer.generation, offset, self._options.pull_batch)
        wanted = self._subscriptions[reader.queue]
        server = self._connection_for(reader)
        asked_ms = steady_ms()
        answer = await server.request(pull_by_offset_request(self._group, pull, wanted), _PULL_TIMEOUT_MS)
        event, broker_id = decode_pull(pull, answer, {wanted.topic: wanted}, self._message_type)
        if isinstance(event, PullFailed):
            if not event.is_busy:
                raise pull_refusal(event.queue, answer, server.server or server.address, event.why)
            await asyncio.sleep(_BUSY_S)
            return
        reader.broker_id = max(broker_id, 0)
        self._buffer_messages(reader, event)
        is_empty = event.outcome is PullOutcome.NOTHING and event.next_offset <= offset
        reader.empty_pulls = reader.empty_pulls + 1 if is_empty and steady_ms() - asked_ms < _EMPTY_MS else 0
        if reader.empty_pulls >= _MAX_EMPTY_PULLS:
            await asyncio.sleep(_EMPTY_MS / 1_000)

    def _buffer_messages(self, reader: _AssignedQueue, event: Pulled) -> None:
        if event.outcome is PullOutcome.OFFSET_MOVED:
            what = f"{reader.queue} has no offset {reader.next}: it is read on from {event.next_offset}"
            self._warn_once(what, about=reader.queue)
        reader.next = event.next_offset
        if event.offsets:
            self._buffer.add(reader.buffer, event.offsets, cast("list[ReceivedMessage]", event.messages))
            self._wake()

    def _connection_for(self, reader: _AssignedQueue) -> BrokerConnection:
        broker = reader.queue.broker
        if reader.broker_id:
            address = self._session.broker_place(broker).addresses.get(reader.broker_id)
            if address is not None:
                return self._session.connection_at(address)
        return self._session.broker_connection(broker)

    def _pull_refused(self, reader: _AssignedQueue, error: SteelyardError) -> None:
        if self._refusals.record(reader.queue, error):
            self.pending_error = error
            self._signal_change()
            self._wake()
        elif isinstance(error, ServerError):
            self._warn_once(f"{reader.queue} cannot be read: {error}", about=(reader.queue, error.code))

    def _signal_change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _warn_once(self, text: str, about: object) -> None:
        """Say something that may happen again and again: once."""
        if about not in self._warned:
            self._warned.add(about)
            _log.warning("%s", text)


def _describe_progress(reader: _AssignedQueue) -> str:
    if reader.next is None:
        return "its start offset is requested"
    said = f"done up to {reader.low()}, {reader.buffer.count} wait and {len(reader.buffer.polled)} are polled"
    if reader.stopped:
        return f"{said}; it stands still at a message that cannot be read: {reader.stopped}"
    return f"{said}; it cannot be read now, and is tried again" if reader.failures else said
