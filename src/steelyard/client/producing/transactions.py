"""A producer's transactions: a half message first, then the user's work, then the end; and what brokers ask meanwhile.

An end is said once and its answer awaited: Apache's broker stores a second copy if it is told to commit twice. Where no
answer comes the decision is kept, and told when the broker asks, which it does by itself. A broker that asks about a
transaction that is still open here gets no answer: it will ask again. Only about one that this process does not know,
because another one began it, the user's ``check`` is asked: True commits, False rolls back, None lets the broker ask
again. A plain ``check`` runs in a thread of its own, never on the loop; one that is ``async`` is awaited there.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec import structs

from steelyard.client.observing.observer import TransactionEnd
from steelyard.client.producing.sent import Sent
from steelyard.client.threads import call_in_thread
from steelyard.dialect.sending import Half
from steelyard.dialect.transactions import end_request, read_check
from steelyard.errors import ConfigurationError, SendFailed, SteelyardError, TransportError, error_for
from steelyard.model import Message, StoredMessage
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.property_names import PRODUCER_GROUP

if TYPE_CHECKING:
    from steelyard.client.session import Session

__all__ = ["Check", "Transaction", "Transactions"]

Check = Callable[[StoredMessage], "bool | Awaitable[bool | None] | None"]
"""Says what became of a transaction: True it is to be seen, False it is not, None nobody knows yet."""

_SendHalf = Callable[[Message, str, float | None], Awaitable[tuple[Sent, Half]]]
"""Sends half of a message, with its unique key, in so many seconds."""

_MOST_ASKED = 2_000
"""Questions that may wait for the user's answer; more are passed over, brokers ask again."""
_MOST_KEPT = 100_000
"""Decisions that no broker has confirmed; the oldest are forgotten beyond it, and then ``check`` is asked."""

_log = logging.getLogger("steelyard")


class Transactions:
    """The transactions of one producer; on the loop."""

    def __init__(
        self,
        session: "Session",
        group: str,
        next_key: Callable[[], str],
        send_half: _SendHalf,
        check: Check | None,
        end_ms: int,
    ) -> None:
        self._session, self._group, self._check, self._end_ms = session, group, check, end_ms
        self._next_key, self._send_half = next_key, send_half
        self._open: set[str] = set()
        self._decided: dict[str, bool] = {}
        self._asked: set[str] = set()
        self._checking = asyncio.Lock()
        """Held while a check that is no coroutine runs: one at a time."""
        self._failures: set[type[BaseException]] = set()
        """What checks raised: told with where it came from once."""
        self._is_told = False
        self.on_end: Callable[[TransactionEnd], None] | None = None
        """Who wants to know how transactions end."""
        session.serves[RequestCode.CHECK_TRANSACTION_STATE] = self._take_question

    async def begin(self, message: Message, timeout_s: float | None) -> tuple[Sent, Half]:
        """Store half of a message; from now on its transaction is open here."""
        key = self._next_key()
        # Before it is sent: a broker may ask about it before its answer is here.
        self._open.add(key)
        try:
            return await self._send_half(message, key, timeout_s)
        except BaseException:
            self._open.discard(key)
            raise

    async def end(self, message: Message, broker: str, half: Half, *, commits: bool) -> bool:
        """Tell a broker how the transaction of a message ends; return whether it has confirmed it. A no is raised."""
        self._tell_end(message, broker, half, commits=commits)
        self._open.discard(half.unique_key)
        while len(self._decided) >= _MOST_KEPT:
            del self._decided[next(iter(self._decided))]
        self._decided[half.unique_key] = commits
        try:
            request = end_request(self._group, self._session.names.full(message.topic), half, commits=commits)
            answer = await self._session.broker(broker).ask(request, self._end_ms)
        except TransportError as error:
            how = "commit" if commits else "roll back"
            _log.warning("%s has not confirmed to %s %s: %s; it will ask", broker, how, half.unique_key, error.what)
            return False
        if answer.code != 0:
            # The decision is kept: as long as the broker has the half, it will ask.
            raise error_for(answer.code, answer.remark or "", server=broker)
        self._decided.pop(half.unique_key, None)
        return True

    def _take_question(self, broker: str, question: Command) -> None:
        half, message = read_check(question, broker)
        key = half.unique_key
        if message.properties.get(PRODUCER_GROUP) != self._group:
            return
        if key in self._decided:
            self._answer(broker, message, half, commits=self._decided[key])
        elif key in self._open or key in self._asked or len(self._asked) >= _MOST_ASKED:
            return
        elif self._check is not None:
            self._asked.add(key)
            self._session.spawn(self._find_out(self._check, broker, message, half))
        elif not self._is_told:
            self._is_told = True
            _log.warning(
                "%s asks what became of transaction %s of group %s, and nobody here knows; give the producer a check=",
                broker,
                key,
                self._group,
            )

    async def _find_out(self, check: Check, broker: str, message: StoredMessage, half: Half) -> None:
        names = self._session.names
        shown = structs.replace(message, queue=names.bare_queue(message.queue)) if names.namespace else message
        try:
            if inspect.iscoroutinefunction(check):
                commits = await check(shown)
            else:
                async with self._checking:
                    commits = await call_in_thread("steelyard-check", check, shown)
                if inspect.isawaitable(commits):
                    commits = await commits
        except Exception as error:
            trace = None if type(error) in self._failures else error
            self._failures.add(type(error))
            _log.warning("the check of transaction %s failed: %r", half.unique_key, error, exc_info=trace)
            return
        finally:
            self._asked.discard(half.unique_key)
        if commits is not None:
            self._answer(broker, message, half, commits=bool(commits))

    def _answer(self, broker: str, message: StoredMessage, half: Half, *, commits: bool) -> None:
        self._tell_end(message, broker, half, commits=commits, was_asked=True)
        request = end_request(self._group, message.topic, half, commits=commits, was_asked=True, is_oneway=True)
        self._session.broker(broker).say(request)

    def _tell_end(
        self, message: Message | StoredMessage, broker: str, half: Half, *, commits: bool, was_asked: bool = False
    ) -> None:
        if self.on_end is not None:
            topic, keys = self._session.names.bare(message.topic), tuple(message.keys)
            self.on_end(TransactionEnd(half.unique_key, topic, message.tags, keys, broker, commits, was_asked))


class Transaction:
    """One transaction, as a context: leaving it commits, an exception rolls back. Or `begin` and end it by hand."""

    def __init__(
        self, find_desk: Callable[[], Awaitable[Transactions]], message: Message, timeout_s: float | None
    ) -> None:
        self._find_desk, self._message, self._timeout_s = find_desk, message, timeout_s
        self._begun: _Begun | None = None
        self._has_ended = False

    @property
    def sent(self) -> Sent:
        """Where its half message is; consumers do not see it before the commit."""
        return self._needs_begin().sent

    @property
    def message_id(self) -> str:
        """The id of its message."""
        return self.sent.message_id

    async def begin(self) -> Self:
        """Store the half message."""
        if self._begun is not None:
            raise ConfigurationError("the transaction has begun already", next_step="make another one")
        desk = await self._find_desk()
        sent, half = await desk.begin(self._message, self._timeout_s)
        self._begun = _Begun(desk, sent, half)
        if sent.late:
            # A crash of the broker could lose it, after the user's work is done.
            await self.rollback()
            raise SendFailed(
                f"half of the message to {self._message.topic!r} was stored late, so its transaction was rolled back",
                next_step="begin it again",
            )
        return self

    async def commit(self) -> bool:
        """Let the message be seen; return whether the broker confirmed it. If not, it will ask, and be told."""
        return await self._end(commits=True)

    async def rollback(self) -> bool:
        """Drop the message; return whether the broker confirmed it. If not, it will ask, and be told."""
        return await self._end(commits=False)

    async def _end(self, *, commits: bool) -> bool:
        desk, sent, half = self._needs_begin()
        if self._has_ended:
            raise ConfigurationError(
                f"the transaction of {sent.message_id} has ended already", next_step="end it once: commit or roll back"
            )
        self._has_ended = True
        return await desk.end(self._message, sent.queue.broker, half, commits=commits)

    def _needs_begin(self) -> "_Begun":
        if self._begun is None:
            raise ConfigurationError("the transaction has not begun", next_step="begin it, or use it as a context")
        return self._begun

    async def __aenter__(self) -> Self:
        """Store the half message."""
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back after an exception; nothing, if it was ended by hand."""
        if self._has_ended:
            return
        if error is None:
            await self.commit()
            return
        try:
            await self.rollback()
        except SteelyardError as refused:
            _log.warning("transaction %s was not rolled back: %s", self.message_id, refused)


class _Begun(NamedTuple):
    desk: Transactions
    sent: Sent
    half: Half
