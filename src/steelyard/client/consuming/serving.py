"""What brokers pass on to a consumer from administrators' tools.

307 GET_CONSUMER_RUNNING_INFO   the voice answers; added here is what the tools print: settings, queues, speeds, stacks
221 GET_CONSUMER_STATUS         how far it is in each queue of a topic
309 CONSUME_MESSAGE_DIRECTLY    one message goes through the user's handler, and the result is told
"""

import sys
import threading
import traceback
from collections.abc import Iterable

from msgspec import structs

from steelyard.balance.life import State
from steelyard.balance.looks import QueueLook
from steelyard.balance.member_options import Mode
from steelyard.client.consuming.crew import Crew
from steelyard.client.consuming.job import Job
from steelyard.client.consuming.membership import Membership
from steelyard.client.consuming.received import received_in
from steelyard.client.session import Session
from steelyard.dialect.asked import (
    handled_answer,
    offsets_answer,
    read_handle_now,
    read_offsets_question,
    refused,
)
from steelyard.dialect.running import running_properties
from steelyard.net.clock import now_ms, steady_ms
from steelyard.version import __version__
from steelyard.wire.bodies.running import DirectOutcome, QueueState, RunningState, RunningWord
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.maps import ByQueue

__all__ = ["Serving"]

_TRACE_CHARS = 8_000


class Serving:
    """Answers for one consumer."""

    def __init__(self, session: Session, membership: Membership, crew: Crew) -> None:
        self._session, self._membership, self._crew = session, membership, crew
        self._options = membership.options
        self._started_ms = now_ms()
        session.serves[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = self._offsets
        session.serves[RequestCode.CONSUME_MESSAGE_DIRECTLY] = self._handle_now
        membership.voice.tells = self._running

    def _offsets(self, broker: str, request: Command) -> Command:
        del broker
        group, topic = read_offsets_question(request)
        if group != self._options.group:
            return refused(request, f"it is for group {group[:80]}, and this is a member of {self._options.group}")
        looks = self._membership.member.looks()
        return offsets_answer(request, {look.queue: look.low for look in looks if look.queue.topic == topic})

    def _handle_now(self, broker: str, request: Command) -> Command | None:
        group, client_id, message = read_handle_now(received_in(self._session.names), request, broker)
        if group != self._options.group or client_id not in (None, "", self._options.id):
            return refused(request, f"it is for {client_id} of group {group[:80]}, and this is {self._options.id}")

        def answer(job: Job) -> None:
            self._session.broker(broker).say(_told(request, job, self._options.mode is Mode.ORDERLY))

        if self._crew.handle_now(message, answer):
            return None
        return refused(request, f"no handler here takes topic {message.topic!r}")

    def _running(self, state: RunningState, wants_stacks: bool) -> RunningState:
        options = self._options
        at_ms, offset_ms = now_ms(), now_ms() - steady_ms()
        queues = dict(state.queues)
        looks = self._membership.member.looks()
        for look in looks:
            known = queues.get(look.queue)
            if known is None:
                continue
            queues[look.queue] = QueueState(
                cached_messages=look.waiting + look.running,
                cached_min_offset=look.low,
                cached_max_offset=max(look.low, look.next - 1),
                cached_mib=look.body_bytes >> 20,
                commit_offset=look.low if look.acked is None else look.acked,
                dropped=known.dropped,
                pulled_ms=offset_ms + (look.pulling_ms or look.since_ms),
                consumed_ms=at_ms if look.running else 0,
                locked=options.mode is Mode.ORDERLY,
                locked_ms=offset_ms + look.since_ms if options.mode is Mode.ORDERLY else 0,
            )
        return structs.replace(
            state,
            queues=ByQueue(queues),
            steelyard=None if state.steelyard is None else _with_times(state.steelyard, looks),
            topics=self._crew.tallies.states(at_ms),
            thread_dump=_stacks() if wants_stacks else None,
            properties=running_properties(
                options,
                name_servers=str(self._session.connect),
                started_ms=self._started_ms,
                release=__version__,
                strategy=self._membership.member.strategy_name,
            ),
        )


def _with_times(word: RunningWord, looks: Iterable[QueueLook]) -> RunningWord:
    """Add how long the queues have been owned."""
    at_ms = steady_ms()
    owned_ms = {look.queue: at_ms - look.since_ms for look in looks if look.state is State.OWNED}
    return structs.replace(word, owned_ms=tuple(owned_ms.get(queue, -1) for queue in word.held or ()))


def _told(request: Command, job: Job, is_orderly: bool) -> Command:
    if job.error is not None:
        trace = "".join(traceback.format_exception(job.error))[-_TRACE_CHARS:]
        # What a user's error says may be no text that can be sent.
        outcome, remark = DirectOutcome.RAISED, trace.encode(errors="replace").decode()
    elif job.delivery.later:
        outcome, remark = DirectOutcome.LATER, None
    else:
        outcome, remark = DirectOutcome.SUCCESS, None
    return handled_answer(request, outcome, spent_ms=job.spent_ms, remark=remark, is_orderly=is_orderly)


def _stacks() -> str:
    """Return where each thread is, as tools that ask for a Java program's stacks show it."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    return "\n".join(
        f"{names.get(number, number)}\n{''.join(traceback.format_stack(frame))}" for number, frame in frames.items()
    )
