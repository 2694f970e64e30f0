"""What a consumer does and why, in plain words: its queues, the group as it sees it, and what looks wrong."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.balance.hazards import Hazard
from steelyard.balance.life import State
from steelyard.balance.looks import QueueLook
from steelyard.balance.member import Member
from steelyard.client.names import Names
from steelyard.model import Queue

__all__ = ["Explained", "QueueStanding", "explain_member"]


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """One queue of this member: where it is in its life, since when, and why."""

    queue: Queue
    state: str
    since_s: float
    why: str

    def __str__(self) -> str:
        return f"{self.queue} {self.state} for {self.since_s:.0f} s: {self.why}"


@dataclass(frozen=True, slots=True)
class Explained:
    """A consumer at one moment; as text it is what to show a person."""

    group: str
    id: str
    strategy: str
    members: tuple[str, ...]
    queues: tuple[QueueStanding, ...]
    others: Mapping[str, tuple[Queue, ...]] | None
    """What each other member has, by the last plan; None: that is not known."""
    hazards: tuple[Hazard, ...]

    def __str__(self) -> str:
        count = len(self.members)
        who = "nobody yet" if not count else "1 member" if count == 1 else f"{count} members"
        lines = [f"group {self.group}: {who}, shared by {self.strategy}; this is {self.id}"]
        lines += [f"  {standing}" for standing in self.queues] or ["  no queue is here"]
        if self.others is None:
            if count > 1:
                lines.append("what the others have is not known here")
        else:
            for member, queues in self.others.items():
                lines.append(f"{member} has {', '.join(map(str, queues)) or 'nothing'}")
        lines += [f"hazard: {hazard.sentence}" for hazard in self.hazards]
        return "\n".join(lines)


def explain_member(member: Member, names: Names, hazards: tuple[Hazard, ...], now_ms: int) -> Explained:
    """Look at a member."""
    options, owned = member.options, member.owned()
    others = None
    if owned is not None:
        others = {
            other: tuple(map(names.bare_queue, sorted(queues)))
            for other, queues in sorted(owned.items())
            if other != options.id
        }
    standings = [
        QueueStanding(names.bare_queue(look.queue), look.state.value, (now_ms - look.since_ms) / 1000, _why(look))
        for look in member.looks()
    ]
    return Explained(
        group=names.bare(options.group),
        id=options.id,
        strategy=member.strategy_name,
        members=member.members,
        queues=tuple(standings),
        others=others,
        hazards=tuple(
            Hazard(hazard.kind, names.bare_text(hazard.sentence)) for hazard in (*member.hazards(), *hazards)
        ),
    )


def _why(look: QueueLook) -> str:
    match look.state:
        case State.WANTED if look.denied_ms is not None:
            return "it is ours by plan, and another member has not let it go yet"
        case State.WANTED:
            return "it is ours by plan, and its lock is asked for"
        case State.ASKING:
            return "the other members are asked whether one of them holds it"
        case State.STARTING:
            return "how far the group has come in it is asked"
        case State.UNSURE:
            return "whether it is still ours has to be proven, and nothing starts until then"
        case State.DRAINING:
            return f"it goes to another member once {look.running} handlers are done"
        case State.COMMITTING:
            return "it goes to another member once the last commit is answered"
        case State.RELEASING:
            return "it goes to another member once its lock is given back"
        case _:
            return _progress(look)


def _progress(look: QueueLook) -> str:
    said = f"done up to {look.low}, {look.waiting} wait and {look.running} are handled"
    if look.stopped is not None:
        return f"{said}; it stands still at offset {look.stopped[0]}, which cannot be read: {look.stopped[1]}"
    if look.is_suspended:
        return f"{said}; it rests after a failure, since the order counts"
    if look.is_held_back:
        return f"{said}; it is not pulled from until fewer wait"
    return said
