"""Members: who is in a group, and what one of them does right now.

Brokers know the lines of members (203), and ours also whose they are, what each wants and by which strategy it shares.
What a member holds only the member knows: a broker passes the question on (307).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from steelyard.balance.member_options import is_ours
from steelyard.client.admin.asking import Asking
from steelyard.client.admin.group_view import Member
from steelyard.client.admin.times import moment
from steelyard.errors import ConsumerOffline, SteelyardError, error_for
from steelyard.model import BrokerPlace, Queue, names_in_order
from steelyard.model.names import RETRY
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerConnections
from steelyard.wire.bodies.running import RunningState
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.group import AskRunningState
from steelyard.wire.releases import release

__all__ = ["HeldQueue", "Members", "Running", "TopicSpeed", "started_at"]

_STARTED = "PROP_CONSUMER_START_TIMESTAMP"
_MEMBER_MS = 3_000
"""How long a member may take to answer: a broker of Apache's would wait ten seconds, with a thread of its own."""


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue that a member holds."""

    queue: Queue
    committed: int
    waiting: int
    """Messages that it has pulled and not handled."""
    leaving: bool
    """Whether it gives the queue up."""
    locked: bool
    pulled_at: datetime | None
    consumed_at: datetime | None


@dataclass(frozen=True, slots=True)
class TopicSpeed:
    """How a member gets on with a topic."""

    handled_tps: float
    failed_tps: float
    handle_ms: float


@dataclass(frozen=True, slots=True)
class Running:
    """What a member says of itself."""

    id: str
    queues: tuple[HeldQueue, ...]
    started_at: datetime | None
    topics: Mapping[str, TopicSpeed]
    settings: Mapping[str, str]
    subscriptions: Mapping[str, str]
    """What it wants of each topic: tags, or an expression."""
    stacks: str | None = None
    """Where each of its threads is, if it was asked for that and tells."""


class Members(Asking):
    """What an administrator asks about members."""

    async def members(self, group: str) -> list[Member]:
        """List the members of a group that are online, in the order in which they share."""
        full, places = self._names.full(group), await self._places()
        found = await self._members(full, places.values())
        if not found:
            await self._known_group(full, places)
        return found

    async def ask_member(self, group: str, member: str, *, stacks: bool = False) -> Running:
        """Ask a member what it holds and how it gets on; with ``stacks`` also where each of its threads is."""
        full, places = self._names.full(group), await self._places()
        there = {each.id: each for each in await self._members(full, places.values())}
        if not there:
            await self._known_group(full, places)
        if member not in there:
            raise ConsumerOffline(
                code=int(ResponseCode.CONSUMER_NOT_ONLINE),
                server=str(self._connect),
                what=f"group {group} has no member {member!r}",
                next_step=f"online are: {', '.join(there) or 'none'}",
            )
        error: SteelyardError | None = None
        for broker in there[member].brokers:
            try:
                return self._running(member, await self._state(places[broker], full, member, stacks=stacks))
            except SteelyardError as refused:
                error = refused
        raise error or ConsumerOffline(code=int(ResponseCode.CONSUMER_NOT_ONLINE), server=str(self._connect))

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _connections(self, group: str, places: Iterable[BrokerPlace]) -> dict[str, ConsumerConnections]:
        """Return the lines of a group at each broker that has some."""
        answers = await self._ask_all(places, RequestCode.GET_CONSUMER_CONNECTION_LIST, Group(group))
        for place, answer in answers:
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE):
                raise error_for(answer.code, answer.remark or "", server=place.name)
        return {
            place.name: decode_body(ConsumerConnections, answer.body)
            for place, answer in answers
            if answer.code == ResponseCode.SUCCESS
        }

    async def _members(self, group: str, places: Iterable[BrokerPlace]) -> list[Member]:
        return self._members_in(await self._connections(group, places))

    def _members_in(self, connections: Mapping[str, ConsumerConnections]) -> list[Member]:
        """Put together what several brokers tell of a group's members."""
        found: dict[str, Member] = {}
        for broker, body in connections.items():
            word = body.steelyard
            views = {each.id: each for each in (word.members or ())} if word is not None else {}
            for line in body.connections:
                name = line.client_id or ""
                view, known = views.get(name), found.get(name)
                if known is None:
                    known = Member(
                        name, line.client_address or "", line.language or "", release(line.version), is_ours(name)
                    )
                if view is not None:
                    known = replace(
                        known,
                        ours=bool(view.ours),
                        strategy=view.strategy or known.strategy,
                        topics=known.topics if view.topics is None else self._topics(view.topics),
                        leaving=known.leaving or bool(view.leaving),
                    )
                found[name] = replace(known, brokers=tuple(dict.fromkeys((*known.brokers, broker))))
        return [found[name] for name in names_in_order(found)]

    def _topics(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return what a member subscribes to as users know it; retries belong to its group."""
        return tuple(sorted(self._names.bare(topic) for topic in wanted if not topic.startswith(RETRY)))

    def _filters(self, state: RunningState) -> dict[str, str]:
        """Return what a member wants of each topic, as users know it."""
        return {
            self._names.bare(each.topic): each.expression
            for each in sorted(state.subscriptions, key=lambda each: each.topic)
            if not each.topic.startswith(RETRY)
        }

    async def _state(self, place: BrokerPlace, group: str, member: str, *, stacks: bool = False) -> RunningState:
        """Ask a member for its state, through a broker."""
        asked = AskRunningState(group, member, jstack_enable=stacks)
        answer = await self._ask(place, RequestCode.GET_CONSUMER_RUNNING_INFO, asked, timeout_ms=_MEMBER_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=place.name)
        return decode_body(RunningState, answer.body)

    def _running(self, member: str, state: RunningState) -> Running:
        return Running(
            member,
            tuple(
                HeldQueue(
                    self._names.bare_queue(queue),
                    each.commit_offset,
                    each.cached_messages,
                    each.dropped,
                    each.locked,
                    moment(each.pulled_ms),
                    moment(each.consumed_ms),
                )
                for queue, each in sorted(state.queues.items())
            ),
            started_at(state),
            {
                self._names.bare(topic): TopicSpeed(each.handled_tps, each.failed_tps, each.handle_ms)
                for topic, each in state.topics.items()
            },
            dict(state.properties),
            self._filters(state),
            state.thread_dump,
        )


def started_at(state: RunningState) -> datetime | None:
    """Return when a member was started, if it says so."""
    text = state.properties.get(_STARTED, "")
    return moment(int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else None
