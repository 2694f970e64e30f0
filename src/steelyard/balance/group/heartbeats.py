"""Heartbeats and broker sessions: is there a connection, are we registered on it, when was that last proven.

A broker gets a heartbeat before any other request. A new connection starts with one, which names the leases that we
hold there until such a heartbeat was answered, and with a query for the broker's uptime. Then heartbeats are sent at
the interval of the broker, and at once after each change of the owned queues. While one is unanswered, the next one
waits for it, unless it announces that we leave.

A proof is as old as its request: it counts from when the answered heartbeat was *sent*. If several are unanswered, a
response counts for the oldest and a failure for the newest, so that no proof is ever newer than the real one.

Left out: who else is in the group (rebalance.py).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard.balance.group import events
from steelyard.balance.group.actions import Action, MemberReport, QueryUptime, SendHeartbeat
from steelyard.balance.group.options import MemberOptions
from steelyard.balance.group.timers import NEVER_MS
from steelyard.model import Queue


@dataclass(slots=True)
class BrokerSession:
    """One broker, over all connections to it."""

    connected_ms: int | None = None
    """When the current connection was opened."""
    reconnected_ms: int | None = None
    """The same, if there was a connection before it."""
    was_connected: bool = False
    is_registered: bool = False
    is_steelyard: bool | None = None
    proven_ms: int | None = None
    heartbeat_ms: int = 0
    sent_ms: int = 0
    next_ms: int = NEVER_MS
    unanswered: deque[int] = field(default_factory=deque)
    """When each unanswered heartbeat was sent, oldest first."""
    sent_leaving: bool = False
    is_resend_wanted: bool = False
    broker_started_ms: int | None = None
    """When the broker started, by its uptime; queried for each connection."""
    refusal: str = ""
    """Why the last heartbeat was refused, as reported."""
    duplicates_avoided: int = 0
    """Messages that were finished and committed while their queue was being given up."""


_NO_SESSION = BrokerSession()
"""Of brokers that were never connected; it is only read."""


class _Sessions(dict[str, BrokerSession]):
    """The sessions by broker. For one that was never connected, an empty one is returned and not kept."""

    def __missing__(self, broker: str) -> BrokerSession:
        return _NO_SESSION


class BrokerSessions:
    """The sessions of one member with its brokers."""

    held_leases: Callable[[str], Mapping[Queue, int]]
    """The leases at a Steelyard broker, with epochs; set by the member."""
    stopped_queues: Callable[[str], tuple[str, ...]]
    """The queues of a broker that stopped, in sentences; set by the member."""

    def __init__(self, options: MemberOptions) -> None:
        self.held_leases = lambda _broker: {}
        self.stopped_queues = lambda _broker: ()
        self.is_leaving = False
        """Whether heartbeats announce that we leave."""
        self._options = options
        self._times = options.times
        self._sessions = _Sessions()
        self.session = self._sessions.__getitem__
        """Returns what is known of a broker, to be read only; the dictionary's own function: each message calls it."""
        self._version = 0

    def is_connected(self, broker: str) -> bool:
        """Say whether there is a connection to a broker."""
        return self.session(broker).connected_ms is not None

    def is_registered(self, broker: str) -> bool:
        """Say whether a heartbeat was answered on the current connection."""
        return self.session(broker).is_registered

    def is_steelyard(self, broker: str) -> bool | None:
        """Say whether a broker is a Steelyard broker, by its last response; None if it never answered."""
        return self.session(broker).is_steelyard

    def proven_ms(self, broker: str) -> int | None:
        """Return when the last answered heartbeat was sent, on this connection or an earlier one."""
        return self.session(broker).proven_ms

    def reconnected_ms(self, broker: str) -> int | None:
        """Return when the current connection replaced an earlier one; None for the first one."""
        return self.session(broker).reconnected_ms

    def is_settling(self, broker: str, now_ms: int, has_foreign: bool) -> bool:
        """Say whether a broker may not know all its members yet, so that a free lock there proves nothing.

        A Steelyard broker knows that by itself, and denies. Another one settles for `settle_ms` after its start, longer
        with foreign members, whose heartbeats are rare. Without an uptime it counts as started when we connected.
        """
        session = self.session(broker)
        if session.connected_ms is None or session.is_steelyard is None:
            return True
        if session.is_steelyard:
            return False
        return session.broker_started_ms is None or now_ms - session.broker_started_ms < self.settle_ms(has_foreign)

    def settle_ms(self, has_foreign: bool) -> int:
        """Return how long a restarted broker is given to get heartbeats of its members again."""
        return self._times.settle_foreign_ms if has_foreign else self._times.settle_ms

    def connected_brokers(self) -> list[str]:
        """Return the brokers to which there is a connection, in order."""
        return sorted(name for name, session in self._sessions.items() if session.connected_ms is not None)

    def due_ms(self) -> int:
        """Return when the next heartbeat is due."""
        due_ms = NEVER_MS
        for session in self._sessions.values():
            due_ms = min(due_ms, session.next_ms)
        return due_ms

    def step(self, event: events.Event, now_ms: int) -> list[Action]:
        """Process an event of a connection."""
        match event:
            case events.Tick():
                return self._send_due(now_ms)
            case events.HeartbeatAcknowledged():
                return self._heartbeat_acknowledged(event, now_ms)
            case events.ConnectionOpened():
                return self._connection_opened(event.broker, now_ms)
            case events.ConnectionLost() if event.broker in self._sessions:
                self._reset(self._sessions[event.broker])
            case events.HeartbeatFailed():
                return self._heartbeat_failed(event, now_ms)
            case events.UptimeReceived():
                self._uptime_received(event, now_ms)
            case _:
                pass
        return []

    def is_heartbeat_pending(self, broker: str) -> bool:
        """Say whether a heartbeat is unanswered on the current connection."""
        return bool(self.session(broker).unanswered)

    def add_duplicates_avoided(self, broker: str, messages: int) -> None:
        """Count messages that were finished while their queue was given up, and need not be handled again."""
        session = self._sessions.get(broker)
        if session is not None:
            session.duplicates_avoided += messages

    @property
    def duplicates_avoided(self) -> int:
        """The number of such messages, at all brokers."""
        return sum(session.duplicates_avoided for session in self._sessions.values())

    def duplicates_avoided_at(self, broker: str) -> int:
        """Return the number of such messages at one broker."""
        return self.session(broker).duplicates_avoided

    def send_heartbeat(self, broker: str | None, now_ms: int) -> list[Action]:
        """Send a heartbeat to a broker, or to all, because the owned queues changed or we leave."""
        self._version += 1
        actions: list[Action] = []
        for name in self.connected_brokers() if broker is None else [broker]:
            session = self.session(name)
            if session.connected_ms is None:
                continue
            if session.unanswered and session.sent_leaving == self.is_leaving:
                session.is_resend_wanted = True
            else:
                actions.append(self._make_heartbeat(name, session, now_ms))
        return actions

    def _connection_opened(self, broker: str, now_ms: int) -> list[Action]:
        session = self._sessions.setdefault(broker, BrokerSession())
        self._reset(session)
        session.connected_ms = now_ms
        session.reconnected_ms = now_ms if session.was_connected else None
        session.was_connected = True
        return [self._make_heartbeat(broker, session, now_ms), QueryUptime(broker)]

    def _reset(self, session: BrokerSession) -> None:
        session.connected_ms = session.reconnected_ms = session.broker_started_ms = None
        session.is_registered = session.is_resend_wanted = session.sent_leaving = False
        session.unanswered.clear()
        session.next_ms = NEVER_MS

    def _heartbeat_acknowledged(self, event: events.HeartbeatAcknowledged, now_ms: int) -> list[Action]:
        session = self.session(event.broker)
        if session.connected_ms is None or not session.unanswered:
            return []
        session.proven_ms = max(session.unanswered.popleft(), session.proven_ms or 0)
        session.is_steelyard = event.is_steelyard
        session.is_registered = True
        session.refusal = ""
        session.heartbeat_ms = self._interval_ms(event)
        session.next_ms = session.sent_ms + session.heartbeat_ms
        return self._resend_if_wanted(event.broker, session, now_ms)

    def _interval_ms(self, event: events.HeartbeatAcknowledged) -> int:
        if not event.is_steelyard:
            return self._times.heartbeat_apache_ms
        return max(1, event.heartbeat_ms or self._times.heartbeat_ms)

    def _heartbeat_failed(self, event: events.HeartbeatFailed, now_ms: int) -> list[Action]:
        session = self.session(event.broker)
        if session.connected_ms is None or not session.unanswered:
            return []
        session.unanswered.pop()
        session.next_ms = min(session.next_ms, now_ms + self._times.query_retry_ms)
        actions: list[Action] = []
        if event.why and event.why != session.refusal:
            message = f"broker {event.broker} refuses {self._options.id} as a member of group {self._options.group}"
            actions.append(MemberReport("warning", f"{message}: {event.why}", facts={"broker": event.broker}))
            session.refusal = event.why
        return actions + self._resend_if_wanted(event.broker, session, now_ms)

    def _uptime_received(self, event: events.UptimeReceived, now_ms: int) -> None:
        session = self.session(event.broker)
        if session.connected_ms is not None:
            session.broker_started_ms = session.connected_ms if event.uptime_ms is None else now_ms - event.uptime_ms

    def _resend_if_wanted(self, broker: str, session: BrokerSession, now_ms: int) -> list[Action]:
        if not session.is_resend_wanted or session.unanswered:
            return []
        return [self._make_heartbeat(broker, session, now_ms)]

    def _send_due(self, now_ms: int) -> list[Action]:
        return [
            self._make_heartbeat(broker, session, now_ms)
            for broker, session in sorted(self._sessions.items())
            if session.next_ms <= now_ms
        ]

    def _make_heartbeat(self, broker: str, session: BrokerSession, now_ms: int) -> SendHeartbeat:
        session.unanswered.append(now_ms)
        session.sent_ms = now_ms
        session.next_ms = now_ms + (session.heartbeat_ms if session.is_registered else self._times.heartbeat_ms)
        session.sent_leaving = self.is_leaving
        session.is_resend_wanted = False
        return SendHeartbeat(
            broker,
            held=None if session.is_registered else dict(self.held_leases(broker)),
            is_leaving=self.is_leaving,
            strategy=self._options.strategy.name,
            subscription_version=self._version,
            duplicates_avoided=session.duplicates_avoided,
            stopped_queues=self.stopped_queues(broker),
        )
