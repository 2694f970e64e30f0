"""Bugs in rebalancing: whom a member believes to be in the group, when it checks again, and what it makes of that."""

from collections.abc import Sequence
from dataclasses import replace

from simulator.mutants.mutant import Mutant, patch_attribute
from steelyard.balance.group import rebalance
from steelyard.balance.group.claimed_queues import KnownOwners
from steelyard.balance.group.events import Event, HandoverRequested, MemberListReceived, MembersChanged
from steelyard.balance.group.member_lists import GroupSnapshot, MemberLists
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.balance.group.timers import NEVER_MS, RebalanceTimer
from steelyard.balance.group.topic_routes import SubscribedRoutes
from steelyard.model import Queue

# The correct functions, for the wrong ones that call them.
_snapshot, _update, _handle_trigger = MemberLists.snapshot, MemberLists.update, Rebalancer._handle_trigger
_known_owners = Rebalancer._known_owners


# -- lists ------------------------------------------------------------------------------------------------------------


def _list_ourselves_first(lists: MemberLists, brokers: Sequence[str], now_ms: int) -> GroupSnapshot:
    snapshot = _snapshot(lists, brokers, now_ms)
    others = tuple(member for member in snapshot.members if member != lists._id)
    return replace(snapshot, members=(lists._id, *others))


def _use_one_list(lists: MemberLists, brokers: Sequence[str], now_ms: int) -> GroupSnapshot:
    answering = [broker for broker in brokers if lists.is_answering(broker)]
    return _snapshot(lists, answering[:1] or brokers, now_ms)


def _keep_first_owners(lists: MemberLists, received: MemberListReceived, now_ms: int) -> bool:
    before = lists._lists.get(received.broker)
    has_changed = _update(lists, received, now_ms)
    if before is not None and before.owners:
        lists._lists[received.broker].owners = before.owners
    return has_changed


def _use_previous_list(lists: MemberLists, received: MemberListReceived, now_ms: int) -> bool:
    before: dict[str, MemberListReceived] = vars(lists).setdefault("_answers_before", {})
    used, before[received.broker] = before.get(received.broker, received), received
    return _update(lists, used, now_ms)


def _drop_missing_at_once(_lists: MemberLists, _broker: str, missing_ms: int) -> int:
    return missing_ms


# -- owners -----------------------------------------------------------------------------------------------------------


def _use_java_strategy_when_unanswered(rebalancer: Rebalancer, snapshot: GroupSnapshot, now_ms: int) -> KnownOwners:
    owners = _known_owners(rebalancer, snapshot, now_ms)
    return KnownOwners(None) if owners.repeatedly_unresponsive else KnownOwners(owners.owned_by_member)


# -- triggers ---------------------------------------------------------------------------------------------------------


def _ignore_notification(rebalancer: Rebalancer, event: Event, now_ms: int) -> None:
    if not isinstance(event, MembersChanged):
        _handle_trigger(rebalancer, event, now_ms)


def _ignore_handover_request(rebalancer: Rebalancer, event: Event, now_ms: int) -> None:
    if not isinstance(event, HandoverRequested):
        _handle_trigger(rebalancer, event, now_ms)


def _never_rebalance_again(_last_ms: int, _soon_ms: int, _seldom_ms: int, _calm_ms: int) -> int:
    return NEVER_MS


def _rebalance_at_once(timer: RebalanceTimer) -> int:
    return NEVER_MS if timer.is_running else timer._requested_ms


def _nothing_is_new(_routes: SubscribedRoutes, _queue: Queue) -> bool:
    return False


REBALANCE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "planned-over-unsorted-ids",
        "Each member computes the assignment with itself as the first.",
        ("churn", "storm"),
        (patch_attribute(MemberLists, "snapshot", _list_ourselves_first),),
    ),
    Mutant(
        "one-list-for-all",
        "A member uses the list of one broker, and does not ask the others.",
        ("network", "wild"),
        (patch_attribute(MemberLists, "snapshot", _use_one_list),),
    ),
    Mutant(
        "owners-never-updated",
        "A member plans by the first owners that it received.",
        ("churn", "storm"),
        (patch_attribute(MemberLists, "update", _keep_first_owners),),
    ),
    Mutant(
        "list-one-response-old",
        "A member plans by the last list but one of its broker.",
        ("crash", "churn"),
        (patch_attribute(MemberLists, "update", _use_previous_list),),
    ),
    Mutant(
        "silence-changes-the-strategy",
        "While a member does not report what it holds, the others use a Java strategy.",
        ("hung",),
        (patch_attribute(Rebalancer, "_known_owners", _use_java_strategy_when_unanswered),),
    ),
    Mutant(
        "blip-counts-as-gone",
        "A member that is off a list for a moment counts as gone.",
        ("network",),
        (patch_attribute(MemberLists, "_departs_ms", _drop_missing_at_once),),
    ),
    Mutant(
        "lost-notification-never-repaired",
        "A member rebalances only after notifications.",
        ("storm",),
        (
            patch_attribute(Rebalancer, "_handle_trigger", _ignore_handover_request),
            patch_attribute(rebalance, "next_poll_ms", _never_rebalance_again),
        ),
    ),
    Mutant(
        "notification-ignored",
        "A member does not rebalance after a notification.",
        ("churn", "crash"),
        (patch_attribute(Rebalancer, "_handle_trigger", _ignore_notification),),
    ),
    Mutant(
        "handover-request-ignored",
        "A member ignores handover requests for queues that it holds.",
        ("patience", "storm"),
        (patch_attribute(Rebalancer, "_handle_trigger", _ignore_handover_request),),
    ),
    Mutant(
        "rebalances-without-a-gap",
        "A member rebalances after every notification.",
        ("storm",),
        (patch_attribute(RebalanceTimer, "due_ms", _rebalance_at_once),),
    ),
    Mutant(
        "new-queue-from-its-end",
        "A new queue is read from its end.",
        ("late",),
        (patch_attribute(SubscribedRoutes, "is_new", _nothing_is_new),),
    ),
)
"""Bugs in rebalancing."""
