"""SubscribedReader: reads the queues that rebalances assign to this member, whose handler is the code that polls.

What the user has done is reported to the state machine, which commits it. A queue that is revoked gives back at once
what was not polled, and waits for what was polled until it is done, or the drain time is over. A queue that was lost
loses what was polled: it is redelivered elsewhere, and the next commit raises.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from steelyard.balance.group.actions import HandleMessages, MemberReport
from steelyard.balance.group.events import CommitRequested, Handled, MessagesPolled, OffsetReset, UnreadableMessage
from steelyard.balance.group.options import UnreadablePolicy
from steelyard.balance.group.process_queue import QueueStatus
from steelyard.balance.group.queue_states import QueueState
from steelyard.client.consumer.explain import MemberExplanation, explain_member
from steelyard.client.consumer.member_runner import MemberRunner
from steelyard.client.consumer.notifications import Notifications, Rebalanced
from steelyard.client.consumer.received_message import ReceivedMessage, message_type_for
from steelyard.client.pull_consumer.fetch_buffer import FetchBuffer, QueueBuffer
from steelyard.client.pull_consumer.options import PullConsumerOptions
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError, MalformedRecord, QueuesLost, SteelyardError, TimedOut
from steelyard.model import Queue, Subscription
from steelyard.model.finding import Finding
from steelyard.model.formatting import pluralize
from steelyard.net.clock import now_ms, steady_ms

_COMMIT_S = 5.0
_DRAIN_MS = 1_000
_LEAVE_S = 5.0
"""A bit more than the state machine's own timeout: what is given back drains at once, unless a broker is silent."""

_POLLABLE = frozenset({QueueState.OWNED, QueueState.UNSURE})
"""States in which waiting messages may still be polled, now or once ownership is confirmed."""
_COMMITTABLE = frozenset({QueueState.OWNED, QueueState.UNSURE, QueueState.DRAINING, QueueState.COMMITTING})

_log = logging.getLogger("steelyard.client")


def queues_lost_error(queues: Iterable[Queue]) -> QueuesLost:
    """Return the error of a commit that was too late for some queues."""
    what = "queues went to another member before they were committed, and what was polled is redelivered there"
    return QueuesLost(what, queues=tuple(map(str, queues)))


def unreadable_error(queue: Queue, offset: int, found: UnreadableMessage) -> MalformedRecord:
    """Return the error of a poll of a stopped queue."""
    what = f"{queue}, offset {offset}, cannot be read: {found.why}"
    next_step = "start it again with that installed" if found.is_local else "seek behind it to go on"
    return MalformedRecord(what, where="record", next_step=next_step)


@dataclass(slots=True, eq=False)
class _PendingCommit:
    """Offsets that a commit waits for."""

    targets: dict[Queue, tuple[int, int]]
    """By queue: its generation, and the offset to reach."""
    future: "asyncio.Future[None]"
    lost: list[Queue] = field(default_factory=list)


class SubscribedReader:
    """The queues of one pull consumer in a group, on the loop of its session."""

    pending_error: SteelyardError | None = None
    """An error for the next poll."""

    def __init__(
        self,
        session: Session,
        options: PullConsumerOptions,
        subscriptions: Mapping[str, Subscription],
        buffer: FetchBuffer,
        wake: Callable[[], None],
        on_rebalance: Callable[[Rebalanced], None],
        on_warning: Callable[[Finding], None],
    ) -> None:
        self._session, self._buffer, self._wake = session, buffer, wake
        self._notifications = Notifications(options.group, session.namespace, on_rebalance, on_warning)
        self.member_runner = MemberRunner(
            session,
            options.member_options(session.namespace, session.client_id, subscriptions),
            on_handle=self._handle,
            on_report=self._report,
            on_left=self._member_left,
            after_step=self._after_step,
            message_type=message_type_for(session.namespace),
        )
        self.member = self.member_runner.member
        self._changes = 0
        self._lost: dict[Queue, None] = {}
        """Queues that were revoked while polled messages were not done."""
        self._pending_commits: list[_PendingCommit] = []
        self._left_group: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Join the group."""
        self.member_runner.start()

    async def close(self) -> None:
        """Release all queues and leave; what is not done is given back."""
        self.member_runner.leave(_DRAIN_MS)
        for buffer in self._buffer.all():
            self._return_offsets(buffer, buffer.mark_done() + buffer.clear())
        await asyncio.wait([self._left_group], timeout=_LEAVE_S)
        self.member_runner.close()

    def _member_left(self) -> None:
        if not self._left_group.done():
            self._left_group.set_result(None)

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are owned now."""
        return self.member.assignment()

    @property
    def avoided(self) -> int:
        """How many polled messages were done before their queue was released."""
        return self.member.sessions.duplicates_avoided

    def may_poll(self, buffer: QueueBuffer) -> bool:
        """Say whether messages of a buffer may be polled: its queue is owned beyond doubt."""
        return self.member.may_start(buffer.queue, buffer.generation, steady_ms())

    def drop_revoked(self) -> None:
        """Drop what is buffered of queues that were revoked, or started again."""
        for buffer in self._buffer.all():
            self._check_buffer(buffer)

    def on_polled(self) -> None:
        """Report what the user has: it does not count as waiting."""
        for buffer in self._buffer.all():
            if buffer.polled:
                self.member_runner.feed(MessagesPolled(buffer.queue, buffer.generation, len(buffer.polled)))

    def on_done(self, buffer: QueueBuffer, offsets: list[int]) -> None:
        """Report what is done."""
        queue, generation = buffer.queue, buffer.generation
        self.member_runner.feed_all(
            (Handled(queue, generation, offsets), MessagesPolled(queue, generation, len(buffer.polled)))
        )

    def handle_unreadable(self, message: ReceivedMessage, found: UnreadableMessage) -> bool:
        """Report a message that cannot be read; if its queue stops, the next poll raises."""
        queue, offset = message.queue, message.offset
        buffer = self._buffer.find(queue)
        if buffer is not None:
            buffer.remove_polled(offset)
            self.member_runner.feed(Handled(queue, buffer.generation, (), unreadable={offset: found}))
        is_still = found.is_local or self.member.options.on_unreadable is UnreadablePolicy.STOP
        if is_still:
            self.pending_error = unreadable_error(self._session.namespace.unwrap_queue(queue), offset, found)
        return is_still

    def pop_lost(self) -> tuple[Queue, ...]:
        """Return queues that were revoked while polled messages were not done, each once."""
        lost, self._lost = tuple(self._lost), {}
        return lost

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""
        progress = self._require_progress(queue, frozenset({QueueState.OWNED}))
        buffer = self._buffer.find(queue)
        first = None if buffer is None or buffer.generation != progress.generation else buffer.first()
        return progress.next_offset if first is None else first

    def seek(self, queue: Queue, offset: int) -> None:
        """Continue at another offset, which is committed; what was polled before does not count any more."""
        self._require_progress(queue, frozenset({QueueState.OWNED}))
        buffer = self._buffer.drop(queue)
        self.member_runner.feed(OffsetReset(queue, offset))
        if buffer is not None:
            self._return_offsets(buffer, buffer.mark_done() + buffer.clear())

    def _require_progress(self, queue: Queue, states: frozenset[QueueState]) -> QueueStatus:
        progress = self.member.queue_status(queue)
        if progress is None or progress.state not in states:
            owned = ", ".join(map(str, self.assignment())) or "none"
            raise ConfigurationError(f"{queue} is not one of this consumer's queues now", next_step=f"it has: {owned}")
        return progress

    async def commit(self) -> tuple[Queue, ...]:
        """Commit what is done, and wait for the confirmations; return queues that were revoked."""
        targets: dict[Queue, tuple[int, int]] = {}
        for queue in self.member.states():
            progress = self.member.queue_status(queue)
            if progress is None or progress.state not in _COMMITTABLE:
                continue
            if progress.committed_offset is None or progress.committed_offset < progress.low:
                targets[queue] = progress.generation, progress.low
        return await self._wait_committed(targets)

    async def commit_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Commit these offsets: what was polled below each is done. Return queues that were revoked."""
        for queue, offset in offsets.items():
            progress = self._require_progress(queue, _COMMITTABLE)
            buffer = self._buffer.find(queue)
            first = None if buffer is None else buffer.first()
            end = progress.next_offset if first is None else first
            if not progress.low <= offset <= end:
                raise ConfigurationError(
                    f"{queue} is done up to {progress.low} and polled up to {end}, and {offset} is to be committed",
                    next_step="commit what was polled, or seek to go on elsewhere",
                )
        for queue, offset in offsets.items():
            buffer = self._buffer.find(queue)
            if buffer is not None:
                self.on_done(buffer, buffer.mark_done(offset))
        return await self.commit()

    async def _wait_committed(self, targets: dict[Queue, tuple[int, int]]) -> tuple[Queue, ...]:
        if not targets:
            return ()
        wait = _PendingCommit(targets, asyncio.get_running_loop().create_future())
        self._pending_commits.append(wait)
        self.member_runner.feed_all([CommitRequested(queue) for queue in list(targets)])
        try:
            async with asyncio.timeout(_COMMIT_S):
                await wait.future
        except TimeoutError:
            named = ", ".join(map(str, wait.targets))
            raise TimedOut(
                f"the commit of {named} was not confirmed in {_COMMIT_S:g} s", next_step="it is tried again by itself"
            ) from None
        finally:
            self._pending_commits.remove(wait)
        return tuple(wait.lost)

    def explain(self) -> MemberExplanation:
        """Explain what this member does, and why."""
        return explain_member(self.member, self._session.namespace, self._notifications.findings(), steady_ms())

    def _handle(self, action: HandleMessages) -> None:
        buffer = self._buffer.find(action.queue)
        if buffer is None or buffer.generation != action.generation:
            if buffer is not None:
                self._drop_buffer(buffer)
            buffer = self._buffer.create(action.queue, action.generation)
        self._buffer.add(buffer, action.offsets, cast("list[ReceivedMessage]", action.messages))
        self._wake()

    def _report(self, report: MemberReport) -> None:
        if report.kind in ("released", "lost", "drain-timeout"):
            for wait in self._pending_commits:
                for queue in report.queues:
                    if wait.targets.pop(queue, None) is not None and report.kind != "released":
                        wait.lost.append(queue)
        self._notifications.report(report, steady_ms())

    def _after_step(self) -> None:
        """Handle what the last steps changed: ownership, and commits that are waited for."""
        if self.member.transitions.ownership_changes != self._changes:
            self._changes = self.member.transitions.ownership_changes
            self.drop_revoked()
            self._wake()
        if self._notifications.has_changes:
            assignment = self.member.rebalancer.assignment
            why = f"{pluralize(len(assignment.members), 'member')}, strategy {assignment.strategy_name}"
            queues = tuple(map(self._session.namespace.unwrap_queue, self.assignment()))
            self._notifications.rebalanced(now_ms(), self._session.client_id, queues, why)
        for wait in self._pending_commits:
            self._check_pending_commit(wait)

    def _check_buffer(self, buffer: QueueBuffer) -> None:
        progress = self.member.queue_status(buffer.queue)
        if progress is None or progress.generation != buffer.generation:
            self._drop_buffer(buffer)
        elif progress.state not in _POLLABLE and buffer.count:
            self._return_offsets(buffer, buffer.clear())

    def _drop_buffer(self, buffer: QueueBuffer) -> None:
        self._buffer.drop(buffer.queue)
        polled = buffer.mark_done()
        if polled:
            self._lost[buffer.queue] = None
        self._return_offsets(buffer, polled + buffer.clear())

    def _return_offsets(self, buffer: QueueBuffer, offsets: list[int]) -> None:
        if offsets:
            self.member_runner.feed(Handled(buffer.queue, buffer.generation, (), skipped=offsets))

    def _check_pending_commit(self, pending: _PendingCommit) -> None:
        for queue, (generation, offset) in list(pending.targets.items()):
            progress = self.member.queue_status(queue)
            if progress is None or progress.generation != generation:
                pending.lost.append(queue)
                del pending.targets[queue]
            elif progress.committed_offset is not None and progress.committed_offset >= offset:
                del pending.targets[queue]
        if not pending.targets and not pending.future.done():
            pending.future.set_result(None)
