"""Gathering the facts of a group: from all brokers, from its members through them, and from the name servers."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from steelyard.balance.hazards import Progress
from steelyard.client.admin.asking import together
from steelyard.client.admin.group_view import Facts, GroupView, Member, look_at
from steelyard.client.admin.members import started_at
from steelyard.client.admin.offsets import Stats
from steelyard.client.admin.resets import Resets
from steelyard.client.admin.times import moment
from steelyard.errors import SteelyardError
from steelyard.model import BrokerPlace, Queue
from steelyard.net.clock import now_ms
from steelyard.wire.bodies.heartbeat import ConsumeKind, MessageModel
from steelyard.wire.bodies.members import ConsumerConnections
from steelyard.wire.bodies.running import RunningState

__all__ = ["KINDS", "Viewing"]

KINDS: Mapping[ConsumeKind | None, str] = {
    ConsumeKind.PUSH: "push",
    ConsumeKind.PULL: "pull",
    ConsumeKind.POP: "pop",
}

_STRATEGY = "allocateMessageQueueStrategy"
_ASKED_AT_ONCE = 4
_MOST_ASKED = 64
"""Members that are asked one by one: each costs a broker of Apache's a thread until it answers."""


class Viewing(Resets):
    """The part of an administrator's client that looks at a whole group."""

    async def _view(
        self, group: str, places: Mapping[str, BrokerPlace], earlier: GroupView | None, *, ask_members: bool = True
    ) -> GroupView:
        full = self._names.full(group)
        connections = await self._connections(full, places.values())
        members = self._members_in(connections)
        locks_tell = not ask_members and all(body.steelyard is not None for body in connections.values())
        asked = [member for member in members if not (locks_tell and member.ours)]
        states, notes = await self._states(full, asked, places)
        topics = {topic for body in connections.values() for topic in body.subscriptions}
        topics |= {self._names.full(topic) for member in members for topic in member.topics or ()}
        queues, missing = await self._readable(topics)
        rows = await self._progress(full, places.values())
        told = next(iter(connections.values()), None)
        at_ms = now_ms()
        facts = Facts(
            group=group,
            at_ms=at_ms,
            members=tuple(self._completed(member, states.get(member.id)) for member in members),
            broadcast=told is not None and told.model is MessageModel.BROADCASTING,
            kind=None if told is None else KINDS.get(told.kind),
            topics=frozenset(map(self._names.bare, topics)),
            queues=tuple(map(self._names.bare_queue, queues)) if connections else tuple(row.queue for row in rows),
            locked=self._locked(connections),
            our_brokers=frozenset(broker for broker, body in connections.items() if body.steelyard is not None),
            claimed={name: frozenset(map(self._names.bare_queue, _held(state))) for name, state in states.items()},
            owned_at={
                (name, self._names.bare_queue(queue)): since
                for name, state in states.items()
                for queue, since in _owned_at(state, at_ms).items()
            },
            progress={row.queue: Progress(at_ms, row.committed, row.end) for row in rows},
            consumed={row.queue: row.consumed_at for row in rows if row.consumed_at is not None},
            listed=_listed(connections),
            told={broker: body.steelyard.hazards or () for broker, body in connections.items() if body.steelyard}
            | {name: _stopped(group, state) for name, state in states.items()},
            notes=(*notes, *missing),
        )
        return look_at(facts, earlier)

    def _glance(
        self,
        group: str,
        connections: Mapping[str, ConsumerConnections],
        stats: Stats,
        earlier: GroupView | None = None,
    ) -> GroupView:
        """Make a view of what lists tell, for many groups at a time: no member is asked, and no name server."""
        told, at_ms = next(iter(connections.values()), None), now_ms()
        words = {broker: body.steelyard for broker, body in connections.items() if body.steelyard is not None}
        queues = [
            Queue(topic, broker, queue_id)
            for broker, word in words.items()
            for topic, count in (word.queues or {}).items()
            for queue_id in range(count)
        ]
        topics = {topic for body in connections.values() for topic in body.subscriptions}
        facts = Facts(
            group=self._names.bare(group),
            at_ms=at_ms,
            members=tuple(self._members_in(connections)),
            broadcast=told is not None and told.model is MessageModel.BROADCASTING,
            kind=None if told is None else KINDS.get(told.kind),
            topics=frozenset(map(self._names.bare, topics)),
            queues=tuple(map(self._names.bare_queue, queues)) if words else tuple(row.queue for row in stats.rows),
            locked=self._locked(connections),
            our_brokers=frozenset(words),
            progress={row.queue: Progress(at_ms, row.committed, row.end) for row in stats.rows},
            listed=_listed(connections),
            told={broker: word.hazards or () for broker, word in words.items()},
        )
        return look_at(facts, earlier)

    def _locked(self, connections: Mapping[str, ConsumerConnections]) -> dict[Queue, str]:
        return {
            self._names.bare_queue(queue): owner
            for broker, body in connections.items()
            for queue, owner in _locked(broker, body).items()
        }

    async def _states(
        self, group: str, members: list[Member], places: Mapping[str, BrokerPlace]
    ) -> tuple[dict[str, RunningState], list[str]]:
        """Ask members what they hold; who does not answer is noted."""
        notes: list[str] = []
        if len(members) > _MOST_ASKED:
            notes.append(f"{len(members)} members are too many to be asked one by one: only locks tell who has what")
            members = []

        async def ask(member: Member) -> RunningState | None:
            why = "it is registered nowhere"
            for broker in member.brokers:
                try:
                    return await self._state(places[broker], group, member.id)
                except SteelyardError as error:
                    why = error.what
            notes.append(f"{member.id} could not be asked what it holds: {why}")
            return None

        answers = await together(ask, members, at_once=_ASKED_AT_ONCE)
        states = {member.id: state for member, state in zip(members, answers, strict=True) if state is not None}
        return states, notes

    def _completed(self, member: Member, state: RunningState | None) -> Member:
        """Add what a member says of itself to what brokers say of it; they know better, where they know."""
        if state is None:
            return member
        topics, strategy = member.topics, member.strategy
        if topics is None and state.subscriptions:
            topics = self._topics(each.topic for each in state.subscriptions)
        if strategy is None and member.ours:
            strategy = state.properties.get(_STRATEGY)
        filters = self._filters(state) or None
        return replace(member, topics=topics, filters=filters, strategy=strategy, started_at=started_at(state))

    async def _readable(self, topics: set[str]) -> tuple[list[Queue], list[str]]:
        """Return the queues of some topics; one that is nowhere is noted."""
        wanted = sorted(topics)
        routes = await together(self._find_route, wanted)
        queues = [queue for route in routes if route is not None for queue in route.readable()]
        missing = [
            f"the group subscribes to {self._names.bare(topic)}, which does not exist"
            for topic, route in zip(wanted, routes, strict=True)
            if route is None
        ]
        return queues, missing


def _listed(connections: Mapping[str, ConsumerConnections]) -> dict[str, tuple[str, ...]]:
    """Return the ids that each broker lists, as it lists them."""
    return {broker: tuple(line.client_id or "" for line in body.connections) for broker, body in connections.items()}


def _held(state: RunningState) -> set[Queue]:
    """Return what a member has, also what it is giving up: until then it is its own."""
    word = state.steelyard
    if word is not None:
        return {*(word.held or ()), *(word.draining or ())}
    return {queue for queue, each in state.queues.items() if not each.dropped}


def _stopped(group: str, state: RunningState) -> tuple[str, ...]:
    """Return which of its queues a member lets stand still, as its brokers say it, if they are ours."""
    word = state.steelyard
    return () if word is None else tuple(f"group {group}: {sentence}" for sentence in word.stopped or ())


def _owned_at(state: RunningState, at_ms: int) -> dict[Queue, datetime]:
    """Return since when a member has its queues, where it says so. Its clock may be wrong, so it tells how long."""
    word = state.steelyard
    if word is None:
        return {}
    told = zip(word.held or (), word.owned_ms or (), strict=False)
    found = {queue: moment(at_ms - owned_ms) for queue, owned_ms in told if owned_ms >= 0}
    return {queue: since for queue, since in found.items() if since is not None}


def _locked(broker: str, body: ConsumerConnections) -> dict[Queue, str]:
    """Return who has which of a broker's queues; the wire has the place in its list of members."""
    word = body.steelyard
    ids = [line.client_id or "" for line in body.connections]
    return {
        Queue(topic, broker, queue_id): ids[place]
        for topic, row in ((word.owners or {}) if word is not None else {}).items()
        for queue_id, place in enumerate(row)
        if 0 <= place < len(ids)
    }
