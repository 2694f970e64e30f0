"""Explains what a consumer does and why, in plain words: its queues, the group as it sees it, and findings."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from steelyard.balance.group.member import MemberStateMachine
from steelyard.balance.group.process_queue import QueueStatus
from steelyard.balance.group.queue_states import QueueState
from steelyard.client.namespace import ClientNamespace
from steelyard.diagnostics import thresholds
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.model.formatting import format_duration, pluralize


@dataclass(frozen=True, slots=True)
class QueueExplanation:
    """One queue of this member: its state, since when, and why."""

    queue: Queue
    state: str
    since_s: float
    why: str

    def __str__(self) -> str:
        return f"{self.queue} {self.state} for {self.since_s:.0f} s: {self.why}"


@dataclass(frozen=True, slots=True)
class MemberExplanation:
    """A consumer at one moment; as text it is what to show a person."""

    group: str
    id: str
    strategy: str
    members: tuple[str, ...]
    queues: tuple[QueueExplanation, ...]
    others: Mapping[str, tuple[Queue, ...]] | None
    """The queues of each other member by the last assignment; None if that is not known."""
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        count = len(self.members)
        who = pluralize(count, "member") if count else "no members yet"
        lines = [f"group {self.group}: {who}, strategy {self.strategy}; this is {self.id}"]
        lines += [f"  {queue}" for queue in self.queues] or ["  no queues"]
        if self.others is None:
            if count > 1:
                lines.append("the queues of the other members are not known")
        else:
            for member, queues in self.others.items():
                lines.append(f"{member} has {', '.join(map(str, queues)) or 'no queues'}")
        lines += [f"warning: {finding}" for finding in self.findings]
        return "\n".join(lines)


def explain_member(
    member: MemberStateMachine, namespace: ClientNamespace, findings: tuple[Finding, ...], now_ms: int
) -> MemberExplanation:
    """Explain a member."""
    options, owned = member.options, member.rebalancer.assignment.owned_by_member
    others = None
    if owned is not None:
        others = {
            other: tuple(map(namespace.unwrap_queue, sorted(queues)))
            for other, queues in sorted(owned.items())
            if other != options.id
        }
    queues = []
    for status in member.queue_statuses():
        queue, since_s = namespace.unwrap_queue(status.queue), (now_ms - status.state_since_ms) / 1000
        queues.append(QueueExplanation(queue, status.state.value, since_s, _why(status, now_ms)))
    return MemberExplanation(
        group=namespace.unwrap(options.group),
        id=options.id,
        strategy=member.rebalancer.assignment.strategy_name,
        members=member.rebalancer.assignment.members,
        queues=tuple(queues),
        others=others,
        findings=tuple(
            structs.replace(
                finding,
                message=namespace.unwrap_text(finding.message),
                next_step=namespace.unwrap_text(finding.next_step),
            )
            for finding in (*member.findings(), *findings)
        ),
    )


_REASONS = {
    QueueState.WANTED: "it is assigned to this member, and its lock is requested",
    QueueState.ASKING: "the other members are asked whether one of them owns it",
    QueueState.STARTING: "its committed offset is requested",
    QueueState.UNSURE: "its ownership has to be confirmed, and no message is begun until then",
    QueueState.DRAINING: "it goes to another member once {} handlers are done",
    QueueState.COMMITTING: "it goes to another member once the last commit is confirmed",
    QueueState.RELEASING: "it goes to another member once its lock is released",
}


def _why(status: QueueStatus, now_ms: int) -> str:
    if status.state is QueueState.WANTED and status.denied_since_ms is not None:
        return "it is assigned to this member, and another one has not released it yet"
    reason = _REASONS.get(status.state)
    return _progress(status, now_ms) if reason is None else reason.format(status.running)


def _progress(status: QueueStatus, now_ms: int) -> str:
    progress = f"done up to {status.low}, {status.waiting} wait and {status.running} are handled"
    if status.stopped_at is not None:
        offset, why = status.stopped_at
        return f"{progress}; it stands still at offset {offset}, which cannot be read: {why}"
    if status.is_suspended:
        return f"{progress}; it is suspended after a failure, to keep the order"
    still_ms = 0 if status.waiting_since_ms is None else now_ms - status.waiting_since_ms
    if still_ms >= thresholds.STUCK_MS:
        return f"{progress}; it has made no progress for {format_duration(still_ms / 1000)}"
    if status.is_flow_controlled:
        return f"{progress}; flow control: it is not pulled until fewer wait"
    return progress
