"""What checks ask for: one look at a cluster, a group, a topic or everything, judged.

Each look has lines of its own: what is watched is what somebody meets who comes from outside. A server that cannot be
reached, and a name that is nowhere, are critical; a server that answers and does not tell is unknown. Left out of
`all` is what writes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

from steelyard.cli.check.judging import (
    RoundTrip,
    judge_cluster,
    judge_group,
    judge_send,
    judge_topic,
    with_dead_letters,
)
from steelyard.cli.check.verdict import NO_LIMITS, Figure, Level, Limits, Reason, Verdict, worst
from steelyard.cli.frame.counting import counted
from steelyard.cli.frame.exits import Exit, exit_for
from steelyard.client.admin import Admin
from steelyard.client.admin.asking import together
from steelyard.client.checkup.groups import look_at_group
from steelyard.client.checkup.looking import look_at_name_servers
from steelyard.client.producing.producer import Producer
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Message, Permission, Queue, StoredMessage

if TYPE_CHECKING:
    from steelyard.client.admin.group_view import GroupView
    from steelyard.client.connect import Connect

__all__ = ["Checks", "Wanted", "told"]

_PROBED_QUEUES = 32
"""Queues in which the oldest message is looked for, those first that were handled longest ago."""
_STEP_S = 3.0
_NAMED = 8
_DISK = Limits(75, 90)
_NOT_THERE = (Exit.NOT_FOUND, Exit.UNREACHABLE, Exit.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is still well."""

    lag: Limits = NO_LIMITS
    """In messages."""
    age: Limits = NO_LIMITS
    """In seconds."""
    dead: Limits = NO_LIMITS
    """In messages that a group gave up."""
    members: int = 0
    disk: Limits = _DISK
    """In per cent. From 90 on Apache's brokers take no messages."""
    skew: Limits = NO_LIMITS
    brokers: int = 0
    took: Limits = NO_LIMITS
    """In seconds."""


@dataclass(slots=True)
class Checks:
    """Checks of one cluster. Between two looks it remembers groups, to see what does not move."""

    connect: "Connect"
    wanted: Wanted
    _seen: "dict[str, GroupView]" = field(default_factory=dict)

    async def cluster(self) -> Verdict:
        """Check brokers and name servers."""
        seen = await look_at_name_servers(self.connect, min(self.connect.timeout_s, _STEP_S))
        if not any(each.works for each in seen):
            return judge_cluster((), seen, disk=self.wanted.disk)
        async with Admin(self.connect) as admin:
            brokers = await admin.cluster()
        return judge_cluster(brokers, seen, disk=self.wanted.disk, least=self.wanted.brokers)

    async def group(self, name: str) -> Verdict:
        """Check a group."""
        async with Admin(self.connect) as admin:
            return await self._group_of(admin, await self._given_up(admin))(name)

    async def topic(self, name: str) -> Verdict:
        """Check a topic."""
        async with Admin(self.connect) as admin:
            return await self._topic_of(admin)(name)

    async def send(self, topic: str | None) -> Verdict:
        """Send a message to each broker and read it again: to a topic, or to the one that each broker has for that."""
        # The brokers' own topics are in no namespace.
        connect = self.connect if topic is not None else replace(self.connect, namespace="")
        async with Admin(connect) as admin, Producer(connect, "steelyard-check", retries=0) as producer:
            if topic is None:
                queues = [Queue(broker.name, broker.name, 0) for broker in await admin.cluster()]
            else:
                queues = [
                    Queue(topic, each.broker, 0)
                    for each in (await admin.topic(topic)).counts
                    if each.write and each.permission & Permission.WRITE
                ]
            trips = await together(lambda queue: _there_and_back(admin, producer, queue), queues)
        if not trips:
            reason = Reason(Level.CRITICAL, "there is no queue to send to")
            return Verdict(f"send {topic}" if topic else "send", "", (reason,))
        return judge_send(topic, trips, took=self.wanted.took)

    async def everything(self) -> Verdict:
        """Check the cluster, all topics and all groups."""
        cluster = await told("cluster", self.cluster())
        parts = [cluster]
        if any(each.name == "brokers_up" and each.value for each in cluster.figures):
            async with Admin(self.connect) as admin:
                parts += await together(self._topic_of(admin), [topic.name for topic in await admin.topics()])
                names = [group.name for group in await admin.groups()]
                given_up = await self._given_up(admin)
                parts += await together(self._group_of(admin, given_up, is_known=True), names, at_once=4)
        bad = [part.about for part in parts if part.level is not Level.OK]
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        level = worst(part.level for part in parts)
        are = "is" if len(bad) == 1 else "are"
        reasons = (Reason(level, f"{len(bad)} of {len(parts)} checks {are} not ok: {', '.join(bad[:_NAMED])}{more}"),)
        figures = (Figure("checks", len(parts)), Figure("not_ok", len(bad)))
        well = counted(len(parts), "check")
        return Verdict("all", well, reasons if bad else (), figures, tuple(parts))

    def _topic_of(self, admin: Admin) -> Callable[[str], Awaitable[Verdict]]:
        async def judge(name: str) -> Verdict:
            return judge_topic(await admin.topic(name), skew=self.wanted.skew, brokers=self.wanted.brokers)

        return lambda name: told(f"topic {name}", judge(name))

    async def _given_up(self, admin: Admin) -> Mapping[str, int]:
        """Return how many dead letters each group has, if somebody wants to know."""
        return {} if self.wanted.dead == NO_LIMITS else {each.group: each.messages for each in await admin.given_up()}

    def _group_of(
        self, admin: Admin, given_up: Mapping[str, int], *, is_known: bool = False
    ) -> Callable[[str], Awaitable[Verdict]]:
        async def judge(name: str) -> Verdict:
            view = await look_at_group(admin, name, self._seen.get(name), is_known=is_known)
            self._seen[name] = view
            oldest, wanted = await _oldest(admin, view), self.wanted
            verdict = judge_group(view, oldest, lag=wanted.lag, age=wanted.age, members=wanted.members)
            return with_dead_letters(verdict, given_up.get(name, 0), wanted.dead)

        return lambda name: told(f"group {name}", judge(name))


async def told(about: str, look: Awaitable[Verdict]) -> Verdict:
    """Wait for a verdict; what goes wrong on the way is one, too. What was asked for wrongly is raised."""
    try:
        return await look
    except ConfigurationError:
        raise
    except SteelyardError as error:
        level = Level.CRITICAL if exit_for(error) in _NOT_THERE else Level.UNKNOWN
        return Verdict(about, "", (Reason(level, " ".join(str(error).split())),))


async def _oldest(admin: Admin, view: "GroupView") -> timedelta | None:
    """Return for how long the oldest message of a group has waited; None if none does."""
    ever = datetime.min.replace(tzinfo=UTC)
    waiting = sorted((each for each in view.queues if each.lag), key=lambda each: each.consumed_at or ever)

    async def first(queue: Queue, offset: int) -> StoredMessage | None:
        try:
            return await admin.message_at(queue, offset)
        except SteelyardError:
            return None

    found = await together(lambda each: first(each.queue, each.committed or 0), waiting[:_PROBED_QUEUES])
    stored = [message.stored_ms for message in found if message is not None]
    return timedelta(milliseconds=max(0, view.at_ms - min(stored))) if stored else None


async def _there_and_back(admin: Admin, producer: Producer, queue: Queue) -> RoundTrip:
    body = f"steelyard check {datetime.now(UTC).isoformat()}".encode()
    began = perf_counter()
    try:
        sent = await producer.send(Message(queue.topic, body, tags="steelyard-check"), queue=queue)
        stored = perf_counter()
        back = await admin.message_at(sent.queue, sent.offset)
    except SteelyardError as error:
        return RoundTrip(queue.broker, problem=" ".join(str(error).split()))
    problem = None if back is not None and back.body == body else "a message was stored, and is not there to be read"
    return RoundTrip(queue.broker, (stored - began) * 1000, (perf_counter() - began) * 1000, problem)
