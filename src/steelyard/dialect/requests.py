"""What servers ask of a member, on the member's own line.

40  NOTIFY_CONSUMER_IDS_CHANGED    the group changed; oneway
307 GET_CONSUMER_RUNNING_INFO      what do you hold: from another member, who may say what it waits for (then we look at
                                   the group again), or from an administrator's tool
220 RESET_CONSUMER_CLIENT_OFFSET   go on at other offsets; a table, or a list where the sender takes us for a C++ client
All others are refused (3), so that who asked need not wait; a request that is oneway is passed over.

Left out: 309 and 221, which need the user's code and its offsets (asked.py), and 39 and 326, which are for producers.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from steelyard.balance.events import Event, MembersChanged, OffsetReset, Poked
from steelyard.balance.holdings import Holdings
from steelyard.balance.member_options import MemberOptions
from steelyard.errors import MalformedBody, SteelyardError
from steelyard.model import Queue, Subscription
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.bodies.offsets import ResetOffsets, ResetOffsetsList
from steelyard.wire.bodies.running import QueueState, RunningState, RunningWord
from steelyard.wire.codes import OUR_VERSION, ResponseCode
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.common import Group
from steelyard.wire.headers.group import AskRunningState, ResetOffset
from steelyard.wire.maps import ByQueue

__all__ = ["Served", "Tells", "running_state", "serve"]

_HELD, _DROPPED = QueueState(), QueueState(dropped=True)
_LONGEST_REMARK = 500

Tells = Callable[[RunningState, bool], RunningState]
"""Adds what only a client knows to what a member says of itself; told whether the stacks of threads are wanted."""

Served = tuple[list[Event], Command | None]
"""What a request tells us, and our answer, where it wants one."""


def serve(
    options: MemberOptions,
    wanted: Iterable[Subscription],
    broker: str,
    request: Command,
    holdings: Callable[[Sequence[Queue]], Holdings],
    tells: Tells | None = None,
) -> Served:
    """Take a request of a broker; nothing in it can do worse than be refused."""
    answer: Command | None
    try:
        match request.code:
            case Code.NOTIFY_CONSUMER_IDS_CHANGED:
                heard: list[Event] = [MembersChanged(broker)] if _is_ours(options, request) else []
                return heard, None
            case Code.GET_CONSUMER_RUNNING_INFO:
                heard, answer = _running(options, wanted, request, holdings, tells)
            case Code.RESET_CONSUMER_CLIENT_OFFSET:
                heard, answer = _reset(options, request), answer_to(request)
            case _:
                heard, answer = [], _refused(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not known here")
    except SteelyardError as error:
        heard, answer = [], _refused(request, ResponseCode.SYSTEM_ERROR, str(error))
    return heard, None if request.is_oneway else structs.replace(answer, version=OUR_VERSION)


def _is_ours(options: MemberOptions, request: Command) -> bool:
    return request.header(Group).consumer_group == options.group


def _running(
    options: MemberOptions,
    wanted: Iterable[Subscription],
    request: Command,
    holdings: Callable[[Sequence[Queue]], Holdings],
    tells: Tells | None,
) -> tuple[list[Event], Command]:
    header = request.header(AskRunningState)
    if header.consumer_group != options.group or header.client_id != options.id:
        who = f"{header.client_id[:80]} of group {header.consumer_group[:80]}"
        here = f"{options.id} of group {options.group}"
        return [], _refused(request, ResponseCode.SYSTEM_ERROR, f"it is for {who}, and this is {here}")
    heard: list[Event] = []
    waits_for: tuple[Queue, ...] = ()
    if header.steelyard_wants:
        waits_for = decode_body(tuple[Queue, ...], header.steelyard_wants.encode())
    if waits_for or header.steelyard_asker:
        heard.append(Poked(header.steelyard_asker, waits_for))
    state = running_state(wanted, holdings(waits_for))
    if tells is not None:
        state = tells(state, header.jstack_enable or False)
    return heard, answer_to(request, body=encode_body(state))


def running_state(wanted: Iterable[Subscription], holdings: Holdings) -> RunningState:
    """Return what a member says of itself: in Java's words, and in ours for our own."""
    draining = set(holdings.draining)
    return RunningState(
        queues=ByQueue({queue: _DROPPED if queue in draining else _HELD for queue in holdings.held}),
        steelyard=RunningWord(
            held=holdings.held,
            draining=holdings.draining,
            wanted=holdings.wanted,
            departed=holdings.departed,
            unheard=holdings.unheard or None,
            may_hold=holdings.may_hold or None,
            stopped=holdings.stopped or None,
        ),
        subscriptions=tuple(map(SubscriptionBody.of, wanted)),
    )


def _reset(options: MemberOptions, request: Command) -> list[Event]:
    if request.header(ResetOffset).group != options.group:
        return []
    try:
        table = decode_body(ResetOffsets, request.body)
    except MalformedBody:
        table = decode_body(ResetOffsetsList, request.body).table()
    return [OffsetReset(queue, offset) for queue, offset in sorted(table.offsets.items()) if offset >= 0]


def _refused(request: Command, code: ResponseCode, why: str) -> Command:
    return answer_to(request, code, remark=f"request {request.code} was not served: {why[:_LONGEST_REMARK]}")
