"""A host that answers a member at once, from memory: what is left of the time is the member's own.

There is one broker, of ours, and nobody else in the group. Every queue is endless: each pull finds a full batch.
"""

from collections import deque
from collections.abc import Iterator

from steelyard.balance.group import actions, events
from steelyard.balance.group.actions import Action
from steelyard.balance.group.events import Event, PullOutcome
from steelyard.balance.group.member import MemberStateMachine
from steelyard.balance.group.options import MemberOptions
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, Subscription

_BROKER = "broker-a"
_MESSAGE = object()
_SETTLED_MS = 60_000
_STEP_MS = 50


class InstantHost:
    """One member that owns so many queues of a topic; `run` lets it handle messages."""

    def __init__(self, queues: int, chunk: int = 1) -> None:
        self._queues = tuple(Queue("orders", _BROKER, number) for number in range(queues))
        topics = {"orders": Subscription("orders")}
        self._options = MemberOptions("billing", "10.0.0.1@7#1@sy1", topics, handler_batch=chunk)
        self._member = MemberStateMachine(self._options, 0)
        self._now_ms = 0
        self._unanswered: deque[Action] = deque()
        self._pulls: deque[Action] = deque()
        """Kept until the queues are owned: pulls never end by themselves."""
        self._handled = 0
        self._settle()

    def _settle(self) -> None:
        self._step(events.Tick())
        self._step(events.ConnectionOpened(_BROKER))
        while len(self._member.assignment()) < len(self._queues):
            self._drain(most=0)
            self._now_ms += _STEP_MS
            if self._now_ms > _SETTLED_MS:
                raise ConfigurationError("the member owns too little", next_step="see what it waits for")
            self._step(events.Tick())

    def leave(self) -> None:
        """Let the member give everything up and go."""
        self._pulls.clear()
        self._step(events.LeaveRequested())
        self._drain(most=0)
        if not self._member.has_left:
            raise ConfigurationError("the member did not leave", next_step="see what it waits for")

    def run(self, messages: int) -> None:
        """Let the member pull and handle so many messages."""
        self._drain(most=self._handled + messages)

    def _drain(self, most: int) -> None:
        while self._unanswered or (self._pulls and self._handled < most):
            action = self._unanswered.popleft() if self._unanswered else self._pulls.popleft()
            for event in self._answers(action):
                self._step(event)

    def _step(self, event: Event) -> None:
        for action in self._member.step(event, self._now_ms):
            (self._pulls if isinstance(action, actions.PullMessages) else self._unanswered).append(action)

    def _answers(self, action: Action) -> Iterator[Event]:
        match action:
            case actions.HandleMessages():
                self._handled += len(action.offsets)
                yield events.Handled(action.queue, action.generation, action.offsets)
            case actions.PullMessages():
                offsets = range(action.offset, action.offset + action.max_messages)
                messages = [_MESSAGE] * action.max_messages
                found, end = PullOutcome.FOUND, action.offset + action.max_messages
                yield events.Pulled(action.queue, action.generation, found, end, offsets, messages, 32_000)
            case actions.Commit():
                yield events.CommitConfirmed(action.queue, action.offset)
            case actions.QueryRoute():
                yield events.RouteReceived(action.topic, self._queues if action.topic == "orders" else ())
            case actions.SendHeartbeat():
                yield events.HeartbeatAcknowledged(action.broker, is_steelyard=True)
            case actions.QueryUptime():
                yield events.UptimeReceived(action.broker, 3_600_000)
            case actions.QueryMemberList():
                me = events.MemberFacts(self._options.id, is_steelyard=True)
                yield events.MemberListReceived(
                    action.broker, (me.id,), 1, is_settled=True, members=(me,), owners={}, request_id=action.request_id
                )
            case actions.UnlockQueues():
                yield events.Unlocked(action.broker, action.queues)
            case actions.LockQueues() | actions.RenewLocks():
                yield events.LocksAnswered(action.broker, dict.fromkeys(action.queues, 1), {})
            case actions.QueryStartOffset():
                yield events.StartOffsetReceived(action.queue, 0, stored=True)
