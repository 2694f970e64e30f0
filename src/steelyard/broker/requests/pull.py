"""Pulling: 11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE, which differ in nothing here.

Flags: 1 the commit offset counts, 2 the pull may be held, 4 the filter comes with it. Others mean nothing to a broker.
Order: may the group read (pulling.py), what is there, then the commit, then, if nothing is there, waiting: for as long
as the client wants and not much longer, and not at all once too many wait; waking.py answers those who wait.

How much: 32 messages and 256 KiB is what Apache gives at most. Who asks for more than 32 gets up to 1,024, within 256
KiB if nothing is said of bytes, else within what is said, up to 4 MiB.

Left out: slaves (nobody is ever sent to one), static topics, the offsets of broadcasting members.
"""

from collections.abc import Mapping
from contextlib import suppress

from steelyard.broker.fencing import commit
from steelyard.broker.handlers import Handler
from steelyard.broker.options import BrokerOptions
from steelyard.broker.parking import Ask, Parked
from steelyard.broker.pulling import choose, compile_wanted, look, reach
from steelyard.broker.state import State
from steelyard.errors import ServerError
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import Pull
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_COMMITS, _MAY_WAIT, _BRINGS_FILTER = 1, 2, 4
_JAVA_MESSAGES = 32
_LONGEST_WAIT_MS = 300_000
"""Whoever wants to wait longer is told that there is nothing, and may ask again."""


def _pull(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(Pull)
    flags, queue_id = header.sys_flag, header.queue_id
    reached = reach(state, header.consumer_group, header.topic, queue_id, request, now_ms)
    if isinstance(reached, Command):
        return reached
    group, topic = reached.group.name, reached.topic.name
    own = compile_wanted(state, header.expression_type, header.subscription) if flags & _BRINGS_FILTER else None
    most, most_bytes = _room(header, state.options)
    ask = Ask(group, topic, queue_id, header.queue_offset, most, most_bytes, own, header.sub_version)
    wanted = choose(state, ask, reached.group, request, peer)
    if isinstance(wanted, Command):
        return wanted
    answer = look(state, ask, reached, wanted, request, peer, ask.offset)
    if flags & _COMMITS and header.commit_offset >= 0:
        with suppress(ServerError):  # no room for one more offset: no reason not to read
            commit(state, peer, group, topic, queue_id, header.commit_offset, None, now_ms)
    wait_ms = min(header.suspend_timeout_millis, _LONGEST_WAIT_MS)
    if (
        answer.code != ResponseCode.PULL_NOT_FOUND
        or not flags & _MAY_WAIT
        or wait_ms <= 0
        or request.is_oneway
        or len(state.parking) >= state.options.parked_pulls
    ):
        return answer
    key = reached.topic.key
    state.parking.park(
        Parked(ask, key, peer, request.opaque, request.header_type, now_ms + wait_ms, wanted, ask.offset)
    )
    if state.store.is_dirty:
        # A message that came with the same read of the socket, and is not in the log yet, came before the waiting.
        state.parking.arrived(key, ask.queue_id)
    return None


def _room(header: Pull, options: BrokerOptions) -> tuple[int, int]:
    """Return how many messages and bytes the answer may have."""
    most = max(1, min(header.max_msg_nums, options.max_pull_messages))
    asked = header.max_msg_bytes
    if asked is None or asked <= 0:
        return most, options.default_pull_bytes
    return most, min(asked, options.max_pull_bytes if most > _JAVA_MESSAGES else options.default_pull_bytes)


HANDLERS: Mapping[int, Handler] = {RequestCode.PULL_MESSAGE: _pull, RequestCode.LITE_PULL_MESSAGE: _pull}
