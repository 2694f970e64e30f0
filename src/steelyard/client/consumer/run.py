"""ConsumerRun: a consumer while it runs, with its session, member, handler pool and local offsets.

It ends in this order: pulling stops, handlers finish, their offsets are committed, queues are released and the member
leaves the group (all that is the member's); then the threads end, the offset file is closed, and the connections are
closed. Each step has a time limit, and whatever fails in one step, the next follows.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import structs

from steelyard.balance.group.actions import HandleMessages, MemberReport
from steelyard.balance.group.events import Pulled
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.client.consumer.admin_requests import AdminRequests
from steelyard.client.consumer.explain import MemberExplanation, explain_member
from steelyard.client.consumer.handler_pool import HandlerPool
from steelyard.client.consumer.handlers import Handlers
from steelyard.client.consumer.local_offset_store import LocalOffsetStore, open_offset_store
from steelyard.client.consumer.member_runner import MemberRunner
from steelyard.client.consumer.notifications import Notifications, Rebalanced, is_retry_queue
from steelyard.client.consumer.options import ConsumerOptions
from steelyard.client.consumer.received_message import ReceivedMessage, message_type_for
from steelyard.client.filter_check import check_sql_filter
from steelyard.client.ids import UniqueKeys
from steelyard.client.observers.observer import CachedMessages
from steelyard.client.observers.observers import Observers
from steelyard.client.session import Session
from steelyard.errors import SteelyardError
from steelyard.model import Queue, StoredMessage
from steelyard.model.finding import Finding
from steelyard.model.formatting import pluralize
from steelyard.net.clock import now_ms, steady_ms
from steelyard.protocol.request_reply import reply_request
from steelyard.wire.bodies.members import RunningHandler

_PERIOD_S = 1.0
_SAVE_PERIODS = 5
"""Offsets are saved and throughput is sampled once in so many periods."""
_LOG_PERIODS = 60
_LEAVE_MARGIN_S = 2.0
"""Beyond the drain time and the protocol's own timeout: by then it has left, or something is very wrong."""
_POOL_CLOSE_S = 0.5

_log = logging.getLogger("steelyard.client")


class ConsumerRun:
    """One run of a consumer, on one loop."""

    def __init__(
        self,
        session: Session,
        options: ConsumerOptions,
        handlers: Handlers,
        on_rebalance: Callable[[Rebalanced], None],
        on_warning: Callable[[Finding], None],
        observers: Observers,
    ) -> None:
        self._session, self._options, self._observers = session, options, observers
        names = session.namespace
        self._member_options = options.member_options(handlers, names, session.client_id, now_ms())
        self._handlers_by_topic = {names.wrap(handler.topic): handler for handler in handlers}
        self._on_rebalance = on_rebalance
        self._notifications = Notifications(options.group, names, self._rebalanced, on_warning)
        self._loop = asyncio.get_running_loop()
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._unique_keys = UniqueKeys(session.local_address)
        self._offsets = self._local_offsets()
        self.assignment: tuple[Queue, ...] = ()
        """The owned queues without those of retries; replaced as a whole, so it may be read from any thread."""
        self.refused: dict[Queue, SteelyardError] = {}
        """The owned queues that cannot be read, because a broker refuses; replaced as a whole like the assignment."""
        self._save_error = ""
        """Why the offset file could not be written the last time."""
        self._writing: asyncio.Future[None] | None = None
        """The last write of the file, which may be running."""
        self._has_ended = False

    def _local_offsets(self) -> LocalOffsetStore | None:
        if not self._options.is_broadcast:
            return None
        group, name = self._member_options.group, self._session.config.name
        return open_offset_store(group, name, self._options.offsets_dir)

    async def start(self) -> None:
        """Connect and join the group."""
        options = self._member_options
        try:
            await self._session.start()
            for wanted in options.subscriptions.values():
                await check_sql_filter(self._session, options.group, wanted)
        except BaseException:
            self._close_offsets()
            await self._session.close()
            raise
        self.member_runner = MemberRunner(
            self._session,
            options,
            on_handle=self._handle,
            on_report=self._report,
            on_left=self._member_left,
            offsets=self._offsets,
            message_type=message_type_for(self._session.namespace),
            on_pulled=self._received,
        )
        member = self.member_runner.member
        self.handler_pool = HandlerPool(
            self._handlers_by_topic,
            workers=options.handler_limit,
            may_start=member.may_start,
            on_handled=self.member_runner.feed_all,
            set_chunk=member.set_handler_batch,
            reply_sender=self,
            name=f"steelyard-{self._options.group}",
            observers=self._observers,
            max_open_bytes=options.queue_bytes,
            secrets=self._session.config.secrets,
        )
        self._set_chunk_sizes(options)
        AdminRequests(self._session, self.member_runner, self.handler_pool)
        self._observers.opened(self._session)
        self.member_runner.start()
        self._session.spawn(self._run_periodic())

    def _set_chunk_sizes(self, options: MemberOptions) -> None:
        """Set the batch sizes of handlers; retries of concurrent handlers come in the largest of them."""
        member = self.member_runner.member
        for topic, handler in self._handlers_by_topic.items():
            if handler.batch > 1:
                member.set_handler_batch(topic, handler.batch)
        if options.mode is ConsumeMode.CONCURRENT:
            member.set_handler_batch(
                options.retry_topic, max(handler.batch for handler in self._handlers_by_topic.values())
            )

    async def leave(self, drain_ms: int | None) -> None:
        """Finish handlers, commit, release queues and leave the group; after ``drain_ms`` handlers are abandoned."""
        self.member_runner.leave(drain_ms)
        wait_s: float | None = None
        if drain_ms is not None:
            wait_s = (drain_ms + self._member_options.times.leave_grace_ms) / 1000 + _LEAVE_MARGIN_S
        await asyncio.wait([self._left], timeout=wait_s)

    def abort(self) -> None:
        """Abort at once: connections are dropped without unregistering, and a waiting `leave` returns."""
        self.member_runner.close()
        self._session.abort()
        self._member_left()

    async def end(self) -> None:
        """End threads, offset file and connections."""
        if self._has_ended:
            return
        self._has_ended = True
        self.member_runner.close()
        still = await self.handler_pool.close(_POOL_CLOSE_S)
        if still:
            _log.warning(
                "%s of group %s ends while %d of its handlers still run; their messages will be redelivered",
                self._session.client_id,
                self._options.group,
                still,
            )
        try:
            await self._final_save()
        finally:
            self._close_offsets()
            self.assignment = ()
            await self._observers.closed()
            await self._session.close()

    def _member_left(self) -> None:
        if not self._left.done():
            self._left.set_result(None)

    def _close_offsets(self) -> None:
        if self._offsets is not None:
            self._offsets.close()

    def _handle(self, action: HandleMessages) -> None:
        self.handler_pool.submit(action)

    def _report(self, report: MemberReport) -> None:
        if not self._notifications.has_changes:
            self._loop.call_soon(self._notify_rebalanced)
        self._notifications.report(report, steady_ms())

    def _notify_rebalanced(self) -> None:
        if not self._notifications.has_changes:
            return
        member, names = self.member_runner.member, self._session.namespace
        self.assignment = tuple(names.unwrap_queue(each) for each in member.assignment() if not is_retry_queue(each))
        assignment = member.rebalancer.assignment
        plan = f"{assignment.strategy_name} among {pluralize(len(assignment.members), 'member')}"
        self._notifications.rebalanced(now_ms(), self._session.client_id, self.assignment, plan)

    def _rebalanced(self, event: Rebalanced) -> None:
        self._observers.rebalanced(event, self.member_runner.member.sessions.duplicates_avoided)
        self._on_rebalance(event)

    def _received(self, event: Pulled) -> None:
        if self._observers.is_on and event.messages:
            self._observers.received(cast("Sequence[ReceivedMessage]", event.messages))

    async def send_reply(self, message: StoredMessage, body: bytes) -> None:
        """Send the reply to a message that was sent as a request."""
        request = reply_request(
            self._member_options.group, message, body, unique_key=self._unique_keys.next(), now_ms=now_ms()
        )
        await self._session.request_ok(message.queue.broker, request)

    def running_handlers(self) -> list[RunningHandler]:
        """Return the handlers that run now, with queues as users name them. From any thread."""
        names = self._session.namespace
        return [
            structs.replace(each, queue=names.unwrap_queue(each.queue)) for each in self.handler_pool.running_handlers()
        ]

    def explain(self) -> MemberExplanation:
        """Explain what it does and why."""
        return explain_member(
            self.member_runner.member, self._session.namespace, self._notifications.findings(), steady_ms()
        )

    async def _run_periodic(self) -> None:
        periods = 0
        while True:
            await asyncio.sleep(_PERIOD_S)
            periods += 1
            self._update_refused()
            self._notifications.update_findings(self._collect_findings())
            if self._observers.is_on:
                self._observers.cached(self._cached_by_topic())
            if periods % _SAVE_PERIODS == 0:
                self.handler_pool.stats.sample(now_ms())
                await self._try_save()
            if periods % _LOG_PERIODS == 0:
                self.handler_pool.failures.log_repeats()

    def _cached_by_topic(self) -> dict[str, CachedMessages]:
        """Return what was fetched and is not finished, by topic."""
        names, found, at_ms = self._session.namespace, dict[str, CachedMessages](), steady_ms()
        for status in self.member_runner.member.queue_statuses():
            topic = names.unwrap(status.queue.topic)
            before = found.get(topic, CachedMessages(0, 0))
            messages = status.waiting + status.running
            since_ms = at_ms if status.waiting_since_ms is None else status.waiting_since_ms
            still_s = max(before.still_s, (at_ms - since_ms) / 1000)
            found[topic] = CachedMessages(before.messages + messages, before.body_bytes + status.body_bytes, still_s)
        return found

    def _update_refused(self) -> None:
        owned, names = set(self.member_runner.member.assignment()), self._session.namespace
        lasting = self.member_runner.refusals.permanent()
        self.refused = {names.unwrap_queue(queue): error for queue, error in lasting.items() if queue in owned}

    def _collect_findings(self) -> list[Finding]:
        """Return findings: topics that do not exist, brokers without a master or that refuse pulls."""
        session, found = self._session, []
        missing = self.member_runner.member.rebalancer.missing_topics()
        for topic in self._handlers_by_topic:
            if topic in missing:
                bare = session.namespace.unwrap(topic)
                found.append(
                    Finding(
                        f"no topic {topic}",
                        f"topic {bare!r} is not known to {session.config}: group {self._options.group} waits for it; "
                        f"create it, or send to it, or correct its name",
                    )
                )
        found += [
            Finding(
                f"no master {name}",
                f"broker {name} has no master: what a replica has is read, and failed messages cannot be sent back "
                "until there is one",
            )
            for name in session.broker_connections()
            if session.broker_place(name).master is None
        ]
        found += [Finding(f"refused {queue}", f"{queue} cannot be read: {why}") for queue, why in self.refused.items()]
        if self._save_error:
            found.append(Finding("offsets", self._save_error))
        return found

    async def _try_save(self) -> None:
        try:
            await self._save()
            self._save_error = ""
        except SteelyardError as error:
            self._save_error = str(error)

    async def _save(self) -> None:
        offsets = self._offsets
        if offsets is not None and offsets.is_changed:
            content = offsets.content()
            try:
                self._writing = self._loop.run_in_executor(None, offsets.write, content)
            except RuntimeError:
                offsets.write(content)  # the interpreter ends, and its executors did before everything else
            else:
                await asyncio.shield(self._writing)

    async def _final_save(self) -> None:
        """Write the offsets after a write that is running."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        try:
            if self._offsets is not None:
                self._offsets.save()
        except SteelyardError as error:
            _log.warning("the last offsets were not saved, so messages may be redelivered: %s", error)
