"""Running checks: a cluster, a group, a topic, a round trip or everything, once or repeatedly with changes marked.

Each check opens new connections, as a client from outside would. A server that cannot be reached, and a name that does
not exist, are critical; a server that does not support the question is unknown. `all` sends nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any

from steelyard.cli.check_rules import (
    NO_THRESHOLDS,
    CheckMetric,
    CheckReason,
    CheckResult,
    CheckStatus,
    RoundTrip,
    Thresholds,
    add_dead_letters,
    evaluate_cluster,
    evaluate_group,
    evaluate_send,
    evaluate_topic,
    worst_status,
)
from steelyard.cli.shared.exit_codes import ExitCode, exit_code_for
from steelyard.cli.shared.terminal import stderr_warnings, stop_on_signals
from steelyard.client.admin import Admin
from steelyard.client.admin.admin_session import gather_limited
from steelyard.client.cluster_facts import describe_settled_group, probe_name_servers
from steelyard.client.producer.producer import Producer
from steelyard.diagnostics import thresholds
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Message, Permission, Queue, StoredMessage
from steelyard.model.formatting import format_time, pluralize
from steelyard.model.time_text import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from steelyard.cli.shared.output import Output
    from steelyard.cli.shared.terminal import StopSignal
    from steelyard.client.admin.group_description import GroupDescription
    from steelyard.client.config import ClientConfig

_PROBED_QUEUES = 32
"""Queues in which the oldest message is searched, starting with those consumed longest ago."""
_NAME_SERVER_TIMEOUT_S = 3.0
_MAX_NAMED = 8
_DISK_THRESHOLDS = Thresholds(100 * thresholds.DISK_WARN, 100 * thresholds.DISK_FULL)
_CRITICAL_EXITS = (ExitCode.NOT_FOUND, ExitCode.UNREACHABLE, ExitCode.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The thresholds of a check."""

    lag: Thresholds = NO_THRESHOLDS
    """In messages."""
    age: Thresholds = NO_THRESHOLDS
    """In seconds."""
    dead: Thresholds = NO_THRESHOLDS
    """In dead letters of a group."""
    members: int | None = None
    """None: none are needed while there is no lag."""
    disk: Thresholds = _DISK_THRESHOLDS
    """In percent. From 90 on Apache's brokers reject messages."""
    skew: Thresholds = NO_THRESHOLDS
    brokers: int = 0
    took: Thresholds = NO_THRESHOLDS
    """In seconds."""


@dataclass(slots=True)
class ClusterChecks:
    """Checks of one cluster. It remembers groups between checks, to detect queues that are stuck."""

    config: "ClientConfig"
    options: CheckOptions
    _previous_views: "dict[str, GroupDescription]" = field(default_factory=dict)

    async def check_cluster(self) -> CheckResult:
        """Check brokers and name servers."""
        seen = await probe_name_servers(self.config, min(self.config.timeout_s, _NAME_SERVER_TIMEOUT_S))
        if not any(each.works for each in seen):
            return evaluate_cluster((), seen, disk=self.options.disk)
        async with Admin(self.config) as admin:
            brokers = await admin.brokers.list()
        return evaluate_cluster(brokers, seen, disk=self.options.disk, min_brokers=self.options.brokers)

    async def check_group(self, name: str) -> CheckResult:
        """Check a group."""
        async with Admin(self.config) as admin:
            return await self._group_check(admin, await self._dead_letter_counts(admin))(name)

    async def check_topic(self, name: str) -> CheckResult:
        """Check a topic."""
        async with Admin(self.config) as admin:
            return await self._topic_check(admin)(name)

    async def check_send(self, topic: str | None) -> CheckResult:
        """Send a message to each broker and read it back: in a topic, or in the one under the broker's own name."""
        # The brokers' own topics are in no namespace.
        config = self.config if topic is not None else replace(self.config, namespace="")
        async with Admin(config) as admin, Producer(config, "steelyard-check", retries=0) as producer:
            if topic is None:
                queues = [Queue(broker.name, broker.name, 0) for broker in await admin.brokers.list()]
            else:
                queues = [
                    Queue(topic, each.broker, 0)
                    for each in (await admin.topics.describe(topic)).counts
                    if each.write and each.permission & Permission.WRITE
                ]
            trips = await gather_limited(lambda queue: _round_trip(admin, producer, queue), queues)
        if not trips:
            reason = CheckReason(CheckStatus.CRITICAL, "there is no queue to send to")
            return CheckResult(f"send {topic}" if topic else "send", "", (reason,))
        return evaluate_send(topic, trips, took=self.options.took)

    async def check_all(self) -> CheckResult:
        """Check the cluster, all topics and all groups."""
        cluster = await result_of("cluster", self.check_cluster())
        parts = [cluster]
        if any(each.name == "brokers_up" and each.value for each in cluster.metrics):
            async with Admin(self.config) as admin:
                parts += await gather_limited(
                    self._topic_check(admin), [topic.name for topic in await admin.topics.list()]
                )
                names = [group.name for group in await admin.groups.list()]
                given_up = await self._dead_letter_counts(admin)
                parts += await gather_limited(self._group_check(admin, given_up, is_known=True), names, limit=4)
        bad = [part.subject for part in parts if part.status is not CheckStatus.OK]
        more = f" and {len(bad) - _MAX_NAMED} more" if len(bad) > _MAX_NAMED else ""
        level = worst_status(part.status for part in parts)
        are = "is" if len(bad) == 1 else "are"
        reasons = (
            CheckReason(level, f"{len(bad)} of {len(parts)} checks {are} not ok: {', '.join(bad[:_MAX_NAMED])}{more}"),
        )
        metrics = (CheckMetric("checks", len(parts)), CheckMetric("not_ok", len(bad)))
        ok_text = pluralize(len(parts), "check")
        return CheckResult("all", ok_text, reasons if bad else (), metrics, tuple(parts))

    def _topic_check(self, admin: Admin) -> Callable[[str], Awaitable[CheckResult]]:
        async def check(name: str) -> CheckResult:
            return evaluate_topic(
                await admin.topics.describe(name), skew=self.options.skew, brokers=self.options.brokers
            )

        return lambda name: result_of(f"topic {name}", check(name))

    async def _dead_letter_counts(self, admin: Admin) -> Mapping[str, int]:
        """Return how many dead letters each group has, if there are thresholds for them."""
        return (
            {}
            if self.options.dead == NO_THRESHOLDS
            else {each.group: each.messages for each in await admin.dead_letters.counts()}
        )

    def _group_check(
        self, admin: Admin, given_up: Mapping[str, int], *, is_known: bool = False
    ) -> Callable[[str], Awaitable[CheckResult]]:
        async def check(name: str) -> CheckResult:
            view = await describe_settled_group(admin, name, self._previous_views.get(name), is_known=is_known)
            self._previous_views[name] = view
            oldest, wanted = await _oldest_waiting(admin, view), self.options
            result = evaluate_group(view, oldest, lag=wanted.lag, age=wanted.age, members=wanted.members)
            return add_dead_letters(result, given_up.get(name, 0), wanted.dead)

        return lambda name: result_of(f"group {name}", check(name))


async def result_of(subject: str, check: Awaitable[CheckResult]) -> CheckResult:
    """Return the result of a check; an error on the way is one too, but a wrong argument is raised."""
    try:
        return await check
    except ConfigurationError:
        raise
    except SteelyardError as error:
        level = CheckStatus.CRITICAL if exit_code_for(error) in _CRITICAL_EXITS else CheckStatus.UNKNOWN
        return CheckResult(subject, "", (CheckReason(level, " ".join(str(error).split())),))


async def _oldest_waiting(admin: Admin, view: "GroupDescription") -> timedelta | None:
    """Return how long the oldest unconsumed message of a group has waited; None if there is none."""
    ever = datetime.min.replace(tzinfo=UTC)
    waiting = sorted((each for each in view.queues if each.lag), key=lambda each: each.consumed_at or ever)

    async def first(queue: Queue, offset: int) -> StoredMessage | None:
        try:
            return await admin.messages.at(queue, offset, opened=False)
        except SteelyardError:
            return None

    found = await gather_limited(lambda each: first(each.queue, each.committed or 0), waiting[:_PROBED_QUEUES])
    stored = [message.stored_ms for message in found if message is not None]
    return timedelta(milliseconds=max(0, view.at_ms - min(stored))) if stored else None


async def _round_trip(admin: Admin, producer: Producer, queue: Queue) -> RoundTrip:
    body = f"steelyard check {datetime.now(UTC).isoformat()}".encode()
    began = perf_counter()
    try:
        sent = await producer.send(Message(queue.topic, body, tags="steelyard-check"), queue=queue)
        stored = perf_counter()
        back = await admin.messages.at(sent.queue, sent.offset)
    except SteelyardError as error:
        return RoundTrip(queue.broker, problem=" ".join(str(error).split()))
    problem = None if back is not None and back.body == body else "a stored message cannot be read back"
    return RoundTrip(queue.broker, (stored - began) * 1000, (perf_counter() - began) * 1000, problem)


_MIN_INTERVAL_S = 0.05
_STOP_POLL_S = 0.1


def run_checks(
    check: "Callable[[], Coroutine[Any, Any, CheckResult]]", out: "Output", every: str | None, count: int | None
) -> int:
    """Check once, or repeatedly until stopped; return the exit code of the last check."""
    with stderr_warnings(quiet=True):
        if every is None:
            result = asyncio.run(check())
            if out.is_table:
                for line in result.status_lines():
                    out.print_result(line)
            else:
                out.print_object(result.as_json())
            return int(result.status)
        return _run_repeatedly(check, out, _interval_s(every), count)


def _interval_s(every: str) -> float:
    pause_s = parse_duration_s(every)
    if pause_s < _MIN_INTERVAL_S:
        raise ConfigurationError(f"--every is {every}", next_step=f"give {_MIN_INTERVAL_S:g}s or more, such as 30s")
    return pause_s


def _run_repeatedly(
    check: "Callable[[], Coroutine[Any, Any, CheckResult]]", out: "Output", interval_s: float, count: int | None
) -> int:
    before: dict[str, CheckStatus] = {}
    code, checks = int(ExitCode.INTERRUPTED), 0
    with stop_on_signals() as stop:
        while not stop:
            result, at = asyncio.run(_run_unless_stopped(check, stop)), datetime.now(UTC)
            if result is None:
                break
            code, checks = int(result.status), checks + 1
            if out.is_table:
                for line in changed_lines(result, before):
                    out.print_result(f"{format_time(at)} {line}")
            else:
                was = before.get(result.subject)
                out.print_object({"at": at, "was": None if was is None else was.name.lower(), **result.as_json()})
            now = {each.subject: each.status for each in (result, *result.parts)}
            before = before | now if _saw_no_cluster(result) else now
            if checks == count:
                break
            stop.wait(interval_s)
    return code


async def _run_unless_stopped(
    check: "Callable[[], Coroutine[Any, Any, CheckResult]]", stop: "StopSignal"
) -> "CheckResult | None":
    """Run a check, or return None if it is stopped meanwhile: a server may hang."""
    task = asyncio.create_task(check())
    while not task.done():
        await asyncio.wait({task}, timeout=_STOP_POLL_S)
        if stop and not task.done():
            task.cancel()
            await asyncio.wait({task})
            return None
    return task.result()


def _saw_no_cluster(result: "CheckResult") -> bool:
    """Say whether the check could not even list what to check: then nothing counts as gone."""
    return len(result.parts) == 1 and result.status is result.status.CRITICAL


def changed_lines(result: "CheckResult", before: "dict[str, CheckStatus]") -> list[str]:
    """Return the line of a result, marked if its status changed, and lines of parts that are new or changed.

    >>> from steelyard.cli.check_rules import CheckReason, CheckResult, CheckStatus
    >>> now = CheckResult("group billing", "no lag", (CheckReason(CheckStatus.CRITICAL, "no member is online"),))
    >>> changed_lines(now, {"group billing": CheckStatus.OK})
    ['CRITICAL (was OK) group billing: no member is online']
    >>> changed_lines(now, {"group billing": CheckStatus.CRITICAL})
    ['CRITICAL group billing: no member is online']
    """
    lines = []
    for each in (result, *result.parts):
        was = before.get(each.subject)
        if was is not None and was is not each.status:
            level, _, rest = each.status_line().partition(" ")
            lines.append(f"{level} (was {was.name}) {rest}")
        elif each is result or was is None:
            lines.append(each.status_line())
    now = {each.subject for each in (result, *result.parts)}
    gone = [] if _saw_no_cluster(result) else sorted(set(before).difference(now))
    return [*lines, *(f"GONE (was {before[subject].name}) {subject}" for subject in gone)]
