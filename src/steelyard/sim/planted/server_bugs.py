"""Mistakes in who may do what, and in what members are told: locks, commits, the registry, notices, routes."""

from collections.abc import Iterable

from msgspec.structs import replace

from steelyard.broker import fencing, membership
from steelyard.broker.locks import HowFreed, Lock, Locks, QueueKey, Watch
from steelyard.broker.members import Beat, Member, MemberGroup, Members
from steelyard.broker.requests import lists
from steelyard.broker.state import State
from steelyard.nameserver.registry import Registry
from steelyard.nameserver.routes import Routes
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.bodies.members import GroupView
from steelyard.wire.bodies.routes import QueueEntry
from steelyard.wire.peers import Peer

__all__ = ["SERVER_BUGS"]

_STALE_MS = 5_000

# What is right, for the wrong ones that go on from there.
_init_locks, _release, _refresh = Locks.__init__, Locks.release, Members._refresh
_view, _put = lists._view, Routes.put


# -- locks and commits ------------------------------------------------------------------------------------------------


def _is_never_fenced(
    _state: State, _lock: Lock, _peer: Peer, _group: str, _topic: str, _queue_id: int, _offset: int, _epoch: int | None
) -> bool:
    return False


def _renew_or_take(
    locks: Locks,
    group: str,
    key: QueueKey,
    owner: str,
    _epoch: int | None,
    now_ms: int,
    *,
    until_ms: int | None,
    is_lease: bool,
) -> Lock | None:
    return Locks.take(locks, group, key, owner, now_ms, until_ms=until_ms, is_lease=is_lease)


def _take_from_anybody(
    locks: Locks, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
) -> Lock | None:
    if not locks.is_settled(group, now_ms):
        return None
    return locks._put(group, key, Lock(owner, locks._next_epoch(), now_ms, until_ms, is_lease))


def _release_for_anybody(
    locks: Locks, group: str, key: QueueKey, owner: str, _epoch: int | None, now_ms: int, *, how: HowFreed
) -> bool:
    lock = locks._groups.get(group, {}).get(key)
    return _release(locks, group, key, owner if lock is None else lock.owner, None, now_ms, how=how)


def _keep_locks(_locks: Locks, _group: str, _owner: str, _now_ms: int, *, order_grace_ms: int) -> None:
    """Let what a dead member held be held for ever."""
    del order_grace_ms


def _free_at_once(locks: Locks, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
    del order_grace_ms
    Locks.left(locks, group, owner, now_ms)


def _begin_epochs_again(
    locks: Locks, started_ms: int, settle_ms: int, known_groups: Iterable[str], watch: Watch | None = None
) -> None:
    _init_locks(locks, started_ms, settle_ms, known_groups, watch)
    locks._epoch = 0


def _is_always_settled(_locks: Locks, _group: str, _now_ms: int) -> bool:
    return True


def _claim_nothing(_locks: Locks, _group: str, _key: QueueKey, _owner: str, _epoch: int, _now_ms: int) -> bool:
    return False


# -- members ----------------------------------------------------------------------------------------------------------


def _refresh_beside(members: Members, member: Member, beat: Beat, now_ms: int) -> None:
    """Refresh a member, and let its older lines speak for it as well."""
    older = dict(member.lines)
    _refresh(members, member, beat, now_ms)
    for number, line in older.items():
        member.lines.setdefault(number, line)
        members._on_line.setdefault(number, {})[member.group] = member


def _is_never_stale(_members: Members, _beat: Beat) -> bool:
    return False


def _nobody_is_silent(_members: Members, _now_ms: int) -> list[Member]:
    return []


def _all_are_overdue(members: Members, _closed_before_ms: int) -> list[Member]:
    return list(members._closed.values())


def _tell_nobody(_state: State, _group: MemberGroup, _member: Member) -> None:
    """Keep a change of the group to oneself."""


# -- what members are told of who holds what --------------------------------------------------------------------------


def _view_of_before(state: State, group: MemberGroup, now_ms: int) -> GroupView:
    """Tell the owners as they were a while ago, in the places that the members have now."""
    kept: dict[str, tuple[int, GroupView]] = state.__dict__.setdefault("kept_views", {})
    view = _view(state, group, now_ms)
    at_ms, known = kept.setdefault(group.name, (now_ms, view))
    if now_ms - at_ms >= _STALE_MS or known.queues != view.queues:
        kept[group.name] = now_ms, view
        return view
    return replace(view, owners=known.owners)


def _view_by_arrival(state: State, group: MemberGroup, now_ms: int) -> GroupView:
    """Tell the owners by the order in which members came, where readers take it for the order of their names."""
    view = _view(state, group, now_ms)
    came, named = list(group.members), group.ids
    places = [came.index(client_id) for client_id in named]
    owners = {
        topic: tuple(place if place < 0 else places[place] for place in row)
        for topic, row in (view.owners or {}).items()
    }
    return replace(view, owners=owners)


# -- name servers -----------------------------------------------------------------------------------------------------


def _forget_all(registry: Registry, _peer: Peer) -> None:
    for broker in registry.brokers:
        for replica in list(broker.replicas.values()):
            registry._leave(replica)


def _put_new_only(routes: Routes, topic: str, entry: QueueEntry) -> bool:
    return routes.has(topic, entry.broker_name) or _put(routes, topic, entry)


SERVER_BUGS = (
    Bug(
        "fencing-skipped",
        "A commit of a member that lost the queue is taken.",
        ("mixed",),
        (swap(fencing, "_is_fenced", _is_never_fenced),),
    ),
    Bug(
        "renewal-granted-anew",
        "A renewal of a lock that was lost takes it again.",
        ("hung", "network", "restart"),
        (swap(Locks, "renew", _renew_or_take),),
    ),
    Bug(
        "lock-taken-over",
        "A lock is given to whoever asks, held or not.",
        ("churn", "storm"),
        (swap(Locks, "take", _take_from_anybody),),
    ),
    Bug(
        "unlocked-by-anybody",
        "An unlock frees a queue whoever holds it.",
        ("network", "wild"),
        (swap(Locks, "release", _release_for_anybody),),
    ),
    Bug(
        "lease-outlives-member",
        "What a member held stays locked when the member is gone.",
        ("crash", "hung"),
        (swap(Locks, "lost", _keep_locks),),
    ),
    Bug(
        "order-grace-forgotten",
        "A queue that is handled in order changes hands while its last handler may still run.",
        ("order",),
        (swap(Locks, "lost", _free_at_once),),
    ),
    Bug(
        "epochs-begin-again",
        "A broker that starts again counts epochs from the beginning.",
        ("restart",),
        (swap(Locks, "__init__", _begin_epochs_again),),
    ),
    Bug(
        "settling-ignored",
        "A broker that starts again gives queues to whoever asks first.",
        ("restart", "wild"),
        (swap(Locks, "is_settled", _is_always_settled),),
    ),
    Bug(
        "claims-ignored",
        "A broker that starts again does not let members go on with what they held.",
        ("restart",),
        (swap(Locks, "claim", _claim_nothing),),
    ),
    Bug(
        "replaced-line-commits",
        "A line that its member has replaced still speaks for it.",
        ("network", "wild"),
        (swap(Members, "_refresh", _refresh_beside),),
    ),
    Bug(
        "replaced-line-registers",
        "A heartbeat that comes late on a replaced line takes the member back to that line.",
        ("network", "wild"),
        (swap(Members, "is_stale", _is_never_stale),),
    ),
    Bug(
        "silence-unnoticed",
        "A member that fell silent is listed for ever.",
        ("hung",),
        (swap(Members, "silent", _nobody_is_silent),),
    ),
    Bug(
        "line-grace-forgotten",
        "A member is counted out as soon as its line closes, though it comes back at once.",
        ("network",),
        (swap(Members, "overdue", _all_are_overdue),),
    ),
    Bug(
        "notices-never-sent",
        "Members are not told that their group changed.",
        ("churn", "crash"),
        (swap(membership, "_tell", _tell_nobody),),
    ),
    Bug(
        "owners-of-before",
        "Members are told who held what some seconds ago.",
        ("churn", "storm"),
        (swap(lists, "_view", _view_of_before),),
    ),
    Bug(
        "owners-misplaced",
        "Members are told the wrong owners: places in one list are taken for those in another.",
        ("churn", "storm"),
        (swap(lists, "_view", _view_by_arrival),),
    ),
    Bug(
        "any-line-ends-brokers",
        "A name server forgets its brokers when any line closes.",
        ("churn", "routes"),
        (swap(Registry, "line_closed", _forget_all),),
    ),
    Bug(
        "routes-frozen",
        "A name server keeps the number of queues that it was told first.",
        ("routes",),
        (swap(Routes, "put", _put_new_only),),
    ),
)
"""What can be wrong with sharing."""
