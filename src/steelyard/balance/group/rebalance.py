"""Rebalance: when a member reads the group again, and which queues are its own by its plan.

A rebalance reads the list of members from every broker of the group, then, where no broker knows the owners, probes the
members themselves; only its end changes the plan. Safety never depends on the plan: it may be late, wrong or different
at each member. The rules here make members agree soon, and drop nothing for a view that is probably false:

- a broker is queried after it answered a heartbeat; the group is every member on any list, and this one;
- a failed query changes nothing: the last list counts for a while, and if no broker answers, the plan stays;
- if our own id is missing: another heartbeat and another rebalance, and nothing is dropped;
- if the lists differ, the group is all of them together, and is read again until they agree;
- without leases, a plan needs two equal reads, a moment apart, unless there are foreign members;
- a queue that left its route is planned out. If its broker cannot be reached either, it stays planned while it is held,
  for a minute at most;
- a broadcasting member reads every queue, and needs no rebalance.

The ids of requests made here are even; those of ownership_probe.py are odd.
"""

from steelyard.balance.assignors.strategy import uses_owners
from steelyard.balance.group import events
from steelyard.balance.group.actions import Action, ProbeOwnership, QueryMemberList
from steelyard.balance.group.assignment import GroupAssignment, queues_by_owner
from steelyard.balance.group.claimed_queues import KnownOwners, PeerClaims
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.member_lists import GroupSnapshot, MemberLists
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.timers import NEVER_MS, BackOff, ConfirmingRead, RebalanceTimer, next_poll_ms
from steelyard.balance.group.topic_routes import SubscribedRoutes
from steelyard.model import Queue, sort_queues

_RELEVANT_EVENTS = frozenset(
    (
        events.HeartbeatAcknowledged,
        events.MemberListFailed,
        events.MemberListReceived,
        events.OwnershipProbeFailed,
        events.OwnershipReported,
        events.ConnectionLost,
        events.MembersChanged,
        events.HandoverRequested,
        events.RouteFailed,
        events.RouteReceived,
        events.Tick,
    )
)
"""Most events are about messages, and are skipped at once."""


class Rebalancer:
    """The group of one member, and its plan."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions) -> None:
        times = options.times
        self.is_unsettled = False
        """Whether a queue is not settled, so that the group is polled more often; set by the member."""
        self._due_ms: int | None = None
        """What `due_ms` returns, until an event or a request may change it: it is needed after each message."""
        self._options = options
        self._times = times
        self._sessions = sessions
        self._is_broadcast = options.mode is ConsumeMode.BROADCAST
        self._routes = SubscribedRoutes(options)
        self._member_lists = MemberLists(options, sessions)
        self.peer_claims = PeerClaims(times.rebalance_interval_ms)
        self.assignment = GroupAssignment(options, sessions, self._routes)
        self.timer = RebalanceTimer(times.rebalance_gap_ms)
        self._confirming_read = ConfirmingRead(times.confirming_read_ms, times.rebalance_unsettled_interval_ms)
        self._no_answer_backoff = BackOff(times.query_retry_ms, times.query_retry_max_ms)
        self._unlisted_backoff = BackOff(times.unlisted_retry_ms, times.query_retry_max_ms)
        self._request_id = 0
        self._unanswered: set[str] = set()
        """Brokers whose list this rebalance waits for; never iterated, since the order of a set differs by run."""
        self._has_answer = False
        self._snapshot: GroupSnapshot | None = None
        """The group as this rebalance found it, while it probes for owners."""
        self._registered: set[str] = set()
        self._brokers_without_list: tuple[str, ...] = ()
        """Brokers to query that never sent a list."""

    def plan(self) -> tuple[Queue, ...] | None:
        """Return the queues of this member by the last rebalance, in order; None before the first one."""
        return () if self._sessions.is_leaving else self.assignment.plan

    def members(self) -> tuple[str, ...]:
        """Return the members that the last plan was made for, in order."""
        return self.assignment.members

    def listed_members(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return the members to probe: those on a broker's last list, and those that left it a moment ago."""
        return self._member_lists.listed_members(broker, now_ms)

    def has_departed(self, member: str, now_ms: int) -> bool:
        """Say whether a member is certainly gone."""
        return self._member_lists.has_departed(member, self._routes.member_list_brokers(), now_ms)

    def has_foreign(self) -> bool:
        """Say whether a member of the group runs another client than this one."""
        return self._member_lists.has_foreign

    def readable_queues(self) -> frozenset[Queue]:
        """Return the queues that are readable by the last routes."""
        return self._routes.readable_queues

    def missing_topics(self) -> set[str]:
        """Return the topics that do not exist, as a name server said."""
        return self._routes.missing_topics()

    def is_new(self, queue: Queue) -> bool:
        """Say whether a queue appeared while the group was running: it is read from its first message."""
        return self._routes.is_new(queue)

    def request_rebalance(self, now_ms: int) -> None:
        """Rebalance as soon as the rate limit allows it."""
        self.timer.request(now_ms)
        self._due_ms = None

    def due_ms(self) -> int:
        """Return when the next query for routes or members is due."""
        if self._due_ms is None:
            self._due_ms = min(self._routes.due_ms(self._settled_at_ms()), self._rebalance_due_ms())
        return self._due_ms

    def set_unsettled(self, is_unsettled: bool) -> None:
        """Set whether this member is still acquiring or releasing queues."""
        self.is_unsettled, self._due_ms = is_unsettled, None

    def _settled_at_ms(self) -> int:
        return NEVER_MS if self.is_unsettled else self.assignment.changed_ms + self._times.recent_change_ms

    def _rebalance_due_ms(self) -> int:
        timer = self.timer
        if self._is_broadcast:
            return self.assignment.expires_ms
        if timer.is_running or not self._can_rebalance():
            return NEVER_MS
        due_ms = timer.due_ms()
        if timer.started_ms is not None:
            soon_ms, seldom_ms = self._times.rebalance_unsettled_interval_ms, self._times.rebalance_interval_ms
            due_ms = min(due_ms, next_poll_ms(timer.started_ms, soon_ms, seldom_ms, self._settled_at_ms()))
        # A broker that is just being connected to is worth a short wait: it may know members that others do not.
        for broker in self._brokers_without_list:
            if broker not in self._registered:
                due_ms = max(due_ms, self._routes.brokers()[broker] + self._times.query_retry_ms)
        return due_ms

    def _can_rebalance(self) -> bool:
        """Say whether a broker can be queried, and the queues are known."""
        return bool(self._registered) and self._routes.is_complete and not self._sessions.is_leaving

    def step(self, event: events.Event, now_ms: int) -> list[Action]:
        """Process an event, and rebalance if that is due."""
        self._due_ms = None
        if type(event) not in _RELEVANT_EVENTS:
            return []
        actions = self._handle_event(event, now_ms)
        actions += self._routes.query_due(now_ms, self._settled_at_ms())
        if self._rebalance_due_ms() <= now_ms:
            actions += self._assign_all(now_ms) if self._is_broadcast else self._start_rebalance(now_ms)
        return actions

    def _handle_event(self, event: events.Event, now_ms: int) -> list[Action]:
        match event:
            case events.MemberListReceived():
                return self._member_list_received(event, now_ms)
            case events.OwnershipReported():
                self.assignment.monitor.record_filters(event)
                actions, is_news = self.peer_claims.reported(event, now_ms, self._times.ownership_probe_ms)
                if self._member_lists.clear_suspicion(event.broker, event.member) or is_news:
                    self.timer.request(now_ms)
                return actions + self._finish_if_owners_known(now_ms)
            case events.OwnershipProbeFailed():
                self._suspect_if_closed(event, now_ms)
                return self.peer_claims.probe_failed(event, now_ms) + self._finish_if_owners_known(now_ms)
            case events.MemberListFailed():
                return self._member_list_failed(event.broker, now_ms) if event.request_id == self._request_id else []
            case events.ConnectionLost():
                return self._connection_lost(event.broker, now_ms)
            case _:
                self._handle_trigger(event, now_ms)
                return []

    def _suspect_if_closed(self, event: events.OwnershipProbeFailed, now_ms: int) -> None:
        """Read the list again after a moment if a member's connection is closed: the entry may be stale."""
        if not event.is_connection_closed:
            self._member_lists.clear_suspicion(event.broker, event.member)
        elif self._member_lists.suspect_stale(event.broker, event.member, now_ms):
            self.timer.request(now_ms + self._times.departed_ms)

    def _handle_trigger(self, event: events.Event, now_ms: int) -> None:
        """Process an event that is only a reason to rebalance."""
        match event:
            case events.MembersChanged():
                self.timer.request(now_ms)
            case events.HandoverRequested():
                self._handover_requested(event, now_ms)
            case events.HeartbeatAcknowledged() if (
                self._sessions.is_registered(event.broker) and event.broker not in self._registered
            ):
                if event.broker in self._routes.brokers():
                    self._registered.add(event.broker)
                    self.timer.request(now_ms)
            case events.RouteReceived() if self._routes.update(event, now_ms):
                self._routes_changed(now_ms)
            case events.RouteFailed() if self._routes.query_failed(event.topic, now_ms):
                self._routes_changed(now_ms)
            case _:
                pass

    def _handover_requested(self, event: events.HandoverRequested, now_ms: int) -> None:
        if self._concerns_own_queue(event):
            if event.member is not None:
                self.peer_claims.record_question(event.member, now_ms)
            self.timer.request(now_ms)
            self._routes.refresh((queue.topic for queue in event.waiting_for), now_ms)
        if event.member is not None and self.peer_claims.is_responsive_again(event.member, now_ms):
            self.timer.request(now_ms)

    def _concerns_own_queue(self, event: events.HandoverRequested) -> bool:
        """Say whether a peer waits for a queue of ours: then one of the two has a wrong list or route."""
        if not event.waiting_for:
            return False
        ours = {*(self.assignment.plan or ()), *self.assignment.held_queues()}
        return not ours.isdisjoint(event.waiting_for)

    def _routes_changed(self, now_ms: int) -> None:
        brokers = self._routes.brokers()
        self._registered = {broker for broker in brokers if self._sessions.is_registered(broker)}
        self._member_lists.retain(brokers)
        self._brokers_without_list = self._find_brokers_without_list()
        self.assignment.changed_ms = now_ms
        self.timer.request(now_ms)
        if self._is_broadcast and self._routes.is_complete:
            self._assign_all(now_ms)

    def _assign_all(self, now_ms: int) -> list[Action]:
        self.assignment.assign_all(now_ms)
        return []

    def _find_brokers_without_list(self) -> tuple[str, ...]:
        return tuple(broker for broker in self._routes.member_list_brokers() if not self._member_lists.has_list(broker))

    def _start_rebalance(self, now_ms: int) -> list[Action]:
        self.timer.begin(now_ms)
        self._request_id += 2
        self._has_answer = False
        brokers = self._routes.member_list_brokers()
        asked = [broker for broker in brokers if broker in self._registered]
        for broker in brokers:
            if broker not in self._registered:
                self._member_lists.mark_silent(broker, now_ms)
        self._unanswered = set(asked)
        actions: list[Action] = [QueryMemberList(broker, self._request_id) for broker in asked]
        # A member that seemed stale and answers is alive.
        actions += [
            ProbeOwnership(broker, member, request_id=self._request_id, asked_ms=now_ms)
            for broker in asked
            for member in self._member_lists.stale_members(broker)
        ]
        # No actions, if only brokers are connected that are not queried.
        return actions or self._evaluate_if_all_answered(now_ms)

    def _member_list_received(self, event: events.MemberListReceived, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        has_changed = self._member_lists.update(event, now_ms)
        if self._brokers_without_list:
            self._brokers_without_list = self._find_brokers_without_list()
        if event.queue_counts is not None and event.broker in self._routes.brokers():
            actions += self._routes.compare_queue_counts(event.broker, event.queue_counts, now_ms)
        if event.request_id == self._request_id and event.broker in self._unanswered:
            self._unanswered.remove(event.broker)
            self._has_answer = True
            actions += self._evaluate_if_all_answered(now_ms)
        elif has_changed and event.broker in self._routes.member_list_brokers():
            self.timer.request(now_ms)
        return actions

    def _member_list_failed(self, broker: str, now_ms: int) -> list[Action]:
        if broker not in self._unanswered:
            return []
        self._member_lists.mark_silent(broker, now_ms)
        self._unanswered.remove(broker)
        return self._evaluate_if_all_answered(now_ms)

    def _connection_lost(self, broker: str, now_ms: int) -> list[Action]:
        self._registered.discard(broker)
        self._member_lists.mark_silent(broker, now_ms)
        actions = self._member_list_failed(broker, now_ms)
        return actions + self.peer_claims.connection_lost(broker, now_ms) + self._finish_if_owners_known(now_ms)

    def _evaluate_if_all_answered(self, now_ms: int) -> list[Action]:
        if self._unanswered:
            return []
        if not self._has_answer:
            self.timer.end()
            self.timer.request(self._no_answer_backoff.after(now_ms))
            return []
        snapshot = self._member_lists.snapshot(self._routes.member_list_brokers(), now_ms)
        actions = self._schedule_retries(snapshot, now_ms)
        if not self._is_confirmed(snapshot, now_ms):
            self.timer.end()
            return actions
        self.timer.request(snapshot.expires_ms)
        self._snapshot = snapshot
        if self._needs_peer_claims(snapshot):
            peers = self._peers_to_query(snapshot)
            actions += self.peer_claims.start(peers, snapshot.members, self._request_id, now_ms)
        return actions + self._finish_if_owners_known(now_ms)

    def _schedule_retries(self, snapshot: GroupSnapshot, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if snapshot.unlisted_at:
            for broker in snapshot.unlisted_at:
                actions += self._sessions.send_heartbeat(broker, now_ms)
            self.timer.request(self._unlisted_backoff.after(now_ms))
        else:
            self._unlisted_backoff.reset()
        if not snapshot.is_consistent:
            self.timer.request(now_ms + self._times.query_retry_ms)
        if all(map(self._member_lists.is_answering, self._registered.intersection(self._routes.member_list_brokers()))):
            self._no_answer_backoff.reset()
        else:
            self.timer.request(self._no_answer_backoff.after(now_ms))
        return actions

    def _is_confirmed(self, snapshot: GroupSnapshot, now_ms: int) -> bool:
        """Say whether to act on a read: with leases or foreign members at once, else when a second one is equal.

        Foreign members do not wait, and their plans follow from the ids alone, as ours do then: a queue that is given
        up later than they take it is handled twice, and one that is acquired later than they give it up only waits.
        """
        is_confirmed = self._confirming_read.confirms(snapshot.listed_ids, now_ms)
        if is_confirmed or snapshot.has_foreign or self._has_leases():
            return True
        again_ms = self._confirming_read.confirms_at_ms
        # A missing member counts as gone a little later than that: one read then serves both.
        is_gone_soon = again_ms < snapshot.expires_ms < again_ms + self._times.rebalance_gap_ms
        self.timer.request(snapshot.expires_ms if is_gone_soon else again_ms)
        return False

    def _has_leases(self) -> bool:
        return all(self._sessions.is_steelyard(broker) is not False for broker in self._routes.brokers())

    def _needs_peer_claims(self, snapshot: GroupSnapshot) -> bool:
        return (
            uses_owners(self._options.strategy)
            and not snapshot.has_foreign
            and len(snapshot.members) <= self._options.max_sticky_members
            and not self._has_leases()
        )

    def _peers_to_query(self, snapshot: GroupSnapshot) -> dict[str, str]:
        """Return the members to probe, each with a broker that lists it, once if there is one.

        A broker that lists a member twice may use a dead connection, and then the member seems to hang.
        """
        asked = [broker for broker in self._routes.member_list_brokers() if broker in self._registered]
        peers: dict[str, str] = {}
        for member in snapshot.members:
            listing = [broker for broker in asked if self._member_lists.lists_member(broker, member)]
            if listing and member != self._options.id:
                once = (broker for broker in listing if not self._member_lists.lists_member_twice(broker, member))
                peers[member] = next(once, listing[0])
        return peers

    def _finish_if_owners_known(self, now_ms: int) -> list[Action]:
        if self._snapshot is None or not self.peer_claims.is_done:
            return []
        snapshot, self._snapshot = self._snapshot, None
        warnings = self._member_lists.warnings(self._routes.member_list_brokers())
        actions = self.assignment.assign(snapshot, self._known_owners(snapshot, now_ms), warnings, now_ms)
        self.timer.request(self.assignment.expires_ms)
        self.timer.end()
        return actions

    def _known_owners(self, snapshot: GroupSnapshot, now_ms: int) -> KnownOwners:
        if self._has_leases():
            return KnownOwners(queues_by_owner(snapshot.owners))
        if not self._needs_peer_claims(snapshot):
            return KnownOwners(None)
        held = self.peer_claims.held_by_member()
        others = [member for member in snapshot.members if member != self._options.id]
        unresponsive = self.peer_claims.unresponsive(others, now_ms - self._times.rebalance_unsettled_interval_ms)
        owner: dict[Queue, str] = {}
        # If two members claim a queue, the first counts, at every member; an old report counts for less.
        responsive = [member for member in snapshot.members if member not in unresponsive]
        for member in (*sorted(unresponsive), *reversed(responsive)):
            mine = self.assignment.held_queues() if member == self._options.id else held.get(member, ())
            owner.update(dict.fromkeys(sort_queues(mine), member))
        owner.update(snapshot.owners)
        return KnownOwners(queues_by_owner(owner), unresponsive, self.peer_claims.repeatedly_unresponsive(others))
