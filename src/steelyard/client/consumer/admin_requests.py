"""Requests of administrators' tools that brokers pass on to a consumer.

307 GET_CONSUMER_RUNNING_INFO   `MemberProtocol` answers; here options, queues, throughput and stacks are added
221 GET_CONSUMER_STATUS         the offsets of a topic's queues
309 CONSUME_MESSAGE_DIRECTLY    one message goes through the user's handler, and its outcome is returned
"""

import traceback
from collections.abc import Sequence

from msgspec import structs

from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.process_queue import QueueStatus
from steelyard.balance.group.queue_states import QueueState
from steelyard.client.consumer.handler_pool import HandlerPool
from steelyard.client.consumer.handler_task import HandlerTask
from steelyard.client.consumer.member_runner import MemberRunner
from steelyard.client.consumer.received_message import message_type_for
from steelyard.client.consumer.running_handlers import format_stacks
from steelyard.client.session import Session
from steelyard.net.clock import now_ms, steady_ms
from steelyard.protocol.server_requests import (
    direct_consume_response,
    offsets_response,
    read_direct_consume,
    read_offsets_request,
    refusal_response,
    running_properties,
)
from steelyard.version import __version__
from steelyard.wire.bodies.members import (
    ConsumeDirectlyOutcome,
    ConsumerRunningState,
    ProcessQueueState,
    RunningStateExtension,
)
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.json_body import ByQueue

_TRACE_CHARS = 8_000


class AdminRequests:
    """Answers the requests for one consumer."""

    def __init__(self, session: Session, member_runner: MemberRunner, handler_pool: HandlerPool) -> None:
        self._session, self._member_runner, self._handler_pool = session, member_runner, handler_pool
        self._options = member_runner.options
        self._started_ms = now_ms()
        session.request_handlers[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = self._get_offsets
        session.request_handlers[RequestCode.CONSUME_MESSAGE_DIRECTLY] = self._consume_directly
        member_runner.protocol.extend_running_state = self._running_state

    def _get_offsets(self, broker: str, request: Command) -> Command:
        del broker
        group, topic = read_offsets_request(request)
        if group != self._options.group:
            return refusal_response(
                request, f"it is for group {group[:80]}, and this is a member of {self._options.group}"
            )
        statuses = self._member_runner.member.queue_statuses()
        return offsets_response(
            request, {status.queue: status.low for status in statuses if status.queue.topic == topic}
        )

    def _consume_directly(self, broker: str, request: Command) -> Command | None:
        group, client_id, message = read_direct_consume(message_type_for(self._session.namespace), request, broker)
        if group != self._options.group or client_id not in (None, "", self._options.id):
            return refusal_response(
                request, f"it is for {client_id} of group {group[:80]}, and this is {self._options.id}"
            )

        def answer(task: HandlerTask) -> None:
            self._session.broker_connection(broker).send(
                _direct_result(request, task, self._options.mode is ConsumeMode.ORDERLY)
            )

        if self._handler_pool.handle_directly(message, answer):
            return None
        return refusal_response(request, f"no handler here takes topic {message.topic!r}")

    def _running_state(self, state: ConsumerRunningState, wants_stacks: bool) -> ConsumerRunningState:
        options = self._options
        at_ms, offset_ms = now_ms(), now_ms() - steady_ms()
        queues = dict(state.queues)
        statuses = self._member_runner.member.queue_statuses()
        for status in statuses:
            if (known := queues.get(status.queue)) is None:
                continue
            queues[status.queue] = ProcessQueueState(
                cached_messages=status.waiting + status.running,
                cached_min_offset=status.low,
                cached_max_offset=max(status.low, status.next_offset - 1),
                cached_mib=status.body_bytes >> 20,
                commit_offset=status.low if status.committed_offset is None else status.committed_offset,
                dropped=known.dropped,
                pulled_ms=offset_ms + (status.pull_sent_ms or status.state_since_ms),
                consumed_ms=at_ms if status.running else 0,
                locked=options.mode is ConsumeMode.ORDERLY,
                locked_ms=offset_ms + status.state_since_ms if options.mode is ConsumeMode.ORDERLY else 0,
            )
        running = tuple(self._handler_pool.running_handlers()) if wants_stacks else None
        extension = state.steelyard
        if extension is not None:
            extension = structs.replace(_with_times(extension, statuses), running=running)
        return structs.replace(
            state,
            queues=ByQueue(queues),
            steelyard=extension,
            topics=self._handler_pool.stats.snapshot(at_ms),
            thread_dump=None if running is None else format_stacks(running),
            properties=running_properties(
                options,
                name_servers=str(self._session.config),
                started_ms=self._started_ms,
                release=__version__,
                strategy=self._member_runner.member.rebalancer.assignment.strategy_name,
            ),
        )


def _with_times(extension: RunningStateExtension, statuses: Sequence[QueueStatus]) -> RunningStateExtension:
    """Add for how long the queues have been owned, and for how long their first unfinished message has waited."""
    at_ms = steady_ms()
    owned_ms = {status.queue: at_ms - status.state_since_ms for status in statuses if status.state is QueueState.OWNED}
    still_ms = {each.queue: at_ms - each.waiting_since_ms for each in statuses if each.waiting_since_ms is not None}
    held = extension.held or ()
    return structs.replace(
        extension,
        owned_ms=tuple(owned_ms.get(queue, -1) for queue in held),
        still_ms=tuple(still_ms.get(queue, -1) for queue in held),
    )


def _direct_result(request: Command, task: HandlerTask, is_orderly: bool) -> Command:
    if task.error is not None:
        trace = "".join(traceback.format_exception(task.error))[-_TRACE_CHARS:]
        # The text of a user's error may not be encodable.
        outcome, remark = ConsumeDirectlyOutcome.RAISED, trace.encode(errors="replace").decode()
    else:
        outcome = ConsumeDirectlyOutcome.LATER if task.delivery.later else ConsumeDirectlyOutcome.SUCCESS
        remark = None
    return direct_consume_response(request, outcome, spent_ms=task.spent_ms, remark=remark, is_orderly=is_orderly)
