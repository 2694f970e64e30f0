"""Transactions of a producer: stores the half message, ends it, and answers the check-backs of brokers.

The end is sent once and its answer awaited: Apache's broker stores a second copy if it gets two commits. If no answer
arrives, the decision is kept for the broker's check-back. A check-back of a transaction that is still open here gets no
answer: the broker will check again. Only for one that this process does not know, because another one began it, the
user's ``check`` is called: True commits, False rolls back, None lets the broker check again. A plain ``check`` runs in
a thread of its own, never on the loop; an ``async`` one is awaited there.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from steelyard.client.loop_thread import call_in_thread
from steelyard.client.observers.observer import TransactionEnd
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import ConfigurationError, SendFailed, SteelyardError, TransportError, error_for
from steelyard.model import Message, StoredMessage
from steelyard.protocol.send import HalfMessageRef, end_transaction_request, read_transaction_check
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.property_names import PRODUCER_GROUP

if TYPE_CHECKING:
    from steelyard.client.session import Session

TransactionCheck = Callable[[StoredMessage], "bool | Awaitable[bool | None] | None"]
"""Decides about a transaction: True commits, False rolls back, None is not known yet."""

_SendHalf = Callable[[Message, str, float | None], Awaitable[tuple[SendResult, HalfMessageRef]]]
"""Sends a half message, with its unique key, within so many seconds."""

_MAX_CHECKS = 2_000
"""Check-backs that may wait for the user's answer; more are ignored, since brokers check again."""
_MAX_DECISIONS = 100_000
"""Decisions that no broker has confirmed; beyond it the oldest are dropped, and ``check`` is called for them."""

_log = logging.getLogger("steelyard.client")


class ProducerTransactions:
    """The transactions of one producer; on the loop."""

    def __init__(
        self,
        session: "Session",
        group: str,
        next_key: Callable[[], str],
        send_half: _SendHalf,
        check: TransactionCheck | None,
        end_timeout_ms: int,
        on_end: Callable[[TransactionEnd], None],
    ) -> None:
        self._session, self._group, self._check, self._end_timeout_ms = session, group, check, end_timeout_ms
        self._next_key, self._send_half = next_key, send_half
        self._open: set[str] = set()
        self._decided: dict[str, bool] = {}
        self._under_check: set[str] = set()
        self._check_lock = asyncio.Lock()
        """Held while a plain check runs: one at a time."""
        self._failures: set[type[BaseException]] = set()
        """Types of errors that checks raised; each is logged with its traceback once."""
        self._has_warned = False
        self._on_end = on_end
        session.request_handlers[RequestCode.CHECK_TRANSACTION_STATE] = self._check_requested

    async def begin(self, message: Message, timeout_s: float | None) -> tuple[SendResult, HalfMessageRef]:
        """Store a half message; from now on its transaction is open here."""
        key = self._next_key()
        # Before it is sent: a check-back may arrive before the answer.
        self._open.add(key)
        try:
            return await self._send_half(message, key, timeout_s)
        except BaseException:
            self._open.discard(key)
            raise

    async def end(self, message: Message, broker: str, half: HalfMessageRef, *, commits: bool) -> bool:
        """Send the end of a transaction; return whether the broker confirmed it. Raises if it refused."""
        self._notify_end(message, broker, half, commits=commits)
        self._open.discard(half.unique_key)
        while len(self._decided) >= _MAX_DECISIONS:
            del self._decided[next(iter(self._decided))]
        self._decided[half.unique_key] = commits
        try:
            request = end_transaction_request(
                self._group, self._session.namespace.wrap(message.topic), half, is_commit=commits
            )
            answer = await self._session.broker_connection(broker).request(request, self._end_timeout_ms)
        except TransportError as error:
            how = "commit" if commits else "roll back"
            _log.warning(
                "%s has not confirmed to %s %s: %s; its check-back gets the decision",
                broker,
                how,
                half.unique_key,
                error.what,
            )
            return False
        if answer.code != 0:
            # The decision is kept: the broker checks as long as it has the half message.
            raise error_for(answer.code, answer.remark or "", server=broker)
        self._decided.pop(half.unique_key, None)
        return True

    def _check_requested(self, broker: str, request: Command) -> None:
        half, message = read_transaction_check(request, broker)
        key = half.unique_key
        if message.properties.get(PRODUCER_GROUP) != self._group:
            return
        if key in self._decided:
            self._send_decision(broker, message, half, commits=self._decided[key])
        elif key in self._open or key in self._under_check or len(self._under_check) >= _MAX_CHECKS:
            return
        elif self._check is not None:
            self._under_check.add(key)
            self._session.spawn(self._run_check(self._check, broker, message, half))
        elif not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s checks transaction %s of group %s, which is not known here; give the producer a check=",
                broker,
                key,
                self._group,
            )

    async def _run_check(
        self, check: TransactionCheck, broker: str, message: StoredMessage, half: HalfMessageRef
    ) -> None:
        shown = self._session.namespace.unwrap_stored(message)
        try:
            if inspect.iscoroutinefunction(check):
                commits = await check(shown)
            else:
                async with self._check_lock:
                    commits = await call_in_thread("steelyard-check", check, shown)
                if inspect.isawaitable(commits):
                    commits = await commits
        except Exception as error:
            trace = None if type(error) in self._failures else error
            self._failures.add(type(error))
            _log.warning("the check of transaction %s failed: %r", half.unique_key, error, exc_info=trace)
            return
        finally:
            self._under_check.discard(half.unique_key)
        if commits is not None:
            self._send_decision(broker, message, half, commits=bool(commits))

    def _send_decision(self, broker: str, message: StoredMessage, half: HalfMessageRef, *, commits: bool) -> None:
        self._notify_end(message, broker, half, commits=commits, was_asked=True)
        request = end_transaction_request(
            self._group, message.topic, half, is_commit=commits, is_check_response=True, is_oneway=True
        )
        self._session.broker_connection(broker).send(request)

    def _notify_end(
        self,
        message: Message | StoredMessage,
        broker: str,
        half: HalfMessageRef,
        *,
        commits: bool,
        was_asked: bool = False,
    ) -> None:
        topic, keys = self._session.namespace.unwrap(message.topic), tuple(message.keys)
        self._on_end(TransactionEnd(half.unique_key, topic, message.tags, keys, broker, commits, was_asked))


class Transaction:
    """One transaction, as a context: leaving it commits, an exception rolls back. Or `begin` and end it by hand."""

    def __init__(
        self,
        find_transactions: Callable[[], Awaitable[ProducerTransactions]],
        message: Message,
        timeout_s: float | None,
    ) -> None:
        self._find_transactions, self._message, self._timeout_s = find_transactions, message, timeout_s
        self._begun: _Begun | None = None
        self._has_ended = False

    @property
    def sent(self) -> SendResult:
        """The result of sending the half message, which consumers do not see before the commit."""
        return self._needs_begin().sent

    @property
    def message_id(self) -> str:
        """The id of its message."""
        return self.sent.message_id

    async def begin(self) -> Self:
        """Store the half message."""
        if self._begun is not None:
            raise ConfigurationError("the transaction has begun already", next_step="make another one")
        transactions = await self._find_transactions()
        sent, half = await transactions.begin(self._message, self._timeout_s)
        self._begun = _Begun(transactions, sent, half)
        if sent.late:
            # A crash of the broker could lose it, after the user's work is done.
            await self.rollback()
            raise SendFailed(
                f"half of the message to {self._message.topic!r} was stored late, so its transaction was rolled back",
                next_step="begin it again",
            )
        return self

    async def commit(self) -> bool:
        """Make the message visible; return whether the broker confirmed it. If not, its check-back gets it."""
        return await self._end(commits=True)

    async def rollback(self) -> bool:
        """Drop the message; return whether the broker confirmed it. If not, its check-back gets it."""
        return await self._end(commits=False)

    async def _end(self, *, commits: bool) -> bool:
        transactions, sent, half = self._needs_begin()
        if self._has_ended:
            raise ConfigurationError(
                f"the transaction of {sent.message_id} has ended already", next_step="end it once: commit or roll back"
            )
        self._has_ended = True
        return await transactions.end(self._message, sent.queue.broker, half, commits=commits)

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
        """Commit, or roll back after an exception, unless it was ended by hand."""
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
    transactions: ProducerTransactions
    sent: SendResult
    half: HalfMessageRef
