"""Reading exactly the queues that were named: no membership, nobody to share with, nothing that moves.

Each queue has one pull under way, the next before the messages of the last one are polled, as long as not too many of
them wait. A pull carries the subscription, so no broker has to know us. A pull that fails is repeated after a pause;
one whose refusal will last (refusals.py) is also told to who polls next. An offset out of range goes on where the
broker says, and that is said once.

A message that cannot be read is dealt with here as by a member (balance/handling.py); until its dead letter is stored
its offset counts as not done.

How far a queue is done is the first message that is not; if there is none, where the next pull begins.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from steelyard.balance.actions import Pull, Report
from steelyard.balance.events import Pulled, PullFailed, PullOutcome, Unreadable
from steelyard.balance.hazards import Hazard
from steelyard.balance.member_options import OnUnreadable
from steelyard.balance.pace import share_of
from steelyard.client.caller import Caller
from steelyard.client.consuming.explained import Explained, QueueStanding
from steelyard.client.consuming.news import Moved, News
from steelyard.client.consuming.received import Received, received_in
from steelyard.client.pulling.puller_options import PullerOptions
from steelyard.client.pulling.queue_offsets import ask_committed, ask_offset, commit_offset
from steelyard.client.pulling.shared import unreadable_error
from steelyard.client.pulling.shelves import Shelf, Shelves
from steelyard.client.refusals import Refusals, refusal_of
from steelyard.client.session import Session
from steelyard.dialect.dead_letters import unreadable_letter
from steelyard.dialect.pulling import pulled
from steelyard.dialect.reading import HOLD_MS, read_request
from steelyard.errors import ConfigurationError, ServerError, SteelyardError, TransportError, error_for
from steelyard.model import Queue, Subscription
from steelyard.net.clock import steady_ms
from steelyard.wire.codes import STORED, RequestCode
from steelyard.wire.command import Command

__all__ = ["Assigned"]

_PULL_MS = HOLD_MS + 15_000
_AGAIN_S = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Before a pull is tried again that failed; the last one repeats."""
_BUSY_S = 0.02
_EMPTY_MS, _MOST_HASTY = 100, 2
"""After so many pulls that were answered at once with nothing, though the broker was asked to hold them."""
_COMMIT_S = 1.0
_LETTER_MS = 3_000
_DONE = {
    OnUnreadable.DEAD_LETTER: "it goes to the dead letters",
    OnUnreadable.SKIP: "it is skipped",
    OnUnreadable.STOP: "the queue stands still there",
}

_log = logging.getLogger("steelyard")


@dataclass(slots=True, eq=False)
class _Reader:
    """One queue that is read."""

    queue: Queue
    shelf: Shelf
    next: int | None = None
    """Where the next pull begins; None until that is known."""
    stored: int | None = None
    """What the broker has as the group's offset, as far as we know."""
    broker_id: int = 0
    """Which broker of the name is read from: the master, or the slave that it suggested."""
    failures: int = 0
    hasty: int = 0
    """How many pulls in a row were answered at once with nothing."""
    stopped: str = ""
    """Why it stands still."""
    task: "asyncio.Task[None] | None" = None

    def low(self) -> int | None:
        """Return the first offset that is not done."""
        waiting = self.shelf.low()
        return self.next if waiting is None else waiting


class Assigned:
    """The queues of one puller that were named. It runs on the loop of its session."""

    def __init__(
        self,
        session: Session,
        options: PullerOptions,
        wanted: Mapping[Queue, Subscription],
        shelves: Shelves,
        wake: Callable[[], None],
        on_hazard: Callable[[Hazard], None],
    ) -> None:
        self._news = News(options.group, session.names, _never, on_hazard)
        self._letters: set[asyncio.Task[None]] = set()
        """Dead letters that are on their way."""
        self._session, self._options, self._shelves, self._wake = session, options, shelves, wake
        self._group = session.names.full(options.group)
        self._make = received_in(session.names)
        self._wanted = dict(wanted)
        self._readers: dict[Queue, _Reader] = {}
        self._generation = 0
        self._changed = asyncio.Event()
        """Set when a reader learns where it is, or has room again."""
        self._committing: asyncio.Task[None] | None = None
        self.trouble: SteelyardError | None = None
        """Why a queue cannot be read, for whoever polls next."""
        self._refusals = Refusals()
        self._told: set[object] = set()
        """What was said once: by what it is about, since sentences have numbers in them that change."""
        self._since_ms = steady_ms()

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read every queue from where the group is, or from where it is to start."""
        for queue in self._wanted:
            reader = self._readers[queue] = _Reader(queue, self._begin(queue))
            self._run(reader)
        if self._options.auto_commit:
            self._committing = asyncio.get_running_loop().create_task(self._commit_now_and_then())

    async def close(self) -> None:
        """Stop reading; what is done is stored, if that is to happen by itself."""
        tasks = [reader.task for reader in self._readers.values() if reader.task is not None]
        tasks += self._letters
        if self._committing is not None:
            tasks.append(self._committing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._options.auto_commit:
            try:
                await self.store()
            except SteelyardError as error:
                _log.warning("how far the group %s is could not be stored: %s", self._options.group, error)

    # -- for who polls ------------------------------------------------------------------------------------------------

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues, in the order in which they were named."""
        return tuple(self._wanted)

    def may_give(self, shelf: Shelf) -> bool:
        """Say whether messages of a shelf may be polled: nobody else has the queue, but it may stand still."""
        return not self._readers[shelf.queue].stopped

    def unreadable(self, message: Received, found: Unreadable) -> bool:
        """Deal with a message that cannot be read; say whether its queue stands still."""
        reader, offset = self._readers[message.queue], message.offset
        choice = OnUnreadable.STOP if found.is_here else OnUnreadable(self._options.on_unreadable)
        error = unreadable_error(self._session.names.bare_queue(message.queue), offset, found)
        reader.shelf.withdraw(offset)
        self._news.report(Report("unreadable", f"{error.what} ({_DONE[choice]})", (message.queue,)), steady_ms())
        if choice is OnUnreadable.SKIP:
            return False
        reader.shelf.held.add(offset)
        if choice is OnUnreadable.STOP:
            reader.stopped = found.why
            self.trouble = error
            return True
        task = asyncio.get_running_loop().create_task(self._bury(reader.shelf, message, found.why))
        self._letters.add(task)
        task.add_done_callback(self._letters.discard)
        return False

    async def _bury(self, shelf: Shelf, message: Received, why: str) -> None:
        """Send a message to the dead letters, however often that takes: then it is done."""
        queue, tries = message.queue, 0
        letter = Command(RequestCode.SEND_MESSAGE_V2, unreadable_letter(self._group, message, why), message.body)
        while True:
            try:
                answer = await self._session.broker(queue.broker).ask(letter, _LETTER_MS)
                if answer.code in STORED:
                    shelf.held.discard(message.offset)
                    return
                refused = error_for(answer.code, answer.remark or "", server=queue.broker)
                self._tell_once(f"a dead letter of {queue} cannot be stored: {refused}", about=(queue, answer.code))
            except TransportError as error:
                _log.debug("a dead letter of %s cannot be stored now: %s", queue, error)
            await asyncio.sleep(_AGAIN_S[min(tries, len(_AGAIN_S) - 1)])
            tries += 1

    def look(self) -> None:
        """Look at what changed: nothing can."""

    def polled(self) -> None:
        """Take note that messages were polled: there may be room again."""
        self._note()

    def done(self, shelf: Shelf, _offsets: list[int]) -> None:
        """Take note that messages are done: the shelf knows all that counts."""

    def lost(self) -> tuple[Queue, ...]:
        """Return queues that others have by now: none, ever."""
        return ()

    def explain(self) -> Explained:
        """Return what is read, and how far."""
        names, since_s = self._session.names, (steady_ms() - self._since_ms) / 1000
        standings = [
            QueueStanding(names.bare_queue(reader.queue), "assigned", since_s, _standing(reader))
            for reader in self._readers.values()
        ]
        member = self._session.client_id
        return Explained(self._options.group, member, "assignment by hand", (member,), tuple(standings), None, ())

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""
        reader = self._reader(queue)
        while reader.next is None:
            if self.trouble is not None:
                trouble, self.trouble = self.trouble, None
                raise trouble
            await self._change()
        first = reader.shelf.first()
        return reader.next if first is None else first

    def seek(self, queue: Queue, offset: int) -> None:
        """Go on at another offset; what was pulled is forgotten, and what was polled before does not count any more."""
        reader = self._reader(queue)
        reader.shelf = self._begin(queue)
        reader.next, reader.failures, reader.stopped = offset, 0, ""
        self._run(reader)

    def _reader(self, queue: Queue) -> _Reader:
        reader = self._readers.get(queue)
        if reader is None:
            named = ", ".join(map(str, self._wanted))
            raise ConfigurationError(f"{queue} is not assigned to this puller", next_step=f"it has: {named}")
        return reader

    # -- progress -----------------------------------------------------------------------------------------------------

    async def store(self) -> tuple[Queue, ...]:
        """Store how far each queue is done, where that moved. All are tried before one fails, and none can be lost."""
        moved = {
            reader.queue: low
            for reader in self._readers.values()
            if (low := reader.low()) is not None and low != reader.stored
        }
        return await self.store_at(moved)

    async def store_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Store these offsets as they are."""
        for queue in offsets:
            self._reader(queue)
        outcomes = await asyncio.gather(*(self._commit(*each) for each in offsets.items()), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return ()

    async def _commit(self, queue: Queue, offset: int) -> None:
        await commit_offset(self._session, self._group, queue, offset)
        self._readers[queue].stored = offset

    async def _commit_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            try:
                await self.store()
            except TransportError as error:
                _log.debug("how far the group %s is was not stored: %s", self._options.group, error)
            except SteelyardError as error:
                sentence = f"how far the group {self._options.group} is cannot be stored: {error}"
                self._tell_once(sentence, about=type(error))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _begin(self, queue: Queue) -> Shelf:
        self._generation += 1
        return self._shelves.begin(queue, self._generation)

    def _run(self, reader: _Reader) -> None:
        if reader.task is not None:
            # Whatever it waits for, be it a pull that the broker holds, is not for this offset.
            reader.task.cancel()
        reader.task = asyncio.get_running_loop().create_task(self._read(reader))

    async def _read(self, reader: _Reader) -> None:
        while True:
            try:
                if reader.next is None:
                    await self._find_start(reader)
                else:
                    await self._room(reader)
                    await self._pull(reader, reader.next)
            except TransportError as error:
                _log.debug("%s cannot be read now: %s", reader.queue, error)
                # Its master may be gone, and the name servers may know of a replica.
                self._session.routes.refresh_soon(reader.queue.topic)
            except SteelyardError as error:
                self._refused(reader, error)
            else:
                reader.failures = 0
                refusal = self._refusals.clear(reader.queue)
                if refusal is self.trouble:
                    # It reads on: an error from before would only stop the one who polls.
                    self.trouble = None
                continue
            reader.broker_id = 0
            reader.failures += 1
            await asyncio.sleep(_AGAIN_S[min(reader.failures, len(_AGAIN_S)) - 1])

    async def _find_start(self, reader: _Reader) -> None:
        stored = await ask_committed(self._session, self._group, reader.queue)
        offset = stored
        if offset is None:
            offset = await ask_offset(self._session, reader.queue, self._options.start)
        reader.next, reader.stored = offset, stored
        self._note()

    async def _room(self, reader: _Reader) -> None:
        options, shelf = self._options, reader.shelf
        queues = sum(queue.topic == reader.queue.topic for queue in self._wanted)
        most = share_of(options.topic_messages, queues, options.queue_messages)
        most_bytes = share_of(options.topic_bytes, queues, options.queue_bytes)
        while shelf.count >= most or shelf.body_bytes >= most_bytes:
            await self._change()

    async def _pull(self, reader: _Reader, offset: int) -> None:
        shelf = reader.shelf
        pull = Pull(reader.queue, shelf.generation, offset, self._options.pull_batch)
        wanted = self._wanted[reader.queue]
        server = self._server(reader)
        asked_ms = steady_ms()
        answer = await server.ask(read_request(self._group, pull, wanted), _PULL_MS)
        event, broker_id = pulled(pull, answer, {wanted.topic: wanted}, self._make)
        if isinstance(event, PullFailed):
            await self._failed(event, answer, server)
            return
        reader.broker_id = max(broker_id, 0)
        self._take(reader, event)
        is_empty = event.outcome is PullOutcome.NOTHING and event.next_offset <= offset
        reader.hasty = reader.hasty + 1 if is_empty and steady_ms() - asked_ms < _EMPTY_MS else 0
        if reader.hasty >= _MOST_HASTY:
            await asyncio.sleep(_EMPTY_MS / 1_000)

    def _take(self, reader: _Reader, event: Pulled) -> None:
        if event.outcome is PullOutcome.MOVED:
            what = f"{reader.queue} has no offset {reader.next}: it is read on from {event.next_offset}"
            self._tell_once(what, about=reader.queue)
        reader.next = event.next_offset
        if event.offsets:
            self._shelves.put(reader.shelf, event.offsets, cast("list[Received]", event.messages))
            self._wake()

    async def _failed(self, event: PullFailed, answer: Command, server: Caller) -> None:
        if not event.busy:
            raise refusal_of(event.queue, answer, server.server or server.address, event.why)
        await asyncio.sleep(_BUSY_S)

    def _server(self, reader: _Reader) -> Caller:
        broker = reader.queue.broker
        if reader.broker_id:
            address = self._session.place(broker).addresses.get(reader.broker_id)
            if address is not None:
                return self._session.at(address)
        return self._session.broker(broker)

    def _refused(self, reader: _Reader, error: SteelyardError) -> None:
        if self._refusals.note(reader.queue, error):
            self.trouble = error
            self._note()
            self._wake()
        elif isinstance(error, ServerError):
            self._tell_once(f"{reader.queue} cannot be read: {error}", about=(reader.queue, error.code))

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _note(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _change(self) -> None:
        await self._changed.wait()

    def _tell_once(self, sentence: str, about: object) -> None:
        """Say something that may happen again and again: once."""
        if about not in self._told:
            self._told.add(about)
            _log.warning("%s", sentence)


def _standing(reader: _Reader) -> str:
    if reader.next is None:
        return "where to begin is asked"
    said = f"done up to {reader.low()}, {reader.shelf.count} wait and {len(reader.shelf.polled)} are polled"
    if reader.stopped:
        return f"{said}; it stands still at a message that cannot be read: {reader.stopped}"
    return f"{said}; it cannot be read now, and is tried again" if reader.failures else said


def _never(_moved: Moved) -> None:
    """Hear of moves, which there are none of."""
