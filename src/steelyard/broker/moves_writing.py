"""The history of moves is written into a topic of the broker's own, where it outlives the process and all can read it.

Changes of a group that come together are one record. When the group has come to rest, another record says how long that
took. A record is small and whole: who is there, who holds what, what moved and why (wire/moves.py has the form).

It may never disturb: a log that takes nothing is said once, the moves are counted and gone, and a tick writes so much
and no more. Nothing of it counts as a message that somebody sent.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import structs

from steelyard.balance.allocate import least_moves
from steelyard.broker.locks import QueueKey
from steelyard.broker.members import MemberGroup
from steelyard.broker.moves_story import CALM_MS, GroupStory, Rebalance
from steelyard.broker.owners import owners_of
from steelyard.broker.state import State
from steelyard.broker.storing import as_text
from steelyard.errors import SteelyardError
from steelyard.model.names import MOVES_TOPIC
from steelyard.wire.hosts import host_bytes
from steelyard.wire.moves import MovesRecord, RebalanceLine, write_moves
from steelyard.wire.property_names import KEYS, TAGS

__all__ = ["tick", "write_all"]

_KEY = MOVES_TOPIC.encode()
_RECORDS_A_TICK, _BYTES_A_TICK = 100, 1 << 20
_LARGEST_BYTES = 1 << 20
"""A record that is larger has only what counts."""
_MOST_OWNERS = 100_000

_SLOW_MS = 5_000
"""How long nothing must happen if fewer queues moved than must: handlers may be at work that end before they let go."""
_NEVER_MS = 30_000
"""After that nobody waits for queues that nobody takes."""
_LOOKS_A_TICK = 100
_FLOW_CELLS = 2_000
"""Members times topics for which the least is worked out over all topics; beyond, each counts by itself."""


def tick(state: State, now_ms: int) -> None:
    """Write down what is ripe, and which groups have come to rest."""
    moves, room = state.moves, _Room()
    for story, rebalance in list(moves.restless(now_ms))[:_LOOKS_A_TICK]:
        _look(state, story, rebalance, now_ms)
    for story in list(moves.ripe(now_ms)):
        if room.is_full:
            break
        room.take(_write(state, story, None, now_ms))
    moves.sweep(now_ms)


def write_all(state: State, now_ms: int) -> None:
    """Write down all that happened, since the broker is about to close."""
    for story in list(state.moves.ripe(now_ms, everything=True)):
        _write(state, story, None, now_ms)


class _Room:
    """How much a tick may still write."""

    def __init__(self) -> None:
        self._records, self._bytes = _RECORDS_A_TICK, _BYTES_A_TICK

    @property
    def is_full(self) -> bool:
        return self._records <= 0 or self._bytes <= 0

    def take(self, size: int) -> None:
        self._records -= 1
        self._bytes -= size


# -- at rest again ----------------------------------------------------------------------------------------------------


def _look(state: State, story: GroupStory, rebalance: Rebalance, now_ms: int) -> None:
    """See whether a group has come to rest."""
    calm_ms = now_ms - story.changed_ms
    rebalance.check_ms = max(now_ms, story.changed_ms + CALM_MS)
    if 0 <= calm_ms < CALM_MS:
        return
    rebalance.check_ms = now_ms + CALM_MS
    group = state.members.group(story.group)
    if group is None or calm_ms < 0:
        state.moves.ended(story, None)
        return
    owners = owners_of(state, group, now_ms)
    if any(-1 in row for row in owners.values()) or not owners:
        if calm_ms >= _NEVER_MS:
            state.moves.ended(story, None)
        return
    moved, least = rebalance.moved, _least(owners, group.ids, rebalance.before)
    if moved < least and calm_ms < _SLOW_MS:
        return
    line = RebalanceLine(began_ms=rebalance.began_ms, ended_ms=rebalance.ended_ms, moved=moved, least=min(moved, least))
    state.moves.ended(story, line)
    _write(state, story, line, now_ms)


def _least(owners: Mapping[str, Sequence[int]], ids: Sequence[str], before: Mapping[QueueKey, str | None]) -> int:
    """Return how many queues had to move from those who had them before, if all here are to be shared evenly."""
    places = {client_id: place for place, client_id in enumerate(ids)}
    gone = len(ids)
    flat: list[int] = []
    for topic, row in owners.items():
        for queue_id, place in enumerate(row):
            had = before.get((topic, queue_id), ids[place])
            flat.append(-1 if had is None else places.get(had, gone))
    cut = list(accumulate(map(len, owners.values()), initial=0))
    is_small = len(owners) * len(ids) <= _FLOW_CELLS
    subs = None if is_small else [range(len(ids))] * len(owners)
    return least_moves(cut, len(ids), flat, subs)


# -- records ----------------------------------------------------------------------------------------------------------


def _write(state: State, story: GroupStory, rebalance: RebalanceLine | None, now_ms: int) -> int:
    """Write down what happened in a group; return how large that was."""
    moves = state.moves
    body = b""
    if state.options.keep_moves:
        body = _body(_record(state, story, rebalance, now_ms))
        try:
            state.store.append(
                _KEY,
                0,
                body,
                as_text({TAGS: story.group, KEYS: story.group}),
                born_ms=now_ms,
                born_host=host_bytes(state.options.address),
                stored_ms=now_ms,
            )
            state.parking.arrived(_KEY, 0)
            moves.was_told = False
        except SteelyardError as error:
            moves.unwritten += 1
            if not moves.was_told:
                moves.was_told = True
                state.notes.append(f"the history of moves cannot be written, until it can they are counted: {error}")
    moves.written(story)
    return len(body)


def _record(state: State, story: GroupStory, rebalance: RebalanceLine | None, now_ms: int) -> MovesRecord:
    group = state.members.group(story.group)
    return MovesRecord(
        group=story.group,
        broker=state.options.name,
        at_ms=now_ms,
        members=() if group is None else tuple(group.ids),
        changed=tuple(story.members),
        owners={} if group is None else _owners(state, group, now_ms),
        moves=tuple(story.moves),
        rebalance=rebalance,
        left_out=story.left_out,
    )


def _owners(state: State, group: MemberGroup, now_ms: int) -> dict[str, tuple[int, ...]]:
    """Return who holds what; nothing where nobody locks: then members share queues in ways that are not told here."""
    if sum(group.queues.values()) > _MOST_OWNERS:
        return {}
    locks = next(state.locks.of(group.name, now_ms), None) is not None
    if not locks and not any(member.ours and not member.is_broadcasting for member in group.members.values()):
        return {}
    return owners_of(state, group, now_ms)


def _body(record: MovesRecord) -> bytes:
    """Write a record with as much as fits: who holds what counts for more than how it came to that."""
    body, moves = write_moves(record), record.moves
    for kept in (len(moves) // 4, 0):
        if len(body) <= _LARGEST_BYTES:
            return body
        left_out = record.left_out + len(moves) - kept
        body = write_moves(structs.replace(record, moves=moves[:kept], left_out=left_out))
    if len(body) <= _LARGEST_BYTES:
        return body
    return write_moves(
        MovesRecord(
            group=record.group,
            broker=record.broker,
            at_ms=record.at_ms,
            rebalance=record.rebalance,
            left_out=record.left_out + len(moves),
        )
    )
