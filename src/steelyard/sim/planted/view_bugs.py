"""Mistakes in whom a member believes to be in the group, when it looks again, and what it makes of that."""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.balance import views
from steelyard.balance.events import Event, GroupSeen, MembersChanged, Poked
from steelyard.balance.lists import Lists, Sight
from steelyard.balance.owners import OwnersSeen
from steelyard.balance.rounds import NEVER_MS, Rounds
from steelyard.balance.routes import Routes
from steelyard.balance.views import Views
from steelyard.model import Queue
from steelyard.sim.planted.bug import Bug, swap

__all__ = ["VIEW_BUGS"]

# What is right, for the wrong ones that go on from there.
_sight, _note, _note_a_reason = Lists.sight, Lists.note, Views._note_a_reason
_owners_of = Views._owners_of


# -- lists ------------------------------------------------------------------------------------------------------------


def _see_ourselves_first(known: Lists, brokers: Sequence[str], now_ms: int) -> Sight:
    sight = _sight(known, brokers, now_ms)
    others = tuple(member for member in sight.members if member != known._id)
    return replace(sight, members=(known._id, *others))


def _see_one_list(known: Lists, brokers: Sequence[str], now_ms: int) -> Sight:
    answering = [broker for broker in brokers if known.answers(broker)]
    return _sight(known, answering[:1] or brokers, now_ms)


def _keep_first_owners(known: Lists, seen: GroupSeen, now_ms: int) -> bool:
    before = known._lists.get(seen.broker)
    has_changed = _note(known, seen, now_ms)
    if before is not None and before.owners:
        known._lists[seen.broker].owners = before.owners
    return has_changed


def _keep_one_answer_back(known: Lists, seen: GroupSeen, now_ms: int) -> bool:
    before: dict[str, GroupSeen] = vars(known).setdefault("_answers_before", {})
    told, before[seen.broker] = before.get(seen.broker, seen), seen
    return _note(known, told, now_ms)


def _depart_at_once(_known: Lists, _broker: str, missing_ms: int) -> int:
    return missing_ms


# -- owners -----------------------------------------------------------------------------------------------------------


def _share_as_java_does_when_somebody_is_silent(known: Views, sight: Sight, now_ms: int) -> OwnersSeen:
    seen = _owners_of(known, sight, now_ms)
    return OwnersSeen(None) if seen.unanswering else OwnersSeen(seen.owned)


# -- looking ----------------------------------------------------------------------------------------------------------


def _hear_no_notice(known: Views, event: Event, now_ms: int) -> None:
    if not isinstance(event, MembersChanged):
        _note_a_reason(known, event, now_ms)


def _hear_no_poke(known: Views, event: Event, now_ms: int) -> None:
    if not isinstance(event, Poked):
        _note_a_reason(known, event, now_ms)


def _never_again(_last_ms: int, _soon_ms: int, _seldom_ms: int, _calm_ms: int) -> int:
    return NEVER_MS


def _due_at_once(rounds: Rounds) -> int:
    return NEVER_MS if rounds.is_running else rounds._wanted_ms


def _nothing_is_new(_routes: Routes, _queue: Queue) -> bool:
    return False


VIEW_BUGS: tuple[Bug, ...] = (
    Bug(
        "planned-over-unsorted-ids",
        "Each member plans with itself as the first of all.",
        ("churn", "storm"),
        (swap(Lists, "sight", _see_ourselves_first),),
    ),
    Bug(
        "one-list-for-all",
        "A member believes the list of one broker, and does not ask the others.",
        ("network", "wild"),
        (swap(Lists, "sight", _see_one_list),),
    ),
    Bug(
        "owners-never-learnt",
        "A member plans by the owners that it was told first.",
        ("churn", "storm"),
        (swap(Lists, "note", _keep_first_owners),),
    ),
    Bug(
        "list-one-answer-old",
        "A member plans by the list that its broker told the last time but one.",
        ("crash", "churn"),
        (swap(Lists, "note", _keep_one_answer_back),),
    ),
    Bug(
        "silence-changes-the-strategy",
        "While a member does not answer what it holds, the others share as Java does.",
        ("hung",),
        (swap(Views, "_owners_of", _share_as_java_does_when_somebody_is_silent),),
    ),
    Bug(
        "blip-counts-as-gone",
        "A member that is off a list for a moment counts as gone.",
        ("network",),
        (swap(Lists, "_departs_ms", _depart_at_once),),
    ),
    Bug(
        "lost-notice-never-repaired",
        "A member looks at the group only when it is told that the group changed.",
        ("storm",),
        (swap(Views, "_note_a_reason", _hear_no_poke), swap(views, "next_look_ms", _never_again)),
    ),
    Bug(
        "notice-unheard",
        "A member does not look at the group when it is told that the group changed.",
        ("churn", "crash"),
        (swap(Views, "_note_a_reason", _hear_no_notice),),
    ),
    Bug(
        "poke-unheard",
        "A member that holds what another waits for does not look at the group.",
        ("patience", "storm"),
        (swap(Views, "_note_a_reason", _hear_no_poke),),
    ),
    Bug(
        "looks-without-a-gap",
        "A member looks at the group after every notice.",
        ("storm",),
        (swap(Rounds, "due_ms", _due_at_once),),
    ),
    Bug(
        "new-queue-from-its-end",
        "A queue that was added is read from its end.",
        ("late",),
        (swap(Routes, "is_new", _nothing_is_new),),
    ),
)
"""What can be wrong with views."""
